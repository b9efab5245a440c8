"""Statistics: mergeable sums of releases, in whole numbers, so that the order of merging never matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import uint16, uint32

from coordinator.protocol.arrays import Bits, Counts, Halves, Ints, Ints2, Words
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import compiled, inlined
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


@inlined
def move_out(counts: Counts, sensed: Ints, scores: Ints) -> None:
    """Move both counts of every item out of their shared words; after at most `FLUSH` devices."""
    sensed += counts[: sensed.size] & uint32(0xFFFF)
    scores += counts[: sensed.size] >> uint32(16)
    counts[:] = 0


@inlined
def count_set(members: Counts, many: int, bit: int, counts: Counts, seen: Halves, number: int) -> None:
    """Count one device's sensing set and its bit: both counts of an item share a word, one addition an item.

    ``number`` is the device's since counts were moved out, from 1 on. An item that it has ``seen`` counts no more.
    """
    unit, ours = uint32(1) + (uint32(bit) << uint32(16)), uint16(number)
    for j in range(many):
        item = members[j]
        if seen[item] != ours:
            counts[item] += unit
            seen[item] = ours


@compiled
def _add_up(
    key: Words, table: SensingTable, first: int, bits: Bits, answered: Bits, sensed: Ints, scores: Ints
) -> None:
    """Regenerate every answering device's sensing set and count; what is no item has a count behind all items."""
    counts, seen, since = np.zeros(table.items + 1, np.uint32), np.zeros(table.items + 1, np.uint16), 0
    members, streams = np.empty(table.room, np.uint32), device_streams(key, first, bits.size)
    for k in range(bits.size):
        if answered[k]:
            since += 1
            count_set(members, sense(streams[k], table, members), bits[k], counts, seen, since)
            if since == FLUSH:
                move_out(counts, sensed, scores)
                seen[:] = 0
                since = 0
    move_out(counts, sensed, scores)


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
