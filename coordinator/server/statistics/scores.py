"""Statistics: mergeable sums of releases, in whole numbers, so that the order of merging never matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numba import uint16, uint32

from coordinator.protocol.arrays import Bits, Counts, Halves, Ints, Ints2, Words
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import borrowing, compiled, inlined
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.sensing import SensingTable, sensing_of
from coordinator.protocol.sensing_sets import sense
from coordinator.protocol.streams import device_streams
from coordinator.server.statistics.statistic import Statistic

FLUSH = 65_535
"""Devices after which half a word of counts could overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreStatistic(Statistic):
    """Sums over the devices that answered; sums of two blocks add up to that of both.

    Attributes
    ----------
    sensed : ndarray of int64, shape (N,)
        ``sum_u H_ui``: answering devices that sensed item i.
    scores : ndarray of int64, shape (N,)
        ``sum_u H_ui S_u``: those of them whose bit was 1.
    ones : int
        ``sum_u S_u``, over all questions.
    questions : int
        Bits that a device answers.
    """

    counts: ClassVar[tuple[str, ...]] = ("sensed", "scores")
    same: ClassVar[tuple[str, ...]] = ("questions",)

    sensed: Ints
    scores: Ints
    ones: int
    questions: int = 1

    @property
    def answer_rate(self) -> float:
        """Share of 1 among the answered bits, the estimate of q; 0 where nobody answered."""
        return self.ones / self.answers if self.answers else 0.0

    @property
    def answers(self) -> int:
        """Bits that were answered."""
        return self.answered * self.questions


class Tally(NamedTuple):
    """Counts of sensing sets."""

    shared: Counts
    """Both counts of every item, and of what is no item, in a word each; `FLUSH` devices fit."""
    seen: Halves
    """The last device that sensed an item, numbered since the words were last moved out."""
    sensed: Ints
    """How many devices sensed an item."""
    scores: Ints
    """How many of those told 1."""


@compiled
def tally_for(sensed: Ints, scores: Ints) -> Tally:
    """Return a tally that adds to these counts."""
    return Tally(np.zeros(sensed.size + 1, np.uint32), np.zeros(sensed.size + 1, np.uint16), sensed, scores)


@inlined
def move_out(shared: Counts, sensed: Ints, scores: Ints) -> None:
    """Move both counts of every item out of their shared words; after at most `FLUSH` devices."""
    for item in range(sensed.size):
        sensed[item] += shared[item] & uint32(0xFFFF)
        scores[item] += shared[item] >> uint32(16)
    shared[:] = 0


@inlined
def count_set(members: Counts, many: int, bit: int, tally: Tally, counted: int) -> int:
    """Count one device's sensing set and its bit: both counts of an item share a word, one addition an item.

    ``counted`` devices were counted since the words were moved out; how many that are now is returned. An item that
    the device has ``seen`` counts no more.
    """
    shared, seen, unit, ours = tally.shared, tally.seen, uint32(1) + (uint32(bit) << uint32(16)), uint16(counted + 1)
    for j in range(many):
        item = members[j]
        if seen[item] != ours:
            shared[item] += unit
            seen[item] = ours
    if counted + 1 < FLUSH:
        return counted + 1
    move_out(shared, tally.sensed, tally.scores)
    seen[:] = 0
    return 0


@compiled
def _add_up(
    key: Words, table: SensingTable, first: int, bits: Bits, answered: Bits, sensed: Ints, scores: Ints
) -> None:
    """Regenerate every answering device's sensing set and count."""
    tally, members = tally_for(sensed, scores), np.empty(table.room, np.uint32)
    _count_sets(device_streams(key, first, bits.size), table, members, bits, answered, tally)


@borrowing
def _count_sets(streams: Words, table: SensingTable, members: Counts, bits: Bits, answered: Bits, tally: Tally) -> None:
    """Regenerate the sets behind these streams and count."""
    counted = 0
    for k in range(bits.size):
        if answered[k]:
            counted = count_set(members, sense(streams[k], table, members), bits[k], tally, counted)
    move_out(tally.shared, tally.sensed, tally.scores)


def aggregate_scores(query: Query, release: Release) -> ScoreStatistic:
    """Return the statistic of one block's release, regenerating the sensing sets; see `aggregation.aggregate`."""
    release.require(query)
    answered = release.answered_mask()
    key, table = round_key(query.public_seed, query.round), sensing_of(query)
    counts = np.zeros((2, table.items), np.int64)
    bits = release.unpacked()[:, 0] & answered
    _add_up(key, table, release.first, bits, answered.view(np.uint8), counts[0], counts[1])
    return score_statistic(query, release, counts)


def score_statistic(query: Query, release: Release, counts: Ints2) -> ScoreStatistic:
    """Return the statistic of one block's release from its counts.

    Parameters
    ----------
    query : Query
        What was asked.
    release : Release
        Its answer.
    counts : ndarray of int64, shape (2, items of the pool or of the catalogue)
        How many answering devices sensed an item, and how many of those answered 1.
    """
    if query.pool is not None:
        inside, counts = counts, np.zeros((2, query.items), np.int64)
        counts[:, query.pool] = inside
    answered = release.answered_mask()
    return ScoreStatistic(
        sensed=counts[0],
        scores=counts[1],
        asked=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
        ones=int((release.unpacked()[:, 0] & answered).sum(dtype=np.int64)),
    )
