"""Releases of many bits, compiled: packed rows, unary encoding under ChaCha8, and subset selection.

A block's bits are one row of 64-bit words, the first bit the highest. They are never stored as one byte a bit: at
thousands of bits a device that would take longer than drawing them.
"""

import numpy as np

from coordinator.protocol.arrays import Bits, Bools, Indices, Indices2, Words, Words32
from coordinator.protocol.channels import UnaryChannel
from coordinator.protocol.compiled import ZERO, borrowing, compiled, inlined, int64, uint8, uint32, uint64
from coordinator.protocol.hashing import ones, siphash1
from coordinator.protocol.mechanism import DeviceCoins
from coordinator.protocol.value_channels import SubsetChannel


def room_for(devices: int, width: int) -> Words:
    """Return zeroed words for the bits of a block, and one word more."""
    return np.zeros(devices * width // 64 + 2, np.uint64)


def as_bytes(uint64s: Words, devices: int, width: int) -> Bits:
    """Return a block's bits as packed bytes, most significant bit first."""
    return uint64s.byteswap().view(np.uint8)[: -(-devices * width // 8)]


@inlined
def put_row(uint64s: Words, start: int, width: int, row: Words) -> None:
    """Write a row of ``width`` bits from bit ``start`` on; the row's bits beyond them are 0."""
    first, shift = start >> 6, uint64(start & 63)
    uint64s[first] |= row[0] >> shift
    for k in range(1, row.size):
        uint64s[first + k] = (row[k] >> shift) | ((row[k - 1] << (uint64(63) - shift)) << uint64(1))
    if int(shift) + width > 64 * row.size:
        uint64s[first + row.size] = row[row.size - 1] << (uint64(64) - shift)


@inlined
def put_number(uint64s: Words, start: int, width: int, number: int) -> None:
    """Write a whole number of ``width`` bits, at most 63, from bit ``start`` on."""
    first, shift = start >> 6, uint64(start & 63)
    aligned = uint64(number) << uint64(64 - width)
    uint64s[first] |= aligned >> shift
    if int(shift) + width > 64:
        uint64s[first + 1] = aligned << (uint64(64) - shift)


@compiled
def wipe(packed: Bits, width: int, answered: Bits) -> None:
    """Set the bits of devices that do not answer to 0, in packed bytes of ``width`` bits a device."""
    for k in range(answered.size):
        if not answered[k]:
            start, stop = k * width, (k + 1) * width
            before, behind = uint8((0xFF00 >> (start & 7)) & 0xFF), uint8(0xFF >> (stop & 7))
            if start >> 3 == stop >> 3:
                packed[start >> 3] &= before | behind
            else:
                packed[start >> 3] &= before
                packed[(start >> 3) + 1 : stop >> 3] = 0
                if stop & 7:
                    packed[stop >> 3] &= behind


BLOCKS = 16  # Blocks that are computed together. Coins depend on this order of words, so it must not change.
ROWS, WORDS = 16, BLOCKS // 2  # Rows of words that one call gives, and words of 64 bits in each
_NAME = tuple(np.frombuffer(b"expand 16-byte k", "<u4"))

_Four = tuple[np.uint32, np.uint32, np.uint32, np.uint32]
_State = tuple[_Four, _Four, _Four, _Four]  # Four rows of four words of 32 bits


@inlined
def _rotated(word: np.uint32, by: np.uint32) -> np.uint32:
    return uint32((word << by) | (word >> uint32(32 - by)))


@inlined
def _quarter(a: np.uint32, b: np.uint32, c: np.uint32, d: np.uint32) -> _Four:
    a = uint32(a + b)
    d = _rotated(uint32(d ^ a), uint32(16))
    c = uint32(c + d)
    b = _rotated(uint32(b ^ c), uint32(12))
    a = uint32(a + b)
    d = _rotated(uint32(d ^ a), uint32(8))
    c = uint32(c + d)
    b = _rotated(uint32(b ^ c), uint32(7))
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
def _put(uint32s: Words32, row: np.int64, k: int | np.int64, mixed: _Four, begun: _Four) -> None:
    uint32s[row, k], uint32s[row + 1, k] = mixed[0] + begun[0], mixed[1] + begun[1]
    uint32s[row + 2, k], uint32s[row + 3, k] = mixed[2] + begun[2], mixed[3] + begun[3]


@inlined
def _write_bits(low: np.uint64, high: np.uint64, counter: np.uint64, uint32s: Words32, k: int | np.int64) -> None:
    """Write one block to column ``k``."""
    zero = uint32(0)
    key = (uint32(low), uint32(low >> uint64(32)), uint32(high), uint32(high >> uint64(32)))
    counter_row = (uint32(counter), uint32(counter >> uint64(32)), zero, zero)
    state = (_NAME, key, key, counter_row)
    mixed = _two_rounds(_two_rounds(_two_rounds(_two_rounds(state))))
    _put(uint32s, int64(0), k, mixed[0], _NAME)
    _put(uint32s, int64(4), k, mixed[1], key)
    _put(uint32s, int64(8), k, mixed[2], key)
    _put(uint32s, int64(12), k, mixed[3], counter_row)


@compiled
def draw_blocks(low: np.uint64, high: np.uint64, first: int, uint32s: Words32) -> None:
    """Write the blocks of counters ``first`` to ``first + BLOCKS - 1`` under the key ``(low, high)``."""
    # Shapes: ``uint32s`` (16, BLOCKS).
    for k in range(BLOCKS):
        _write_bits(low, high, uint64(first) + uint64(k), uint32s, k)


@compiled
def draw_block(low: np.uint64, high: np.uint64, counter: np.uint64, uint32s: Words32) -> None:
    """Write the block of one counter under the key ``(low, high)`` to ``uint32s``, uint32, shape (16, 1)."""
    _write_bits(low, high, counter, uint32s, int64(0))


# A bit is 1 with probability T / 2^64: where a coin, a uniform whole number of 64 binary digits, is below the threshold
# T. The first digit in which the two differ decides, so nearly no coin needs all of its digits. 64 coins, one a bit of
# a word, draw their first 8 digits together (`_first_digits`): after these, one coin in 256 is level with T on average.
# Only level coins draw their other 56 digits, and are below T if the number that these make is below that of T's last
# 56 digits (`_decide_level`). Digits are independent and fair, so this is exactly the comparison of 64-bit coins, at
# some 8 + 64 / 256 random bits a coin.
_Digits = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_BITS_OF_COIN = 8  # Digits of each coin that are drawn before any coin is compared
_GROUP = ROWS * WORDS // _BITS_OF_COIN  # Words of bits whose coins draw these digits in one call of `draw_blocks`
_LATER = 1 << 32  # Counter of the first block of the digits of level coins; earlier blocks hold all coins' first digits


def release_unary(values: Indices, channel: UnaryChannel, coins: DeviceCoins) -> Bits:
    """Return what devices of these private values release, packed bytes."""
    bits = channel.encoded
    ones = coins.release(0) < np.uint64(bits.if_one)
    uint64s = room_for(values.size, bits.count)
    _unary_release(values, ones, *coins.keys(), np.uint64(bits.if_zero), bits.count, uint64s)
    return as_bytes(uint64s, values.size, bits.count)


@inlined
def _times_64(threshold: np.uint64, bit_index: np.int64) -> np.uint64:
    return uint64(0) - ((threshold >> uint64(bit_index)) & uint64(1))


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
        less, same = _digit(uint64(0), _ALL_BITS, digits[7 * _GROUP + k], limit[7])
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
    """Let coins that are level draw their other digits, and set the bits of those below the threshold's ``rest``."""
    # The n-th such coin of a device, in the order of words and from the lowest bit on, has its digits in the highest 56
    # bits of word n % 8 of block n // 8 from counter ``_LATER`` on.
    n = 0
    for k in range(row_words):
        undecided = level[k]
        while undecided:
            lowest = undecided & (~undecided + uint64(1))
            if n % WORDS == 0:
                draw_block(low, high, uint64(_LATER + n // WORDS), block)
            if digits[n % WORDS] >> uint64(_BITS_OF_COIN) < rest:
                below[k] |= lowest
            undecided ^= lowest
            n += 1


@inlined
def _digits_of(threshold: np.uint64) -> _Digits:
    """Return the threshold's first digits, 64 times each."""
    return (
        _times_64(threshold, int64(63)),
        _times_64(threshold, int64(62)),
        _times_64(threshold, int64(61)),
        _times_64(threshold, int64(60)),
        _times_64(threshold, int64(59)),
        _times_64(threshold, int64(58)),
        _times_64(threshold, int64(57)),
        _times_64(threshold, int64(56)),
    )


@compiled
def _unary_release(
    values: Indices, ones: Bools, low: Words, high: Words, threshold: np.uint64, width: int, uint64s: Words
) -> None:
    row_words = -(-width // 64)
    groups, tail = -(-row_words // _GROUP), _ALL_BITS << uint64(-width & 63)
    row, level = np.empty(groups * _GROUP, np.uint64), np.empty(groups * _GROUP, np.uint64)
    blocks, block = np.empty((ROWS, BLOCKS), np.uint32), np.empty((ROWS, 1), np.uint32)
    first_digits, other_digits = blocks.reshape(-1).view(np.uint64), block.reshape(-1).view(np.uint64)
    limit, rest = _digits_of(threshold), threshold & (_ALL_BITS >> uint64(_BITS_OF_COIN))
    for k in range(values.size):
        for group in range(groups):
            _first_digits(low[k], high[k], group, limit, blocks, first_digits, row, level)
        level[row_words - 1] &= tail
        _decide_level(low[k], high[k], rest, block, other_digits, row, level, row_words)
        row_index, bit = values[k] >> 6, uint64(1) << uint64(63 - (values[k] & 63))
        row[row_index] = (row[row_index] | bit) if ones[k] else (row[row_index] & ~bit)
        row[row_words - 1] &= tail
        put_row(uint64s, k * width, width, row[:row_words])


AHEAD = 16  # Words that are computed ahead, together, two values each. Releases depend on it, so it must not change
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def draw_words(low: np.uint64, high: np.uint64, first: np.uint64, step: np.uint64, uint64s: Words) -> None:
    """Write the words of counters ``first``, ``first + step``, ... under the key ``(low, high)``."""
    for k in range(uint64s.size):
        uint64s[k] = siphash1(low, high, first + uint64(k) * step)


@borrowing
def uniform(low: np.uint64, high: np.uint64, ahead: Words, halves: int, bound: int) -> tuple[int, int]:
    """Return a uniform whole number below ``bound`` (at most 2**32), and how many halves of words were taken by now."""
    # Halves are taken one after the other, the low half of a word first; multiplication with rejection makes them
    # uniform (Lemire, 2019). ``ahead`` holds the `AHEAD` words that the next halves come from, where any are left.
    range_size, least_fair = uint64(bound), uint64((1 << 32) % bound)
    while True:
        half_index = halves & (2 * AHEAD - 1)
        if half_index == 0:
            draw_words(low, high, uint64(halves >> 1), uint64(1), ahead)
        word = ahead[half_index >> 1]
        product = ((word >> _HALF) if half_index & 1 else (word & _LOW)) * range_size
        halves += 1
        if (product & _LOW) >= least_fair:
            return int(product >> _HALF), halves


_DIGITS = 8  # Binary digits of the probability that a long subset starts with
_FAIR = np.uint64(1 << 40)  # Counters of the words of fair digits start here, those of uniform numbers at 0
_TOP, _ALL = np.uint64(1 << 63), np.uint64(0xFFFFFFFFFFFFFFFF)


def release_subsets(own_values: Indices2, channel: SubsetChannel, coins: DeviceCoins) -> Bits:
    """Return what devices of these sets release, packed bytes; ``own_values`` (devices, padded) repeats no value."""
    parts, bits = channel.form
    uint64s = room_for(len(own_values), parts * bits)
    meets = coins.release(0) >= np.uint64(channel.misses)
    _subset_release(
        own_values, meets, *coins.keys(), channel.values, channel.subset_size, channel.listed, bits, uint64s
    )
    return as_bytes(uint64s, len(own_values), parts * bits)


@inlined
def _bit(value: np.int64) -> np.uint64:
    return _TOP >> uint64(value & 63)


@borrowing
def _start(low: np.uint64, high: np.uint64, trial: int, share: int, barred: Words, members: Words, fair: Words) -> None:
    """Let every value that is not barred be a member with probability ``share / 2**_DIGITS``."""
    # A value is a member if a number of _DIGITS fair binary digits is below the share. From the last digit on: where
    # the share has a 1, a number with a 0 is below it now, and one with a 1 if it was before (or); where the share has
    # a 0, a number with a 0 stays as it was, and one with a 1 is not below it (and). A 1 in ``fair`` stands for a 0.
    members[:] = 0
    for digit in range(_DIGITS):  # the last digit first
        if share & ((2 << digit) - 1):  # before the share's last 1 no number can be below it
            draw_words(low, high, _FAIR + uint64(_DIGITS * trial + digit) * uint64(members.size), uint64(1), fair)
            if (share >> digit) & 1:
                for k in range(members.size):
                    members[k] |= fair[k]
            else:
                for k in range(members.size):
                    members[k] &= fair[k]
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
        word, bit = value >> 6, _bit(int64(value))
        if size > target:
            if members[word] & bit:
                members[word] ^= bit
                size -= 1
        elif not (members[word] | barred[word]) & bit:
            members[word] |= bit
            size += 1
    return halves


@inlined
def _write(
    members: Words, as_list: bool, bits: int, values: int, subset_size: int, device: int, uint64s: Words
) -> None:
    """Write a subset, as a list of its values, ascending, or as a bit for every value."""
    if not as_list:
        put_row(uint64s, device * values, values, members)
        return
    start = device * subset_size * bits
    for k in range(members.size):
        rest = members[k]
        while rest:
            bit = _leading(rest)
            rest ^= _TOP >> uint64(bit)
            put_number(uint64s, start, bits, 64 * k + bit)
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
def _subset_release(
    own_values: Indices2,
    meets: Bools,
    low: Words,
    high: Words,
    values: int,
    size: int,
    as_list: bool,
    bits: int,
    uint64s: Words,
) -> None:
    row_words, padded = -(-values // 64), own_values.shape[1]
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
    for k in range(len(own_values)):
        halves, attempt, included = ZERO, ZERO, -1
        while True:
            if meets[k]:
                index, halves = uniform(low[k], high[k], ahead, halves, padded)
                included = own_values[k, index]
                barred[included >> 6] |= _bit(int64(included))
            else:
                for value in own_values[k]:
                    barred[value >> 6] |= _bit(int64(value))
            if not as_list:
                share = min(((size << _DIGITS) + values // 2) // values, (1 << _DIGITS) - 1)
                _start(low[k], high[k], attempt, share, barred, members, digits)
            halves = _adjust(low[k], high[k], ahead, halves, values, size - int(meets[k]), barred, members)
            attempt += 1
            for value in own_values[k]:
                barred[value >> 6] &= ~_bit(int64(value))
            if not meets[k]:
                break
            members[included >> 6] |= _bit(int64(included))
            own_members = ZERO
            for value in own_values[k]:
                own_members += (members[value >> 6] & _bit(int64(value))) != 0
            way, halves = uniform(low[k], high[k], ahead, halves, own_members)
            if way == 0:
                break
            members[:] = 0
        _write(members, as_list, bits, values, size, k, uint64s)
        members[:] = 0
