"""Scores of items: mergeable sums of releases, in whole numbers; and sums of open ratings."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from coordinator.protocol.arrays import Bits, Bits2, Counts, Halves, Ints, Ints2, Words
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import ZERO, borrowing, compiled, inlined, uint16, uint32, uint64
from coordinator.protocol.hashing import ones, zeros_below
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.public_draws import item_queries, random_order, sense, streams_of
from coordinator.protocol.sensing import SensingTable, sensing_of
from coordinator.protocol.statistics.counts import PairStatistic, check_items
from coordinator.protocol.statistics.slices import part_of, words_of
from coordinator.protocol.statistics.statistic import Statistic, device_counts, no_answer

FLUSH = 65_535  # Devices after which half a word of counts could overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreStatistic(Statistic):
    """Sums over the devices that answered; sums of two blocks add up to that of both."""

    counts: ClassVar[tuple[str, ...]] = ("sensed", "scores")
    same: ClassVar[tuple[str, ...]] = ("questions",)

    sensed: Ints  # shape (N,); ``sum_u H_ui``: answering devices that sensed item i
    scores: Ints  # shape (N,); ``sum_u H_ui S_u``: those of them whose bit was 1
    ones: int  # ``sum_u S_u``, over all questions
    questions: int = 1  # Bits that a device answers

    @property
    def answer_rate(self) -> float:
        """Share of 1 among the answered bits, the estimate of q; 0 where nobody answered."""
        return self.ones / self.answers if self.answers else 0.0

    @property
    def answers(self) -> int:
        """Bits that were answered."""
        return self.answered * self.questions


class SetCounters(NamedTuple):
    """Counts of sensing sets."""

    shared: Counts  # Both counts of every item, and of what is no item, in a word each; `FLUSH` devices fit
    seen: Halves  # The last device that sensed an item, numbered since the words were last moved out
    sensed: Ints  # How many devices sensed an item
    scores: Ints  # How many of those answered 1


@compiled
def counters_for(sensed: Ints, scores: Ints) -> SetCounters:
    """Return counters that add to these counts."""
    return SetCounters(np.zeros(sensed.size + 1, np.uint32), np.zeros(sensed.size + 1, np.uint16), sensed, scores)


@inlined
def move_out(shared: Counts, sensed: Ints, scores: Ints) -> None:
    """Move both counts of every item out of their shared words; after at most `FLUSH` devices."""
    for item in range(sensed.size):
        sensed[item] += shared[item] & uint32(0xFFFF)
        scores[item] += shared[item] >> uint32(16)
    shared[:] = 0


@inlined
def count_set(members: Counts, set_size: int, bit: int, counters: SetCounters, counted: int) -> int:
    """Count one device's sensing set and its bit; return how many devices were counted since words were moved out."""
    # both counts of an item share a word, one addition an item; an item that the device has seen counts no more
    shared, seen = counters.shared, counters.seen
    unit, ours = uint32(1) + (uint32(bit) << uint32(16)), uint16(counted + 1)
    for j in range(set_size):
        item = members[j]
        if seen[item] != ours:
            shared[item] += unit
            seen[item] = ours
    if counted + 1 < FLUSH:
        return counted + 1
    move_out(shared, counters.sensed, counters.scores)
    seen[:] = 0
    return 0


@compiled
def _add_up(streams: Words, table: SensingTable, bits: Bits, answered: Bits, sensed: Ints, scores: Ints) -> None:
    """Regenerate every answering device's sensing set and count."""
    counters, members = counters_for(sensed, scores), np.empty(table.room, np.uint32)
    _count_sets(streams, table, members, bits, answered, counters)


@borrowing
def _count_sets(
    streams: Words, table: SensingTable, members: Counts, bits: Bits, answered: Bits, counters: SetCounters
) -> None:
    """Regenerate the sets behind these streams and count."""
    counted = ZERO
    for k in range(bits.size):
        if answered[k]:
            counted = count_set(members, sense(streams[k], table, members), bits[k], counters, counted)
    move_out(counters.shared, counters.sensed, counters.scores)


def aggregate_scores(query: Query, release: Release) -> ScoreStatistic:
    """Return the statistic of one block's release, regenerating the sensing sets; see `mechanisms.aggregate`."""
    release.require(query)
    answered = release.answered_mask()
    table = sensing_of(query)
    counts = np.zeros((2, table.items), np.int64)
    bits = release.unpacked()[:, 0] & answered
    _add_up(streams_of(query, release), table, bits, answered.view(np.uint8), counts[0], counts[1])
    return score_statistic(query, release, counts)


def score_statistic(query: Query, release: Release, counts: Ints2) -> ScoreStatistic:
    """Return the statistic of one block's release from its counts."""
    # Shapes: ``counts`` (2, items of the pool or of the catalogue).
    if query.pool is not None:
        inside, counts = counts, np.zeros((2, query.items), np.int64)
        counts[:, query.pool] = inside
    answered = release.answered_mask()
    return ScoreStatistic(
        sensed=counts[0],
        scores=counts[1],
        **device_counts(release),
        ones=int((release.unpacked()[:, 0] & answered).sum(dtype=np.int64)),
    )


@compiled
def _add_up_sets(streams: Words, set_size: int, bits: Bits2, answered: Bits, sensed: Ints, scores: Ints) -> None:
    """Regenerate every answering device's sets and count."""
    order = np.arange(sensed.size).astype(np.uint32)
    sample = np.empty(min(sensed.size, set_size * bits.shape[1]), np.uint32)
    swaps, counts, since = np.empty_like(sample), np.zeros(sensed.size, np.uint32), 0
    for k in range(len(bits)):
        if answered[k]:
            random_order(streams[k], order, swaps, sample)
            for question in range(bits.shape[1]):
                unit = uint32(1) + (uint32(bits[k, question]) << uint32(16))
                for item in sample[question * set_size : (question + 1) * set_size]:
                    counts[item] += unit
            since += 1
            if since == FLUSH:
                move_out(counts, sensed, scores)
                since = 0
    move_out(counts, sensed, scores)


def aggregate_partition(query: Query, release: Release) -> ScoreStatistic:
    """Return the statistic of one block's release, regenerating the sets; see `mechanisms.aggregate`."""
    release.require(query)
    answered = release.answered_mask()
    bits = release.unpacked() & answered[:, None]
    sensed, scores = np.zeros(query.items, np.int64), np.zeros(query.items, np.int64)
    streams, set_size = streams_of(query, release), int(query.parameters["set_size"])
    _add_up_sets(streams, set_size, bits, answered.view(np.uint8), sensed, scores)
    return ScoreStatistic(
        sensed=sensed,
        scores=scores,
        **device_counts(release),
        ones=int(bits.sum(dtype=np.int64)),
        questions=query.questions,
    )


_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ALIKE = 1 << 32  # Counts of devices stand below it, and counts of those that rated alike in units of it
_DENSE = 4  # Where a device may rate more than such a part of the items, products of matrices count pairs faster


def aggregate_item_queries(query: Query, release: Release) -> ScoreStatistic:
    """Return for each item how many devices said yes (``sensed``), and yes to "is it liked?" (``scores``)."""
    release.require(query)
    if query.pool is None:
        raise ValueError(f"{query} names no pool of items")
    key = round_key(query.public_seed, query.round)
    items, values = item_queries(key, release.first, release.count, query.pool)
    answered = release.answered_mask()
    yes = (release.unpacked()[:, 0] == 1) & answered
    return ScoreStatistic(
        sensed=np.bincount(items[yes], minlength=query.items),
        scores=np.bincount(items[yes & values], minlength=query.items),
        **device_counts(release),
        ones=int(yes.sum()),
    )


@inlined
def _list_row(uint64s: Words, start: int, items: int, most: int, entries: Ints) -> int:
    """Write ``2 item``, plus 1 for a like, for each rating of a row, last item first; return their number, or -1."""
    count = 0
    for word in range((items - 1) >> 6, -1, -1):
        bit_index, beyond = start + 64 * word, uint64(max(0, 64 * word + 64 - items))
        rated = part_of(uint64s, bit_index >> 6, uint64(bit_index & 63)) & (_ALL << beyond)
        liked = part_of(uint64s, (bit_index + items) >> 6, uint64((bit_index + items) & 63)) & (_ALL << beyond)
        if liked & ~rated or count + ones(rated) > most:
            return -1
        while rated:
            bit = zeros_below(rated)
            entries[count] = 2 * (64 * word + 63 - bit) + int((liked >> uint64(bit)) & uint64(1))
            rated &= rated - uint64(1)
            count += 1
    return count


@compiled
def _add_items(uint64s: Words, most: int, answered: Bits, sensed: Ints, scores: Ints) -> int:
    """Count who rated and liked each item; return the first device whose row is no answer, -1 where there is none."""
    entries = np.empty(most, np.int64)
    for k in range(answered.size):
        count = _list_row(uint64s, 2 * sensed.size * k, sensed.size, most, entries) if answered[k] else 0
        if count < 0:
            return k
        for number in entries[:count]:
            sensed[number >> 1] += 1
            scores[number >> 1] += number & 1
    return -1


@compiled
def _add_pairs(uint64s: Words, most: int, answered: Bits, counts: Ints2) -> int:
    """Count 1 for each device that rated both items of a pair, `_ALIKE` more if alike; return as `_add_items`."""
    entries = np.empty(most, np.int64)
    for k in range(answered.size):
        count = _list_row(uint64s, 2 * len(counts) * k, len(counts), most, entries) if answered[k] else 0
        if count < 0:
            return k
        for first in range(count):
            for second in range(first):
                alike = (entries[first] ^ entries[second] ^ 1) & 1
                counts[entries[first] >> 1, entries[second] >> 1] += 1 + alike * _ALIKE
    return -1


def _refuse(query: Query, release: Release, wrong: int) -> None:
    """Raise an error if a device's row, if any, is no answer."""
    if wrong >= 0:
        most = int(query.parameters["most"])
        problem = f"device {release.first + wrong} likes what it did not rate, or rated more than {most} items"
        raise no_answer(query, release, problem)


def aggregate_revealed(query: Query, release: Release) -> ScoreStatistic:
    """Return for each item how many devices say that they rated it (``sensed``), and liked it (``scores``)."""
    release.require(query)
    answered, (sensed, scores) = release.answered_mask(), np.zeros((2, query.items), np.int64)
    most = int(query.parameters["most"])
    _refuse(query, release, _add_items(words_of(release), most, answered.view(np.uint8), sensed, scores))
    return ScoreStatistic(sensed=sensed, scores=scores, **device_counts(release), ones=int(scores.sum()))


def aggregate_revealed_pairs(query: Query, release: Release) -> PairStatistic:
    """Return for each pair of items how many devices rated both, and how many of these alike."""
    check_items(query.items)
    if _DENSE * int(query.parameters["most"]) > query.items:
        aggregate_revealed(query, release)  # refuses what is no answer
        pairs, agreed = _multiplied(release.unpacked() & release.answered_mask()[:, None], query.items)
        return PairStatistic(pairs=pairs, agreed=agreed, **device_counts(release))
    release.require(query)
    answered, counts = release.answered_mask(), np.zeros((query.items, query.items), np.int64)
    most = int(query.parameters["most"])
    _refuse(query, release, _add_pairs(words_of(release), most, answered.view(np.uint8), counts))
    return PairStatistic(
        pairs=counts & (_ALIKE - 1), agreed=counts >> (_ALIKE.bit_length() - 1), **device_counts(release)
    )


def _multiplied(bits: Bits2, items: int) -> tuple[Ints2, Ints2]:
    """Return how many devices rated both items of each pair, and how many of these alike, by products of matrices."""
    rated, liked = bits[:, :items].astype(np.float32), bits[:, items:].astype(np.float32)  # sums below 2**24 are exact
    disliked = rated - liked
    pairs, agreed = np.triu(rated.T @ rated, 1), np.triu(liked.T @ liked + disliked.T @ disliked, 1)
    return pairs.astype(np.int64), agreed.astype(np.int64)
