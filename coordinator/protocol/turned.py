"""Public coins of turned signs: a sign and a sensing coin of every item, 64 items to a word, on both sides.

A query about turned signs has ``levels = 2**b``. Device u's coins of item i are bit ``i mod 64`` of lanes
``(b + 1) (i // 64)`` to ``(b + 1) (i // 64) + b`` of its public stream: first the sign, 1 for +1, then the b bits of a
whole number, the highest first. The item is sensed if that number is below the item's entry of the query's ``sensed``.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Indices, Words2
from coordinator.protocol.compiled import compiled, inlined
from coordinator.protocol.hashing import draw

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def level_bits(levels: int) -> int:
    """Return how many bits a sensing coin of so many levels, a power of two, has."""
    return levels.bit_length() - 1


def sensed_planes(sensed: Indices, levels: int) -> Words2:
    """Return how often items are sensed, 64 items to a word: a row a bit, the highest first, and a row of "always"."""
    bits, words = level_bits(levels), -(-sensed.size // 64)
    planes = np.zeros((bits + 1, words), np.uint64)
    items = np.arange(sensed.size)
    for row in range(bits + 1):
        held = sensed >= levels if row == bits else (sensed >> (bits - 1 - row)) & 1 == 1
        np.bitwise_or.at(planes[row], items[held] >> 6, np.uint64(1) << (items[held] & 63).astype(np.uint64))
    return planes


@inlined
def word_coins(stream: np.uint64, word: int, planes: Words2) -> tuple[np.uint64, np.uint64]:
    """Return the signs of the 64 items of a word, and which of them are sensed; ``planes`` is `sensed_planes`."""
    bits = planes.shape[0] - 1
    lane = uint64(word * (bits + 1))
    below, equal = uint64(0), _ALL
    for row in range(bits):
        coin, bound = draw(stream, lane + uint64(row + 1)), planes[row, word]
        below |= equal & ~coin & bound
        equal &= ~(coin ^ bound)
    return draw(stream, lane), below | planes[bits, word]


@compiled
def item_coins(stream: np.uint64, item: int, level: int, bits: int) -> tuple[int, bool]:
    """Return the sign of one item, 1 or -1, and whether it is sensed, where ``level`` of ``2**bits`` are."""
    lane, place = uint64((item >> 6) * (bits + 1)), uint64(item & 63)
    number = 0
    if 0 < level < 1 << bits:
        for row in range(bits):
            number = 2 * number + int((draw(stream, lane + uint64(row + 1)) >> place) & uint64(1))
    if number >= level:
        return 0, False
    return 2 * int((draw(stream, lane) >> place) & uint64(1)) - 1, True
