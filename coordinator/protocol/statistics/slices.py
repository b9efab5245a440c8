"""Counting columns of bits, or listed numbers, in packed releases with bit slices; compiled."""

import numpy as np

from coordinator.protocol.arrays import Bits, Ints, Words, Words2
from coordinator.protocol.compiled import borrowing, compiled, inlined, uint64
from coordinator.protocol.hashing import ones
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import no_answer
from coordinator.protocol.value_channels import is_listed, value_bits

# Bit-sliced counters: a word of a plane holds the same binary digit of the counts of 64 columns, so that five logical
# operations add a row to 64 counts. Rows come in pairs. A full adder adds both to plane 0, ``a ^ b ^ plane``, and gives
# carries of weight 2, ``(a & b) | ((a ^ b) & plane)``. Carries are added in pairs, too: those of an even pair of rows
# wait until those of the odd pair come; both then go into plane 1 and give one carry of weight 4, which waits for the
# next, and so on. A carry of level l is made every 2^l rows, so that all carries cost less than one addition a pair.
#
# After P pairs a column's count is the sum over levels of 2^level times its bit in ``planes[level]``, and in
# ``waiting[level]`` where bit ``level - 1`` of P is set. This invariant is shared. A caller owes three things: it adds
# pair p, counted from 0, to ``planes[0]`` and writes its carries to ``waiting[1 - (p & 1)]``; it calls `carry_on` with
# p after each pair, in order; and it calls `read_out` with P once at the end. An odd last row is paired with zeros.
# Where bit ``level - 1`` of P is not set, ``waiting[level]`` holds carries that were added already; nobody clears them.


def planes_for(rows: int, columns: int) -> tuple[Words2, Words2]:
    """Return zeroed planes for the counts of these rows, and equally many rows of pending carries."""
    planes = np.zeros((max(rows, 2).bit_length() + 1, -(-columns // 64)), np.uint64)
    return planes, np.zeros_like(planes)


@borrowing
def carry_on(pair: int, planes: Words2, waiting: Words2) -> None:
    """Add the carries of pair ``pair``, counted from 0, if it is odd; those of an even pair wait in ``waiting[1]``."""
    carry, level, ends = waiting[0], 0, not pair & 1
    while not ends:
        level += 1
        ends = not (pair >> level) & 1
        _add_carries(waiting[level], carry, planes[level], waiting[level + 1] if ends else carry)


@inlined
def _add_carries(waiting: Words, carry: Words, plane: Words, out: Words) -> None:
    """Add two carries to the plane of their level; write its carries, possibly over ``carry``."""
    for w in range(plane.size):
        a, b, sum_word = waiting[w], carry[w], plane[w]
        out[w] = (a & b) | ((a ^ b) & sum_word)
        plane[w] = a ^ b ^ sum_word


@borrowing
def read_out(pairs: int, planes: Words2, waiting: Words2, counts: Ints) -> None:
    """Add the counts of so many pairs of rows: column j is bit ``j mod 64`` of word ``j // 64``, the lowest first."""
    for level in range(planes.shape[0]):
        waits = uint64(level > 0 and (pairs >> (level - 1)) & 1)
        for position in range(counts.size):
            word, bit = position >> 6, uint64(position & 63)
            both = ((planes[level, word] >> bit) & uint64(1)) + ((waiting[level, word] >> bit) & waits)
            counts[position] += int(both) << level


_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def column_counts(release: Release) -> Ints:
    """Return how many answering devices released a 1 in each of their bits, int64, shape (width,)."""
    heard = np.zeros(release.count + 1, np.uint64)
    heard[:-1] = np.where(release.answered_mask(), _ALL, np.uint64(0))
    planes, waiting = planes_for(heard.size, release.width)
    counts = np.zeros(planes.shape[1] * 64, np.int64)
    _add_rows(words_of(release), release.width, heard, planes, waiting, counts)
    return np.ascontiguousarray(counts.reshape(-1, 64)[:, ::-1]).ravel()[: release.width]  # first bits are the highest


def subset_counts(query: Query, release: Release, *, values: int, subset_size: int) -> Ints:
    """Return how many answering devices released a subset that holds each value, int64, shape (values,)."""
    release.require(query)
    uint64s, answered = words_of(release), release.answered_mask().view(np.uint8)
    if is_listed(values, subset_size):
        counts = np.zeros(values, np.int64)
        fits = _add_lists(uint64s, subset_size, value_bits(values), answered, counts)
    else:
        fits = _are_subsets(uint64s, values, subset_size, answered)
        counts = column_counts(release)
    if not fits:
        raise no_answer(
            query, release, f"it holds what is no subset of {subset_size} of {values} values, each named once"
        )
    return counts


def words_of(release: Release) -> Words:
    """Return a release's bits as words, the first bit the highest, with words for one more row behind them."""
    uint64s = np.zeros(-(-len(release.bits) // 8) + release.width // 64 + 3, np.uint64)
    uint64s.view(np.uint8)[: len(release.bits)] = np.frombuffer(release.bits, np.uint8)
    return uint64s.byteswap(inplace=True)


@inlined
def part_of(uint64s: Words, word: int, shift: np.uint64) -> np.uint64:
    """Return 64 bits, starting at bit ``shift`` of a word."""
    part: np.uint64 = (uint64s[word] << shift) | ((uint64s[word + 1] >> uint64(1)) >> (uint64(63) - shift))
    return part


@borrowing
def _add_pair(uint64s: Words, width: int, row: int, heard: Words, plane: Words, carry: Words) -> None:
    """Add rows ``row`` and ``row + 1``, if they count, to the plane of level 0; write the carries."""
    start, other = row * width, (row + 1) * width
    first, shift, heard_a = start >> 6, uint64(start & 63), heard[row]
    second, turn, heard_b = other >> 6, uint64(other & 63), heard[row + 1]
    for w in range(plane.size):
        a = part_of(uint64s, first + w, shift) & heard_a
        b = part_of(uint64s, second + w, turn) & heard_b
        sum_word = plane[w]
        carry[w] = (a & b) | ((a ^ b) & sum_word)
        plane[w] = a ^ b ^ sum_word


@borrowing
def _add_rows(uint64s: Words, width: int, heard: Words, planes: Words2, waiting: Words2, counts: Ints) -> None:
    """Count the ones of each column in rows that count; ``heard`` has one place more than rows, which is false."""
    pairs = heard.size // 2
    for pair in range(pairs):
        _add_pair(uint64s, width, 2 * pair, heard, planes[0], waiting[1 - (pair & 1)])
        carry_on(pair, planes, waiting)
    read_out(pairs, planes, waiting, counts)


@compiled
def _add_lists(uint64s: Words, subset_size: int, bits: int, answered: Bits, counts: Ints) -> bool:
    """Count listed values; return whether all lists ascend and have existing values only."""
    for k in range(answered.size):
        if answered[k]:
            last, start = -1, k * subset_size * bits
            for bit_index in range(start, start + subset_size * bits, bits):
                value = int(part_of(uint64s, bit_index >> 6, uint64(bit_index & 63)) >> uint64(64 - bits))
                if not last < value < counts.size:
                    return False
                counts[value] += 1
                last = value
    return True


@compiled
def _are_subsets(uint64s: Words, width: int, subset_size: int, answered: Bits) -> bool:
    """Return whether all rows of answering devices have this many ones."""
    word_count, tail = -(-width // 64), _ALL << uint64(-width & 63)
    for k in range(answered.size):
        if answered[k]:
            count, start = 0, k * width
            for w in range(word_count):
                part = part_of(uint64s, (start >> 6) + w, uint64(start & 63))
                if w == word_count - 1:
                    part &= tail
                count += ones(part)
            if count != subset_size:
                return False
    return True
