"""Hashes under every coin, compiled: SipHash, public streams, uniform numbers, ones in words, and words of shares."""

import numpy as np

from coordinator.protocol.arrays import Bits, Counts, Words, Words2, Words32
from coordinator.protocol.compiled import borrowing, compiled, inlined, uint32, uint64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)


@inlined
def draw(stream: np.uint64, lane: np.uint64) -> np.uint64:
    """Return the 64-bit word of ``lane`` in ``stream``: a counter-based draw, in any order, at no state."""
    word = stream + (uint64(lane) + uint64(1)) * GOLDEN
    word = (word ^ (word >> uint64(30))) * _A
    word = (word ^ (word >> uint64(27))) * _B
    return word ^ (word >> uint64(31))


@inlined
def _rotate(word: np.uint64, by: np.uint64) -> np.uint64:
    return (word << by) | (word >> (uint64(64) - by))


_State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@inlined
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> _State:
    v0 = v0 + v1
    v2 = v2 + v3
    v1 = _rotate(v1, uint64(13)) ^ v0
    v3 = _rotate(v3, uint64(16)) ^ v2
    v0 = _rotate(v0, uint64(32))
    v0 = v0 + v3
    v2 = v2 + v1
    v3 = _rotate(v3, uint64(21)) ^ v0
    v1 = _rotate(v1, uint64(17)) ^ v2
    v2 = _rotate(v2, uint64(32))
    return v0, v1, v2, v3


@inlined
def _start(key0: np.uint64, key1: np.uint64) -> _State:
    return (
        uint64(0x736F6D6570736575) ^ key0,
        uint64(0x646F72616E646F6D) ^ key1,
        uint64(0x6C7967656E657261) ^ key0,
        uint64(0x7465646279746573) ^ key1,
    )


@inlined
def _absorb(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, word: np.uint64) -> _State:
    v3 = v3 ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@inlined
def _finish(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, length: np.uint64) -> np.uint64:
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, length << uint64(56))
    v2 = v2 ^ uint64(0xFF)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@inlined
def siphash1(key0: np.uint64, key1: np.uint64, word: np.uint64) -> np.uint64:
    """Return SipHash-2-4 of one 64-bit word (8 bytes, little-endian) under the 128-bit key ``(key0, key1)``."""
    v0, v1, v2, v3 = _start(key0, key1)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
    return _finish(v0, v1, v2, v3, uint64(8))


@inlined
def siphash4(
    key0: np.uint64, key1: np.uint64, first: np.uint64, second: np.uint64, third: np.uint64, fourth: np.uint64
) -> np.uint64:
    """Return SipHash-2-4 of four 64-bit words (32 bytes) under the 128-bit key ``(key0, key1)``."""
    v0, v1, v2, v3 = _start(key0, key1)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, first)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, second)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, third)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, fourth)
    return _finish(v0, v1, v2, v3, uint64(32))


@compiled
def device_streams(key: Words, first: int, count: int) -> Words:
    """Return the public streams of ``count`` devices in one round, uint64; `hashing.draw` gives a stream's lanes."""
    streams = np.empty(count, np.uint64)
    key0, key1 = key[0], key[1]
    for k in range(count):
        streams[k] = siphash1(key0, key1, uint64(first) + uint64(k))
    return streams


LOW = np.uint64(0xFFFFFFFF)  # Mask of a word's low half


@compiled
def below(stream: np.uint64, lane: int | np.int64, bound: int | np.int64) -> int:
    """Return a uniform whole number below ``bound`` (at most 2**32): multiplication with rejection (Lemire, 2019)."""
    # Where a caller writes a number out, numba would compile this for that number alone: it says int64(0)
    size, step = uint64(bound), uint64(0)
    while True:
        word = draw(stream, uint64(lane) + (step << uint64(32)))
        for half_word in (word & LOW, word >> uint64(32)):
            product = half_word * size
            rest = product & LOW
            if rest >= size or rest >= uint64((1 << 32) % bound):
                return int(product >> uint64(32))
        step += uint64(1)


@inlined
def ones(word: np.uint64) -> int:
    """Return how many bits of a word are 1."""
    word -= (word >> uint64(1)) & uint64(0x5555555555555555)
    word = (word & uint64(0x3333333333333333)) + ((word >> uint64(2)) & uint64(0x3333333333333333))
    word = (word + (word >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * uint64(0x0101010101010101)) >> uint64(56))


@inlined
def zeros_below(word: np.uint64) -> int:
    """Return how many zeros stand below the lowest 1 of a word that is not 0."""
    return ones((word & (~word + uint64(1))) - uint64(1))


@borrowing
def _expand(key0: np.uint64, key1: np.uint64, uint32s: Counts) -> None:
    """Write the words that a seed of 128 bits expands to: halves of SipHash-2-4 of 0, 1, ... under that key."""
    pairs = uint32s.size >> 1
    for lane in range(pairs):
        word = siphash1(key0, key1, uint64(lane))
        uint32s[2 * lane] = uint32(word & LOW)
        uint32s[2 * lane + 1] = uint32(word >> uint64(32))
    if uint32s.size & 1:
        uint32s[uint32s.size - 1] = uint32(siphash1(key0, key1, uint64(pairs)) & LOW)


@compiled
def expansions(keys: Words2, width: int) -> Words32:
    """Return the words that each seed expands to, uint32, shape (devices, width)."""
    # Shapes: ``keys`` (devices, 2), the seeds as two 64-bit words.
    vectors = np.empty((len(keys), width), np.uint32)
    for k in range(len(keys)):
        _expand(keys[k, 0], keys[k, 1], vectors[k])
    return vectors


@compiled
def hide(keys: Words2, heard: Bits, vectors: Words32) -> None:
    """Subtract from each device's words what its seed expands to; the words of a silent device become 0."""
    mask = np.empty(vectors.shape[1], np.uint32)
    for k in range(len(vectors)):
        if heard[k]:
            _expand(keys[k, 0], keys[k, 1], mask)
            for coordinate in range(mask.size):
                vectors[k, coordinate] -= mask[coordinate]
        else:
            vectors[k, :] = 0


@compiled
def add_expansions(keys: Words2, heard: Bits, total: Counts) -> None:
    """Add to a sum what the seeds of answering devices expand to. Shapes: ``total`` (width,)."""
    mask = np.empty(total.size, np.uint32)
    for k in range(len(keys)):
        if heard[k]:
            _expand(keys[k, 0], keys[k, 1], mask)
            for coordinate in range(total.size):
                total[coordinate] += mask[coordinate]


@compiled
def add_rows(rows: Words32, heard: Bits, total: Counts) -> None:
    """Add the words of answering devices to a sum. Shapes: ``rows`` (devices, width); ``total`` (width,)."""
    for k in range(len(rows)):
        if heard[k]:
            for coordinate in range(total.size):
                total[coordinate] += rows[k, coordinate]
