"""Anchor sensing's statistic: agreements with public signs of pairs, and of the items that a device sensed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Ints, Words, Words2
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import borrowing
from coordinator.protocol.mechanisms.anchor import LEVELS, SENSED
from coordinator.protocol.mechanisms.pairs import pairs_of
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.streams import device_streams
from coordinator.protocol.turned import sensed_planes, word_coins
from coordinator.server.statistics.signs import agreements
from coordinator.server.statistics.sliced import carry_on, planes_for, read_out
from coordinator.server.statistics.statistic import Statistic

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, kw_only=True)
class AnchorStatistic(Statistic):
    """Sums over the devices that answered; see `Statistic`. What a round was not about is empty.

    Attributes
    ----------
    pairs : ndarray of int64, shape (M (M - 1) / 2,)
        Devices whose bit was the public sign of a pair of the pool, in the order of an upper triangle's rows.
    sensed, scores : ndarray of int64, shape (N,)
        Devices whose public coin had them sense an item, and those of them whose bit was its public sign.
    ones : int
        Ones among the released bits.
    """

    counts: ClassVar[tuple[str, ...]] = ("pairs", "sensed", "scores")

    pairs: Ints
    sensed: Ints
    scores: Ints
    ones: int

    @property
    def means(self) -> Floats:
        """Mean of ``H_i S`` over the devices that sensed each item; 0 where none did."""
        return (2 * self.scores - self.sensed) / np.maximum(self.sensed, 1)

    def __add__(self, other: Self) -> Self:
        """Return the statistic of both blocks, or rounds, together."""
        return Statistic.__add__(self._as_wide_as(other), other._as_wide_as(self))

    def shape(self) -> tuple[object, ...]:
        """Return the kind; see `Statistic.shape`. Sizes may differ, since each round is about pairs or items."""
        return super().shape()[:1]

    def _as_wide_as(self, other: Self) -> Self:
        sizes = {name: max(getattr(self, name).size, getattr(other, name).size) for name in self.counts}
        held = {name: getattr(self, name) for name in self.counts}
        wider: dict[str, Any] = {name: np.pad(one, (0, sizes[name] - one.size)) for name, one in held.items()}
        return replace(self, **wider)


def aggregate_anchor(query: Query, release: Release) -> AnchorStatistic:
    """Return the statistic of one block's release to `PairSigns` or `Anchor`; see `aggregation.aggregate`."""
    release.require(query)
    answered, positive = release.answered_mask(), release.unpacked()[:, 0].astype(np.bool_)
    pairs, sensed, scores = np.zeros((3, 0), np.int64)
    if SENSED in query.arrays:
        sensed, scores = turned_agreements(query, release.first, positive, answered)
    else:
        assert query.pool is not None  # a device answers no other
        key = round_key(query.public_seed, query.round)
        pairs = agreements(key, release.first, positive, answered, pairs_of(query.pool.size))
    return AnchorStatistic(
        pairs=pairs,
        sensed=sensed,
        scores=scores,
        asked=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
        ones=int((positive & answered).sum()),
    )


def turned_agreements(query: Query, first: int, positive: Bools, answered: Bools) -> tuple[Ints, Ints]:
    """Return how many answering devices sensed each item, and how many of them agreed with its sign, int64, (N,)."""
    count = positive.size
    even = count + count % 2
    streams = device_streams(round_key(query.public_seed, query.round), first, even)
    flips, heard = np.zeros((2, even), np.uint64)
    flips[:count], heard[:count] = np.where(positive, 0, _FULL), np.where(answered, _FULL, 0)
    sensing = sensed_planes(query.arrays[SENSED], int(query.parameters[LEVELS]))
    sensed, scores = np.zeros((2, query.items), np.int64)
    of_sensed, of_scores = planes_for(even, query.items), planes_for(even, query.items)
    _add_up(streams, flips, heard, sensing, of_sensed, of_scores, sensed, scores)
    return sensed, scores


@borrowing
def _add_up(
    streams: Words,
    flips: Words,
    heard: Words,
    sensing: Words2,
    of_sensed: tuple[Words2, Words2],
    of_scores: tuple[Words2, Words2],
    sensed: Ints,
    scores: Ints,
) -> None:
    """Count an even number of devices; each pair of planes is as `sliced.planes_for` makes it."""
    pairs, words = streams.size // 2, sensing.shape[1]
    (planes, waiting), (agreed, agreed_waiting) = of_sensed, of_scores
    for pair in range(pairs):
        one, other = 2 * pair, 2 * pair + 1
        out, agreed_out = waiting[1 - (pair & 1)], agreed_waiting[1 - (pair & 1)]
        for w in range(words):
            sign, mask = word_coins(streams[one], w, sensing)
            sign_b, mask_b = word_coins(streams[other], w, sensing)
            a, b, held = mask & heard[one], mask_b & heard[other], planes[0, w]
            out[w], planes[0, w] = (a & b) | ((a ^ b) & held), a ^ b ^ held
            a, b, held = a & (sign ^ flips[one]), b & (sign_b ^ flips[other]), agreed[0, w]
            agreed_out[w], agreed[0, w] = (a & b) | ((a ^ b) & held), a ^ b ^ held
        carry_on(pair, planes, waiting)
        carry_on(pair, agreed, agreed_waiting)
    read_out(pairs, planes, waiting, sensed)
    read_out(pairs, agreed, agreed_waiting, scores)
