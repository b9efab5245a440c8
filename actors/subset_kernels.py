"""Subset selection's release, compiled: whether a subset meets a device's own values, and which one."""

from __future__ import annotations

import numpy as np
from numba import uint64

from actors.coins import Coins
from actors.packed import as_bytes, put_number, put_row, room_for
from coordinator.protocol.arrays import Bits, Bools, Indices2, Words
from coordinator.protocol.channels import SubsetChannel
from coordinator.protocol.compiled import borrowing, compiled, inlined
from coordinator.protocol.hashing import ones, siphash1

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


_DIGITS = 8
"""Binary digits of the probability that a long subset starts with."""
_FAIR = np.uint64(1 << 40)
"""Counters of the words of fair digits start here, those of uniform numbers at 0."""
_TOP, _ALL = np.uint64(1 << 63), np.uint64(0xFFFFFFFFFFFFFFFF)


def release_subsets(own: Indices2, channel: SubsetChannel, coins: Coins) -> Bits:
    """Return what devices of these sets release, packed bytes; ``own``, shape (devices, padded), repeats no value."""
    parts, bits = channel.form
    words = room_for(len(own), parts * bits)
    meets = coins.release(0) >= np.uint64(channel.misses)
    _release(own, meets, *coins.keys(), channel.values, channel.subset_size, channel.listed, bits, words)
    return as_bytes(words, len(own), parts * bits)


@inlined
def _bit(value: int) -> np.uint64:
    return _TOP >> uint64(value & 63)


@borrowing
def _start(low: np.uint64, high: np.uint64, attempt: int, share: int, barred: Words, told: Words, drawn: Words) -> None:
    """Let every value that is not barred be a member with probability ``share / 2**_DIGITS``."""
    told[:] = 0
    for digit in range(_DIGITS):  # the last digit first
        if share & ((2 << digit) - 1):  # until here all coins' digits are below none of the share's
            draw_words(low, high, _FAIR + uint64(_DIGITS * attempt + digit) * uint64(told.size), uint64(1), drawn)
            if (share >> digit) & 1:
                for k in range(told.size):
                    told[k] |= drawn[k]
            else:
                for k in range(told.size):
                    told[k] &= drawn[k]
    for k in range(told.size):
        told[k] &= ~barred[k]


@borrowing
def _adjust(
    low: np.uint64, high: np.uint64, ahead: Words, halves: int, values: int, wanted: int, barred: Words, told: Words
) -> int:
    """Add or strike uniform values until there are ``wanted`` that are not barred; return the halves drawn by now."""
    found = 0
    for k in range(told.size):
        found += ones(told[k])
    while found != wanted:
        value, halves = uniform(low, high, ahead, halves, values)
        word, bit = value >> 6, _bit(value)
        if found > wanted:
            if told[word] & bit:
                told[word] ^= bit
                found -= 1
        elif not (told[word] | barred[word]) & bit:
            told[word] |= bit
            found += 1
    return halves


@inlined
def _write(told: Words, listed: bool, bits: int, values: int, chosen: int, device: int, words: Words) -> None:
    """Write a subset, as a list of its values, ascending, or as a bit for every value."""
    if not listed:
        put_row(words, device * values, values, told)
        return
    start = device * chosen * bits
    for k in range(told.size):
        left = told[k]
        while left:
            lowest_up = _leading(left)
            left ^= _TOP >> uint64(lowest_up)
            put_number(words, start, bits, 64 * k + lowest_up)
            start += bits


@inlined
def _leading(word: np.uint64) -> int:
    """Return how many bits of a word lie above its highest 1."""
    word |= word >> uint64(1)
    word |= word >> uint64(2)
    word |= word >> uint64(4)
    word |= word >> uint64(8)
    word |= word >> uint64(16)
    word |= word >> uint64(32)
    return 64 - ones(word)


@compiled
def _release(
    own: Indices2,
    meets: Bools,
    low: Words,
    high: Words,
    values: int,
    chosen: int,
    listed: bool,
    bits: int,
    words: Words,
) -> None:
    many, padded = -(-values // 64), own.shape[1]
    barred, told, drawn = np.zeros(many, np.uint64), np.zeros(many, np.uint64), np.empty(many, np.uint64)
    ahead = np.empty(AHEAD, np.uint64)
    barred[many - 1] = ~(_ALL << uint64(-values & 63))  # bits beyond the values
    for k in range(len(own)):
        halves, attempt, named = 0, 0, -1
        while True:
            if meets[k]:
                place, halves = uniform(low[k], high[k], ahead, halves, padded)
                named = own[k, place]
                barred[named >> 6] |= _bit(named)
            else:
                for value in own[k]:
                    barred[value >> 6] |= _bit(value)
            if not listed:
                share = min(((chosen << _DIGITS) + values // 2) // values, (1 << _DIGITS) - 1)
                _start(low[k], high[k], attempt, share, barred, told, drawn)
            halves = _adjust(low[k], high[k], ahead, halves, values, chosen - int(meets[k]), barred, told)
            attempt += 1
            for value in own[k]:
                barred[value >> 6] &= ~_bit(value)
            if not meets[k]:
                break
            told[named >> 6] |= _bit(named)
            met = 0
            for value in own[k]:
                met += (told[value >> 6] & _bit(value)) != 0
            taken, halves = uniform(low[k], high[k], ahead, halves, met)
            if taken == 0:
                break
            told[:] = 0
        _write(told, listed, bits, values, chosen, k, words)
        told[:] = 0
