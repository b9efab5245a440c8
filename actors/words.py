"""Words that a release of many bits is drawn from: SipHash of a counter, under a device's key for one query; compiled.

A release of thousands of bits reveals much about the words that it is drawn from. So these words are outputs of a keyed
pseudorandom function with a 128-bit key, like every flip. Such a release could determine a 64-bit stream.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Words
from coordinator.protocol.compiled import borrowing, inlined
from coordinator.protocol.hashing import siphash1

AHEAD = 16
"""Words that are drawn ahead together, two values each. Releases depend on it, so it must not change."""
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def draw_words(low: np.uint64, high: np.uint64, first: np.uint64, step: np.uint64, words: Words) -> None:
    """Write the words of counters ``first``, ``first + step``, ... under the key ``(low, high)``."""
    for k in range(words.size):
        words[k] = siphash1(low, high, first + uint64(k) * step)


@borrowing
def uniform(low: np.uint64, high: np.uint64, ahead: Words, drawn: int, bound: int) -> tuple[int, int]:
    """Return a uniform whole number below ``bound`` (at most 2**32), and how many halves of words are drawn by now.

    Halves are taken one after the other, the low half of a word first; multiplication with rejection makes them
    uniform (Lemire, 2019). ``ahead`` holds the `AHEAD` words that the next halves come from, where any are left.
    """
    many, rejected = uint64(bound), uint64((1 << 32) % bound)
    while True:
        place = drawn & (2 * AHEAD - 1)
        if place == 0:
            draw_words(low, high, uint64(drawn >> 1), uint64(1), ahead)
        word = ahead[place >> 1]
        product = ((word >> _HALF) if place & 1 else (word & _LOW)) * many
        drawn += 1
        if (product & _LOW) >= rejected:
            return int(product >> _HALF), drawn
