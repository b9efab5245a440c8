"""Unary encoding's release, compiled: many bits at a time under ChaCha8, each by an exact coin."""

from __future__ import annotations

import numpy as np
from numba import uint32, uint64

from actors.coins import Coins
from actors.packed import as_bytes, put_row, room_for
from coordinator.protocol.arrays import Bits, Bools, Indices, Words, Words32
from coordinator.protocol.channels import UnaryChannel
from coordinator.protocol.compiled import compiled, inlined

BLOCKS = 16
"""Blocks that are computed together. Coins depend on this order of words, so it must not change."""
ROWS, WORDS = 16, BLOCKS // 2
"""Rows of words that one call gives, and words of 64 bits in each."""
_NAME = tuple(np.frombuffer(b"expand 16-byte k", "<u4"))

_Four = tuple[np.uint32, np.uint32, np.uint32, np.uint32]
_State = tuple[_Four, _Four, _Four, _Four]
"""Four rows of four words of 32 bits."""


@inlined
def _rotated(word: np.uint32, by: int) -> np.uint32:
    return uint32((word << uint32(by)) | (word >> uint32(32 - by)))


@inlined
def _quarter(a: np.uint32, b: np.uint32, c: np.uint32, d: np.uint32) -> _Four:
    a = uint32(a + b)
    d = _rotated(uint32(d ^ a), 16)
    c = uint32(c + d)
    b = _rotated(uint32(b ^ c), 12)
    a = uint32(a + b)
    d = _rotated(uint32(d ^ a), 8)
    c = uint32(c + d)
    b = _rotated(uint32(b ^ c), 7)
    return a, b, c, d


@inlined
def _two_rounds(state: _State) -> _State:
    """Return the state after a round of columns and one of diagonals."""
    (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3) = state
    a0, b0, c0, d0 = _quarter(a0, b0, c0, d0)
    a1, b1, c1, d1 = _quarter(a1, b1, c1, d1)
    a2, b2, c2, d2 = _quarter(a2, b2, c2, d2)
    a3, b3, c3, d3 = _quarter(a3, b3, c3, d3)
    a0, b1, c2, d3 = _quarter(a0, b1, c2, d3)
    a1, b2, c3, d0 = _quarter(a1, b2, c3, d0)
    a2, b3, c0, d1 = _quarter(a2, b3, c0, d1)
    a3, b0, c1, d2 = _quarter(a3, b0, c1, d2)
    return (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3)


@inlined
def _put(words: Words32, row: int, k: int, mixed: _Four, begun: _Four) -> None:
    words[row, k], words[row + 1, k] = mixed[0] + begun[0], mixed[1] + begun[1]
    words[row + 2, k], words[row + 3, k] = mixed[2] + begun[2], mixed[3] + begun[3]


@inlined
def _write(low: np.uint64, high: np.uint64, counter: np.uint64, words: Words32, k: int) -> None:
    """Write one block to column ``k``."""
    zero = uint32(0)
    key = (uint32(low), uint32(low >> uint64(32)), uint32(high), uint32(high >> uint64(32)))
    place = (uint32(counter), uint32(counter >> uint64(32)), zero, zero)
    state = (_NAME, key, key, place)
    mixed = _two_rounds(_two_rounds(_two_rounds(_two_rounds(state))))
    _put(words, 0, k, mixed[0], _NAME)
    _put(words, 4, k, mixed[1], key)
    _put(words, 8, k, mixed[2], key)
    _put(words, 12, k, mixed[3], place)


@compiled
def draw_blocks(low: np.uint64, high: np.uint64, first: int, words: Words32) -> None:
    """Write the blocks of counters ``first`` to ``first + BLOCKS - 1`` under the key ``(low, high)``.

    Shapes: ``words`` (16, BLOCKS).
    """
    for k in range(BLOCKS):
        _write(low, high, uint64(first) + uint64(k), words, k)


@compiled
def draw_block(low: np.uint64, high: np.uint64, counter: np.uint64, words: Words32) -> None:
    """Write the block of one counter under the key ``(low, high)`` to ``words``, uint32, shape (16, 1)."""
    _write(low, high, counter, words, 0)


# A bit is 1 with probability T / 2^64: where a coin, a uniform whole number of 64 binary digits, is below the threshold
# T. The first digit in which the two differ decides, so nearly no coin needs all of its digits. 64 coins, one a bit of
# a word, draw their first 8 digits together (`_first_digits`): after these, one coin in 256 is level with T on average.
# Only level coins draw their other 56 digits, and are below T if the number that these make is below that of T's last
# 56 digits (`_decide_level`). Digits are independent and fair, so this is exactly the comparison of 64-bit coins, at
# some 8 + 64 / 256 random bits a coin.
_Digits = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_DIGITS = 8
"""Digits of each coin that are drawn before any coin is compared."""
_GROUP = ROWS * WORDS // _DIGITS
"""Words of bits whose coins draw these digits in one call of `draw_blocks`."""
_LATER = 1 << 32
"""Counter of the first block of the digits of level coins; earlier blocks hold all coins' first digits."""


def release_unary(values: Indices, channel: UnaryChannel, coins: Coins) -> Bits:
    """Return what devices of these private values release, packed bytes."""
    bits = channel.encoded
    own = coins.release(0) < np.uint64(bits.if_one)
    words = room_for(values.size, bits.count)
    _release(values, own, *coins.keys(), np.uint64(bits.if_zero), bits.count, words)
    return as_bytes(words, values.size, bits.count)


@inlined
def _times_64(threshold: np.uint64, place: int) -> np.uint64:
    return uint64(0) - ((threshold >> uint64(place)) & uint64(1))


@inlined
def _digit(less: np.uint64, level: np.uint64, coin: np.uint64, limit: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Compare 64 coins' next digit, before those that are compared already, with the threshold's, 64 times the same."""
    # Where the digits are the same, those after them decide; else the coin is less if the threshold's digit is the 1.
    same = ~(coin ^ limit)
    return (less & same) | (limit & ~same), level & same


@inlined
def _first_digits(
    low: np.uint64,
    high: np.uint64,
    group: int,
    limit: _Digits,
    blocks: Words32,
    digits: Words,
    below: Words,
    level: Words,
) -> None:
    """Find the coins of a group whose first digits are below the threshold's, and those whose first digits equal them.

    Digit d of the group's word w is word 16 d + w of the blocks from counter 16 ``group`` on; see `draw_blocks`, which
    writes ``blocks``. ``digits`` are the same numbers, seen as words of 64 bits.
    """
    draw_blocks(low, high, BLOCKS * group, blocks)
    start = group * _GROUP
    for k in range(_GROUP):  # from the last digit on; unrolled, so that words become one vector
        less, same = _digit(uint64(0), _ALL, digits[7 * _GROUP + k], limit[7])
        less, same = _digit(less, same, digits[6 * _GROUP + k], limit[6])
        less, same = _digit(less, same, digits[5 * _GROUP + k], limit[5])
        less, same = _digit(less, same, digits[4 * _GROUP + k], limit[4])
        less, same = _digit(less, same, digits[3 * _GROUP + k], limit[3])
        less, same = _digit(less, same, digits[2 * _GROUP + k], limit[2])
        less, same = _digit(less, same, digits[_GROUP + k], limit[1])
        below[start + k], level[start + k] = _digit(less, same, digits[k], limit[0])


@inlined
def _decide_level(
    low: np.uint64,
    high: np.uint64,
    rest: np.uint64,
    block: Words32,
    digits: Words,
    below: Words,
    level: Words,
    row_words: int,
) -> None:
    """Let coins that are level draw their other digits, and set the bits of those below the threshold's ``rest``.

    The n-th such coin of a device, in the order of words and from the lowest bit on, has its digits in the highest 56
    bits of word n % 8 of block n // 8 from counter ``_LATER`` on.
    """
    n = 0
    for k in range(row_words):
        undecided = level[k]
        while undecided:
            lowest = undecided & (~undecided + uint64(1))
            if n % WORDS == 0:
                draw_block(low, high, uint64(_LATER + n // WORDS), block)
            if digits[n % WORDS] >> uint64(_DIGITS) < rest:
                below[k] |= lowest
            undecided ^= lowest
            n += 1


@inlined
def _digits_of(threshold: np.uint64) -> _Digits:
    """Return the threshold's first digits, 64 times each."""
    return (
        _times_64(threshold, 63),
        _times_64(threshold, 62),
        _times_64(threshold, 61),
        _times_64(threshold, 60),
        _times_64(threshold, 59),
        _times_64(threshold, 58),
        _times_64(threshold, 57),
        _times_64(threshold, 56),
    )


@compiled
def _release(
    values: Indices, own: Bools, low: Words, high: Words, threshold: np.uint64, width: int, words: Words
) -> None:
    row_words = -(-width // 64)
    groups, tail = -(-row_words // _GROUP), _ALL << uint64(-width & 63)
    row, level = np.empty(groups * _GROUP, np.uint64), np.empty(groups * _GROUP, np.uint64)
    blocks, block = np.empty((ROWS, BLOCKS), np.uint32), np.empty((ROWS, 1), np.uint32)
    first_digits, other_digits = blocks.reshape(-1).view(np.uint64), block.reshape(-1).view(np.uint64)
    limit, rest = _digits_of(threshold), threshold & (_ALL >> uint64(_DIGITS))
    for k in range(values.size):
        for group in range(groups):
            _first_digits(low[k], high[k], group, limit, blocks, first_digits, row, level)
        level[row_words - 1] &= tail
        _decide_level(low[k], high[k], rest, block, other_digits, row, level, row_words)
        place, bit = values[k] >> 6, uint64(1) << uint64(63 - (values[k] & 63))
        row[place] = (row[place] | bit) if own[k] else (row[place] & ~bit)
        row[row_words - 1] &= tail
        put_row(words, k * width, width, row[:row_words])
