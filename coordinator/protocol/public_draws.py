"""What public coins decide of a question, compiled: sets, signs, pairs, hashes, rows, candidates; values as bits."""

from fractions import Fraction
from functools import cache

import numpy as np

from coordinator.protocol.arrays import Bits2, Bools, Counts, Floats, Indices, Indices2, Ints, Words, Words2
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import borrowing, compiled, inlined, int64, uint8, uint32, uint64
from coordinator.protocol.hashing import LOW, below, device_streams, draw, siphash1
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.sensing import DRAWN, SensingTable

_HALF = np.uint64(32)


def streams_of(query: Query, release: Release) -> Words:
    """Return the stream that each device's question follows from, uint64, shape (count,): its own, or its address's."""
    questions = release.words()
    return device_streams(query.key, release.first, release.count) if questions is None else questions


@inlined
def sense(stream: np.uint64, table: SensingTable, sensed: Counts) -> int:
    """Write the sensing set of one device, in any order. Shapes: ``sensed`` (table.room,)."""
    word = draw(stream, uint64(0))
    entry = word & uint64(table.thresholds.size - 1)
    place_count = int(table.numbers[(entry << uint64(1)) + uint64(word < table.thresholds[entry])])
    if not table.spared:
        _draw_places(stream, table.items, place_count, sensed)
        return place_count
    spared = sensed[table.items + 1 :]
    _draw_places(stream, table.items, place_count, spared)
    for item in range(table.items + 1):
        sensed[item] = item
    for j in range(place_count):
        sensed[spared[j]] = table.items
    return table.items


@inlined
def _draw_places(stream: np.uint64, items: int, place_count: int, places: Counts) -> None:
    """Write at least ``place_count`` uniform places, from lane 1 on, and ``items`` for each half that is refused."""
    count, refused = uint64(items), uint64((1 << 32) % items)
    for k in range((place_count + DRAWN - 1) // DRAWN * (DRAWN // 2)):
        word = draw(stream, uint64(k) + uint64(1))
        low, high = (word & LOW) * count, (word >> _HALF) * count
        places[2 * k] = uint32(low >> _HALF) if (low & LOW) >= refused else uint32(count)
        places[2 * k + 1] = uint32(high >> _HALF) if (high & LOW) >= refused else uint32(count)


@inlined
def sign_bit(stream: np.uint64, lane: int, bit_index: int) -> np.uint64:
    """Return the sign of the pool's item at ``bit_index``, 1 for +1 and 0 for -1; its vector starts at ``lane``."""
    word = draw(stream, uint64(lane) + (uint64(bit_index) >> uint64(6)))
    return (word >> (uint64(bit_index) & uint64(63))) & uint64(1)


_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def level_bits(levels: int) -> int:
    """Return how many bits a sensing coin of so many levels, a power of two, has."""
    return levels.bit_length() - 1


def as_mask(members: Bools) -> Words:
    """Return which places are members, as words of 64 places each, the first place the lowest bit."""
    uint64s = np.zeros(-(-members.size // 64), np.uint64)
    places = np.flatnonzero(members)
    np.bitwise_or.at(uint64s, places >> 6, np.uint64(1) << (places & 63).astype(np.uint64))
    return uint64s


def sensed_planes(sensed: Indices, levels: int) -> Words2:
    """Return how often items are sensed, 64 items to a word: a row a bit, the highest first, and a row of "always"."""
    rows = [(sensed >> bit) & 1 == 1 for bit in reversed(range(level_bits(levels)))]
    return np.stack([as_mask(row) for row in (*rows, sensed >= levels)])


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
    lane, bit_index = uint64((item >> 6) * (bits + 1)), uint64(item & 63)
    number = 0
    if 0 < level < 1 << bits:
        for row in range(bits):
            number = 2 * number + int((draw(stream, lane + uint64(row + 1)) >> bit_index) & uint64(1))
    if number >= level:
        return 0, False
    return 2 * int((draw(stream, lane) >> bit_index) & uint64(1)) - 1, True


@compiled
def pairs_among(streams: Words, sizes: Ints) -> Indices2:
    """Return two places of a list of each device's, uniform over all pairs a < b: of the catalogue, or a public list.

    Shapes: ``streams``, ``sizes`` (count,), the lists' sizes; -1 and -1 of a list of fewer than two.
    """
    places = np.full((sizes.size, 2), -1, np.int32)
    for k in range(sizes.size):
        if sizes[k] >= 2:
            first_index, other = below(streams[k], int64(0), sizes[k]), below(streams[k], int64(1), sizes[k] - 1)
            other += other >= first_index
            places[k, 0], places[k, 1] = min(first_index, other), max(first_index, other)
    return places


@borrowing
def random_order(stream: np.uint64, order: Counts, swaps: Counts, sample: Counts) -> None:
    """Write the first items of one device's uniformly random order of all items; sets are its stretches."""
    # A Fisher-Yates shuffle that stops after ``chosen.size`` places and puts back what it moved, so that the next
    # device starts from the same order, whoever came before.
    # Shapes: ``order`` (N,); ``sample`` (at most N,).
    items, count, risky = order.size, sample.size, uint64(0)
    for k in range(count):
        product = (draw(stream, uint64(k)) & LOW) * uint64(items - k)
        swaps[k] = uint32(uint64(k) + (product >> uint64(32)))
        risky |= np.uint64((product & LOW) < uint64(items - k))
    if risky:  # some first half may have to be rejected: once in 2**32 / N draws
        for k in range(count):
            swaps[k] = k + below(stream, k, items - k)
    for k in range(count):
        sample[k] = order[swaps[k]]
        order[swaps[k]] = order[k]
    for k in range(count):
        order[swaps[k]] = swaps[k]
    for k in range(count):
        order[k] = k


@compiled
def buckets_of(streams: Words, values: Indices, buckets: int) -> Indices:
    """Return the bucket that each device's hash puts its value into, int32, shape (devices,)."""
    outputs = np.empty(streams.size, np.int32)
    for k in range(streams.size):
        word = draw(streams[k], uint64(values[k] >> 1))
        hash_bits = word >> uint64(32) if values[k] & 1 else word & LOW
        outputs[k] = int64((hash_bits * uint64(buckets)) >> uint64(32))
    return outputs


@compiled
def count_supports(streams: Words, reports: Indices, buckets: int, counts: Ints) -> None:
    """Add to each value's count the devices whose hash puts it into the bucket that they reported."""
    pairs, bucket_count = counts.size // 2, uint64(buckets)
    even, odds = np.zeros(pairs + 1, np.uint32), np.zeros(pairs + 1, np.uint32)
    odd = counts.size & 1
    for k in range(streams.size):
        stream, bucket = streams[k], uint64(reports[k])
        begin = ((bucket << uint64(32)) + bucket_count - uint64(1)) // bucket_count
        wide = (((bucket + uint64(1)) << uint64(32)) + bucket_count - uint64(1)) // bucket_count - begin
        for pair in range(pairs + odd):
            word = draw(stream, uint64(pair))
            even[pair] += uint32((word & LOW) - begin < wide)
            odds[pair] += uint32((word >> uint64(32)) - begin < wide)
    for pair in range(pairs):
        counts[2 * pair] += even[pair]
        counts[2 * pair + 1] += odds[pair]
    if odd:
        counts[2 * pairs] += even[pairs]


@inlined
def odd(word: np.uint64) -> int:
    """Return 1 where a word of at most 32 bits has an odd number of ones, else 0."""
    word ^= word >> uint64(16)
    word ^= word >> uint64(8)
    word ^= word >> uint64(4)
    word ^= word >> uint64(2)
    return int((word ^ (word >> uint64(1))) & uint64(1))


@compiled
def signs_of(streams: Words, values: Indices, rows: int, columns: int) -> Indices:
    """Return the signs of each device's value in its rows as a number: bit j is 1 where row j has a -1 there."""
    # ``columns`` is the size of the matrix, a power of two.
    mask, outputs = uint64(columns - 1), np.zeros(streams.size, np.int32)
    for k in range(streams.size):
        for row in range(rows):
            outputs[k] |= odd(draw(streams[k], uint64(row)) & mask & uint64(values[k])) << row
    return outputs


@compiled
def gather(streams: Words, reports: Indices, rows: int, counts: Ints) -> None:
    """Add every device's signs, and the products of any of them, to the counts of the rows that these belong to."""
    # A product of rows is the row of their numbers' exclusive or. Reports hold signs as `signs_of` writes them.
    mask, own_rows = uint64(counts.size - 1), np.empty(rows, np.uint64)
    counts[0] += streams.size
    for k in range(streams.size):
        for row in range(rows):
            own_rows[row] = draw(streams[k], uint64(row)) & mask
        product, sign = uint64(0), int64(1)
        for step in range(1, 1 << rows):  # Gray code: one row comes or goes
            row = 0
            while not (step >> row) & 1:
                row += 1
            product ^= own_rows[row]
            if (reports[k] >> row) & 1:
                sign = -sign
            counts[product] += sign


@compiled
def transform(counts: Ints) -> None:
    """Multiply counts by the Hadamard matrix, in place: the fast Walsh-Hadamard transform of 2^m numbers."""
    stride = 1
    while stride < counts.size:
        for begin in range(0, counts.size, 2 * stride):
            for low_index in range(begin, begin + stride):
                low, high = counts[low_index], counts[low_index + stride]
                counts[low_index], counts[low_index + stride] = low + high, low - high
        stride *= 2


@compiled
def item_queries(key: Words, first: int, count: int, pool: Indices) -> tuple[Indices, Bools]:
    """Return the items that devices ``first``, ``first + 1``, ... are asked about, uniform over the pool, and values.

    Shapes: ``key`` (2,).
    """
    streams = device_streams(key, first, count)
    items, values = np.empty(count, np.int32), np.empty(count, np.bool_)
    for k in range(count):
        items[k] = pool[below(streams[k], int64(0), pool.size)]
        values[k] = draw(streams[k], uint64(1)) >> uint64(63) == 1
    return items, values


_RANKS = np.uint64(1 << 32)


@compiled
def _below(streams: Words, threshold: np.uint64) -> Bools:
    hits = np.empty(streams.size, np.bool_)
    for k in range(streams.size):
        hits[k] = draw(streams[k], uint64(0)) >> uint64(1) < threshold
    return hits


def reveals(streams: Words, share: float) -> Bools:
    """Return which devices reveal everything, each with probability ``share`` by its public coin (lane 0)."""
    return _below(streams, np.uint64(round(Fraction(share) * (1 << 63))))


@compiled
def random_subset(streams: Words, starts: Ints, most: int) -> Bools:
    """Return which entries of each device's list are kept: all of a short list, a uniform ``most`` of a longer one."""
    # Shapes: ``streams`` (count,); ``starts`` (count + 1,).
    keep, lowest = np.ones(starts[-1], np.bool_), np.empty(most, np.uint64)
    for k in range(streams.size):
        size, count = starts[k + 1] - starts[k], 0
        if size > most:
            for j in range(size):  # ranks are sorted in as they come: NumPy's sort would be compiled for two seconds
                rank, slot = draw(streams[k], _RANKS + uint64(j)), min(count, most - 1)
                if count < most or rank < lowest[slot]:
                    while slot > 0 and lowest[slot - 1] > rank:
                        lowest[slot] = lowest[slot - 1]
                        slot -= 1
                    lowest[slot] = rank
                    count = min(count + 1, most)
            for j in range(size):
                keep[starts[k] + j] = draw(streams[k], _RANKS + uint64(j)) <= lowest[most - 1]
    return keep


@compiled
def release_values(value: Indices, coins: Words, other: np.uint64, values: int, width: int) -> Bits2:
    """Return what each device releases as ``width`` bits, most significant first: uint8, shape (devices, width)."""
    # Coins below ``(values - 1) * other`` release the other values in their order, ``other`` coins each; all further
    # ones release the value itself.
    miss, bits = uint64(values - 1) * other, np.empty((value.size, width), np.uint8)
    for k in range(value.size):
        answer = uint64(value[k])
        if coins[k] < miss:
            candidate = coins[k] // other
            answer = candidate + uint64(candidate >= answer)
        for bit in range(width):
            bits[k, bit] = uint8((answer >> uint64(width - 1 - bit)) & uint64(1))
    return bits


@compiled
def values_of(bits: Bits2, values: Indices) -> None:
    """Write the whole numbers that rows of bits name, most significant first."""
    for k in range(len(bits)):
        number = 0
        for bit in range(bits.shape[1]):
            number = 2 * number + bits[k, bit]
        values[k] = number


# Public candidates of one private device are unit vectors. A coordinate is a Gaussian as a whole number of 2^-20, from
# one word of a public stream and a table, so that every processor has the same one. A vector over its length is uniform
# on the sphere, up to a millionth, the table's error.
UNIT = 1 << 20  # A Gaussian coordinate is a whole number of parts; so many parts are 1
_CELLS = 8  # bits: cells between a probability and half of it
_LEAST = 1023 << _CELLS  # of 1.0, as its bits stand in a float64


@cache
def gaussian_levels() -> Ints:
    """Return the Gaussian's upper quantiles at 2^-64 times every cell's start, in parts of `UNIT`, falling."""
    from scipy import special  # noqa: PLC0415 (nobody else here needs it)

    # A test holds every one against the edge of its rounding, so that no processor rounds it another way.
    octaves, cells = np.divmod(np.arange((63 << _CELLS) + 1), 1 << _CELLS)
    tails = np.ldexp(1 + cells / (1 << _CELLS), octaves - 64)
    levels: Ints = np.rint(-special.ndtri(tails) * UNIT).astype(np.int64)
    return levels


@inlined
def gaussian(word: np.uint64, levels: Ints) -> int:
    """Return a Gaussian number in parts of `UNIT`, never 0: the inverse of its law, linear within a cell."""
    # The low 63 bits are the tail's probability, its cell the exponent and first bits of that number as a float64.
    bits = np.float64((word >> uint64(1)) | uint64(1)).view(np.int64)
    cell = (bits >> int64(52 - _CELLS)) - int64(_LEAST)
    part = (bits >> int64(20 - _CELLS)) & int64((1 << 32) - 1)
    size = (levels[cell] - ((levels[cell] - levels[cell + 1]) * part >> int64(32))) | int64(1)
    return int(size if word & uint64(1) else -size)


def candidates_key(query_id: bytes) -> Words:
    """Return the two words that key the public candidates of one query."""
    return as_words(derive(query_id, "candidates"))


@compiled
def _coordinates(key: Words, device: int, vector: int, levels: Ints, numbers: Ints) -> None:
    stream = siphash1(key[0], key[1], uint64(device))
    for a in range(numbers.size):
        numbers[a] = gaussian(draw(stream, uint64(vector * numbers.size + a)), levels)


def candidate(query_id: bytes, device: int, vector: int, dimension: int) -> Floats:
    """Return one of a device's public candidates, a vector of length 1, float64, shape (dimension,)."""
    numbers = np.empty(dimension, np.int64)
    _coordinates(candidates_key(query_id), device, vector, gaussian_levels(), numbers)
    direction: Floats = numbers / np.sqrt(float(np.square(numbers).sum()))
    return direction
