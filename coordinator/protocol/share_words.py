"""Words of shares, compiled: a seed expands to uniform words, which are added and subtracted modulo 2**32."""

import numpy as np
from numba import uint32, uint64

from coordinator.protocol.arrays import Bits, Counts, Words2, Words32
from coordinator.protocol.compiled import borrowing, compiled
from coordinator.protocol.hashing import LOW, siphash1


@borrowing
def _expand(key0: np.uint64, key1: np.uint64, words: Counts) -> None:
    """Write the words that a seed of 128 bits expands to: halves of SipHash-2-4 of 0, 1, ... under that key."""
    half = words.size >> 1
    for lane in range(half):
        word = siphash1(key0, key1, uint64(lane))
        words[2 * lane] = uint32(word & LOW)
        words[2 * lane + 1] = uint32(word >> uint64(32))
    if words.size & 1:
        words[words.size - 1] = uint32(siphash1(key0, key1, uint64(half)) & LOW)


@compiled
def expansions(keys: Words2, width: int) -> Words32:
    """Return the words that each seed expands to, uint32, shape (devices, width).

    Shapes: ``keys`` (devices, 2), the seeds as two 64-bit words.
    """
    words = np.empty((len(keys), width), np.uint32)
    for k in range(len(keys)):
        _expand(keys[k, 0], keys[k, 1], words[k])
    return words


@compiled
def hide(keys: Words2, heard: Bits, words: Words32) -> None:
    """Subtract from each device's words what its seed expands to; the words of a silent device become 0."""
    mask = np.empty(words.shape[1], np.uint32)
    for k in range(len(words)):
        if heard[k]:
            _expand(keys[k, 0], keys[k, 1], mask)
            for place in range(mask.size):
                words[k, place] -= mask[place]
        else:
            words[k, :] = 0


@compiled
def add_expansions(keys: Words2, heard: Bits, total: Counts) -> None:
    """Add to a sum what the seeds of answering devices expand to. Shapes: ``total`` (width,)."""
    words = np.empty(total.size, np.uint32)
    for k in range(len(keys)):
        if heard[k]:
            _expand(keys[k, 0], keys[k, 1], words)
            for place in range(total.size):
                total[place] += words[place]


@compiled
def add_rows(rows: Words32, heard: Bits, total: Counts) -> None:
    """Add the words of answering devices to a sum. Shapes: ``rows`` (devices, width); ``total`` (width,)."""
    for k in range(len(rows)):
        if heard[k]:
            for place in range(total.size):
                total[place] += rows[k, place]
