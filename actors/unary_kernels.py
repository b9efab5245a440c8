"""Unary encoding's release, compiled: 64 bits at a time, each exactly as probable as a coin of 64 bits makes it.

A bit is 1 where its coin is below a threshold. Both are compared digit by digit from the highest on, 64 coins at once:
a word holds one digit of each. Where the digits differ the comparison is over; some eight words decide 64 coins.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from actors.coins import Coins
from actors.packed import as_bytes, put_row, room_for
from actors.words import draw_words
from coordinator.protocol.arrays import Bits, Bools, Indices, Words
from coordinator.protocol.channels import UnaryChannel
from coordinator.protocol.compiled import compiled

_TOGETHER = 8
"""Words of coins that are decided together, as one vector; a speed parameter."""
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def release_unary(values: Indices, channel: UnaryChannel, coins: Coins) -> Bits:
    """Return what devices of these private values release, packed bytes."""
    bits = channel.encoded
    own = coins.release(0) < np.uint64(bits.if_one)
    words = room_for(values.size, bits.count)
    _release(values, own, *coins.keys(), np.uint64(bits.if_zero), bits.count, words)
    return as_bytes(words, values.size, bits.count)


@compiled
def _decide(low: np.uint64, high: np.uint64, first: int, threshold: np.uint64, below: Words, drawn: Words) -> None:
    """Decide which of 64 coins a word are below the threshold; digit d of word w is the word of counter 64 w + d."""
    open_ = np.empty(below.size, np.uint64)
    open_[:] = _ALL
    below[:] = 0
    digit = 0
    while digit < 64 and threshold << uint64(digit):  # where only digits 0 are left, no open coin is below
        draw_words(low, high, uint64(64 * first + digit), uint64(64), drawn)
        if (threshold >> uint64(63 - digit)) & uint64(1):
            for k in range(below.size):
                below[k] |= open_[k] & ~drawn[k]
                open_[k] &= drawn[k]
        else:
            for k in range(below.size):
                open_[k] &= ~drawn[k]
        left = uint64(0)
        for k in range(below.size):
            left |= open_[k]
        if not left:
            break
        digit += 1


@compiled
def _release(
    values: Indices, own: Bools, low: Words, high: Words, threshold: np.uint64, width: int, words: Words
) -> None:
    many = -(-width // 64)
    row = np.zeros(-(-many // _TOGETHER) * _TOGETHER, np.uint64)
    drawn, tail = np.empty(_TOGETHER, np.uint64), _ALL << uint64(-width & 63)
    for k in range(values.size):
        for first in range(0, many, _TOGETHER):
            _decide(low[k], high[k], first, threshold, row[first : first + _TOGETHER], drawn)
        place, bit = values[k] >> 6, uint64(1) << uint64(63 - (values[k] & 63))
        row[place] = (row[place] | bit) if own[k] else (row[place] & ~bit)
        row[many - 1] &= tail
        put_row(words, k * width, width, row[:many])
