"""Unary encoding's release, compiled: 64 bits at a time, each exactly as probable as a coin of 64 bits makes it.

A bit is 1 where its coin is below a threshold. Both are compared digit by digit from the highest on, 64 coins at once:
a word holds one digit of each. Where the digits differ the comparison is over; sixteen digits nearly always decide the
512 coins of a group of words.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from actors.chacha import BLOCKS, DIGITS, TOGETHER, draw_blocks
from actors.coins import Coins
from actors.packed import as_bytes, put_row, room_for
from coordinator.protocol.arrays import Bits, Bools, Indices, Words, Words2, Words32
from coordinator.protocol.channels import UnaryChannel
from coordinator.protocol.compiled import compiled, inlined

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def release_unary(values: Indices, channel: UnaryChannel, coins: Coins) -> Bits:
    """Return what devices of these private values release, packed bytes."""
    bits = channel.encoded
    own = coins.release(0) < np.uint64(bits.if_one)
    words = room_for(values.size, bits.count)
    _release(values, own, *coins.keys(), np.uint64(bits.if_zero), bits.count, words)
    return as_bytes(words, values.size, bits.count)


@inlined
def _digit(less: np.uint64, level: np.uint64, coin: np.uint64, mine: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Go on to the digit before: 64 coins' digits beside the threshold's, which is 64 times the same."""
    same = ~(coin ^ mine)
    return (less & same) | (mine & ~same), level & same


@inlined
def _four(
    less: np.uint64, level: np.uint64, told: Words2, limit: Words, part: int, row: int, k: int
) -> tuple[np.uint64, np.uint64]:
    at = part * DIGITS + row
    less, level = _digit(less, level, told[row + 3, k], limit[at + 3])
    less, level = _digit(less, level, told[row + 2, k], limit[at + 2])
    less, level = _digit(less, level, told[row + 1, k], limit[at + 1])
    return _digit(less, level, told[row, k], limit[at])


@inlined
def _decide(
    low: np.uint64, high: np.uint64, group: int, limit: Words, below: Words, undecided: Words, drawn: Words32
) -> None:
    """Decide which coins of a group's words are below the threshold, whose digits ``limit`` holds, 64 times each.

    Digit d of word w is word w of row d % 16 of the blocks from counter 16 (4 group + d // 16) on; see
    `actors.chacha.draw_blocks`.
    """
    told = drawn.view(np.uint64)
    below[:] = 0
    undecided[:] = _ALL
    for part in range(64 // DIGITS):
        draw_blocks(low, high, BLOCKS * (4 * group + part), drawn)
        left = uint64(0)
        for k in range(TOGETHER):  # the last digit first; unrolled, so that words become one vector
            less, level = _four(uint64(0), _ALL, told, limit, part, 12, k)
            less, level = _four(less, level, told, limit, part, 8, k)
            less, level = _four(less, level, told, limit, part, 4, k)
            less, level = _four(less, level, told, limit, part, 0, k)
            below[k] |= less & undecided[k]
            undecided[k] &= level
            left |= undecided[k]
        if not left:
            return


@compiled
def _release(
    values: Indices, own: Bools, low: Words, high: Words, threshold: np.uint64, width: int, words: Words
) -> None:
    many = -(-width // 64)
    row, undecided = np.zeros(-(-many // TOGETHER) * TOGETHER, np.uint64), np.empty(TOGETHER, np.uint64)
    drawn, tail = np.empty((DIGITS, BLOCKS), np.uint32), _ALL << uint64(-width & 63)
    limit = np.empty(64, np.uint64)
    for digit in range(64):
        limit[digit] = _ALL if (threshold >> uint64(63 - digit)) & uint64(1) else uint64(0)
    for k in range(values.size):
        for group in range(row.size // TOGETHER):
            below = row[group * TOGETHER : (group + 1) * TOGETHER]
            _decide(low[k], high[k], group, limit, below, undecided, drawn)
        place, bit = values[k] >> 6, uint64(1) << uint64(63 - (values[k] & 63))
        row[place] = (row[place] | bit) if own[k] else (row[place] & ~bit)
        row[many - 1] &= tail
        put_row(words, k * width, width, row[:many])
