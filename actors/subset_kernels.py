"""Subset selection's release, compiled: whether a subset meets a device's own values, and which subset."""

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
"""Words that are computed ahead, together, two values each. Releases depend on it, so it must not change."""
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def draw_words(low: np.uint64, high: np.uint64, first: np.uint64, step: np.uint64, words: Words) -> None:
    """Write the words of counters ``first``, ``first + step``, ... under the key ``(low, high)``."""
    for k in range(words.size):
        words[k] = siphash1(low, high, first + uint64(k) * step)


@borrowing
def uniform(low: np.uint64, high: np.uint64, ahead: Words, halves: int, bound: int) -> tuple[int, int]:
    """Return a uniform whole number below ``bound`` (at most 2**32), and how many halves of words were taken by now.

    Halves are taken one after the other, the low half of a word first; multiplication with rejection makes them
    uniform (Lemire, 2019). ``ahead`` holds the `AHEAD` words that the next halves come from, where any are left.
    """
    range_size, least_fair = uint64(bound), uint64((1 << 32) % bound)
    while True:
        place = halves & (2 * AHEAD - 1)
        if place == 0:
            draw_words(low, high, uint64(halves >> 1), uint64(1), ahead)
        word = ahead[place >> 1]
        product = ((word >> _HALF) if place & 1 else (word & _LOW)) * range_size
        halves += 1
        if (product & _LOW) >= least_fair:
            return int(product >> _HALF), halves


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
def _start(
    low: np.uint64, high: np.uint64, attempt: int, share: int, barred: Words, members: Words, digits: Words
) -> None:
    """Let every value that is not barred be a member with probability ``share / 2**_DIGITS``."""
    # A value is a member if a number of _DIGITS fair binary digits is below the share. From the last digit on: where
    # the share has a 1, a number with a 0 is below it now, and one with a 1 if it was before (or); where the share has
    # a 0, a number with a 0 stays as it was, and one with a 1 is not below it (and). A 1 in ``digits`` stands for a 0.
    members[:] = 0
    for digit in range(_DIGITS):  # the last digit first
        if share & ((2 << digit) - 1):  # before the share's last 1 no number can be below it
            draw_words(low, high, _FAIR + uint64(_DIGITS * attempt + digit) * uint64(members.size), uint64(1), digits)
            if (share >> digit) & 1:
                for k in range(members.size):
                    members[k] |= digits[k]
            else:
                for k in range(members.size):
                    members[k] &= digits[k]
    for k in range(members.size):
        members[k] &= ~barred[k]


@borrowing
def _adjust(
    low: np.uint64, high: np.uint64, ahead: Words, halves: int, values: int, target: int, barred: Words, members: Words
) -> int:
    """Add or strike uniform values until there are ``target`` that are not barred; return the halves taken by now."""
    # Neither the start nor this walk prefers any of the values that are not barred, so the subset that results is
    # uniform among those of its size, whatever its size was at first.
    size = 0
    for k in range(members.size):
        size += ones(members[k])
    while size != target:
        value, halves = uniform(low, high, ahead, halves, values)
        word, bit = value >> 6, _bit(value)
        if size > target:
            if members[word] & bit:
                members[word] ^= bit
                size -= 1
        elif not (members[word] | barred[word]) & bit:
            members[word] |= bit
            size += 1
    return halves


@inlined
def _write(members: Words, listed: bool, bits: int, values: int, subset_size: int, device: int, words: Words) -> None:
    """Write a subset, as a list of its values, ascending, or as a bit for every value."""
    if not listed:
        put_row(words, device * values, values, members)
        return
    start = device * subset_size * bits
    for k in range(members.size):
        rest = members[k]
        while rest:
            bit = _leading(rest)
            rest ^= _TOP >> uint64(bit)
            put_number(words, start, bits, 64 * k + bit)
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
    subset_size: int,
    listed: bool,
    bits: int,
    words: Words,
) -> None:
    row_words, padded = -(-values // 64), own.shape[1]
    # A device that misses releases a uniform subset without its own values, so all of these are barred.
    # A device that meets releases a uniform one of the subsets that contain some of its own values. It includes one of
    # them at random, which is barred from then on, and fills up with a uniform subset of all other values. A subset
    # with m of its own values arises in m ways, one for each of them that may have been included first, so it is m
    # times as probable as it should be: the device takes it with probability 1 / m, and else starts another attempt.
    # In the loop ``members`` is the subset without the included value, until this is added, and ``barred`` holds own
    # values only until the subset is full; both are clean for the next attempt and for the next device.
    barred, members = np.zeros(row_words, np.uint64), np.zeros(row_words, np.uint64)
    digits, ahead = np.empty(row_words, np.uint64), np.empty(AHEAD, np.uint64)
    barred[row_words - 1] = ~(_ALL << uint64(-values & 63))  # bits beyond the values
    for k in range(len(own)):
        halves, attempt, included = 0, 0, -1
        while True:
            if meets[k]:
                place, halves = uniform(low[k], high[k], ahead, halves, padded)
                included = own[k, place]
                barred[included >> 6] |= _bit(included)
            else:
                for value in own[k]:
                    barred[value >> 6] |= _bit(value)
            if not listed:
                share = min(((subset_size << _DIGITS) + values // 2) // values, (1 << _DIGITS) - 1)
                _start(low[k], high[k], attempt, share, barred, members, digits)
            halves = _adjust(low[k], high[k], ahead, halves, values, subset_size - int(meets[k]), barred, members)
            attempt += 1
            for value in own[k]:
                barred[value >> 6] &= ~_bit(value)
            if not meets[k]:
                break
            members[included >> 6] |= _bit(included)
            own_members = 0
            for value in own[k]:
                own_members += (members[value >> 6] & _bit(value)) != 0
            way, halves = uniform(low[k], high[k], ahead, halves, own_members)
            if way == 0:
                break
            members[:] = 0
        _write(members, listed, bits, values, subset_size, k, words)
        members[:] = 0
