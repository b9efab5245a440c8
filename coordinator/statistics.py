"""Statistics: mergeable sums of releases, in whole numbers, so that the order of merging never matters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import uint32

from coordinator.protocol.arrays import Bits, Ints, Words
from coordinator.protocol.coins import device_streams, round_key
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.sensing import CHUNK, SensingTable, sense, sensing_table

_FLUSH = 65_535
"""Devices after which half a word of counts could overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreStatistic:
    """Sums over the devices that answered; sums of two blocks add up to that of both.

    Attributes
    ----------
    sensed : ndarray of int64, shape (N,)
        ``sum_u H_ui``: answering devices that sensed item i.
    scores : ndarray of int64, shape (N,)
        ``sum_u H_ui S_u``: those of them whose bit was 1.
    asked, answered, refused : int
        Devices.
    ones : int
        ``sum_u S_u``, over all questions.
    questions : int
        Bits that a device answers.
    """

    sensed: Ints
    scores: Ints
    asked: int
    answered: int
    refused: int
    ones: int
    questions: int = 1

    def __add__(self, other: ScoreStatistic) -> ScoreStatistic:
        """Return the statistic of both blocks together."""
        return ScoreStatistic(
            sensed=self.sensed + other.sensed,
            scores=self.scores + other.scores,
            asked=self.asked + other.asked,
            answered=self.answered + other.answered,
            refused=self.refused + other.refused,
            ones=self.ones + other.ones,
            questions=self.questions,
        )

    @property
    def missing(self) -> int:
        """Devices that neither answered nor refused."""
        return self.asked - self.answered - self.refused

    @property
    def answer_rate(self) -> float:
        """Share of 1 among the answered bits, the estimate of q; 0 where nobody answered."""
        return self.ones / self.answers if self.answers else 0.0

    @property
    def answers(self) -> int:
        """Bits that were answered."""
        return self.answered * self.questions


@compiled
def _add_up(
    items: int, key: Words, table: SensingTable, first: int, bits: Bits, answered: Bits, sensed: Ints, scores: Ints
) -> None:
    """Regenerate every answering device's sensing set and count; both counts share a word, one addition an item."""
    counts, since = np.zeros(items, np.uint32), 0
    words, members = np.empty(CHUNK, np.uint64), np.empty(items + 1, np.uint32)
    streams = device_streams(key, first, bits.size)
    for k in range(bits.size + 1):
        if k == bits.size or since == _FLUSH:
            sensed += counts & uint32(0xFFFF)
            scores += counts >> uint32(16)
            counts[:] = 0
            since = 0
        if k < bits.size and answered[k]:
            since += 1
            unit = uint32(1) + (uint32(bits[k]) << uint32(16))
            for j in range(sense(streams[k], items, table, words, members)):
                counts[members[j]] += unit


def aggregate_scores(query: Query, release: Release) -> ScoreStatistic:
    """Return the statistic of one block's release, regenerating the sensing sets; see `aggregation.aggregate`."""
    release.require(query)
    answered = release.answered_mask()
    bits = release.unpacked()[:, 0] & answered
    sensed, scores = np.zeros(query.items, np.int64), np.zeros(query.items, np.int64)
    key, table = round_key(query.public_seed, query.round), sensing_table(query.parameters["sensing"])
    if query.pool is None:
        _add_up(query.items, key, table, release.first, bits, answered.view(np.uint8), sensed, scores)
    else:
        counts = np.zeros((2, query.pool.size), np.int64)
        _add_up(query.pool.size, key, table, release.first, bits, answered.view(np.uint8), counts[0], counts[1])
        sensed[query.pool], scores[query.pool] = counts
    return ScoreStatistic(
        sensed=sensed,
        scores=scores,
        asked=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
        ones=int(bits.sum(dtype=np.int64)),
    )
