"""Readings: the answers of rounds that are read again when estimates improve, for the items of their pools only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.mechanisms.anchor import PRIOR, SENSED
from coordinator.protocol.messages import Query
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.design import PoolDesign
from coordinator.server.statistics.anchor import AnchorStatistic
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.statistic import Statistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Centred:
    """A round about centred ratings.

    Attributes
    ----------
    query : Query
        What was asked.
    inside : ScoreStatistic
        Counts about the M items of its pool alone, shape (M,).
    """

    query: Query
    inside: ScoreStatistic

    def whole(self) -> ScoreStatistic:
        """Return the round's statistic of all items."""
        return replace(self.inside, sensed=self._spread(self.inside.sensed), scores=self._spread(self.inside.scores))

    def _spread(self, values: Ints) -> Ints:
        whole = np.zeros(self.query.items, np.int64)
        whole[self.query.pool] = values
        return whole


@dataclass(frozen=True, slots=True)
class AnchorRound:
    """A round of anchor sensing: what was asked, and the sum of the answers."""

    query: Query
    statistic: AnchorStatistic

    @property
    def turned(self) -> bool:
        """Whether it asked for turned signs, and not for signs of pairs."""
        return SENSED in self.query.arrays

    @property
    def plain(self) -> bool:
        """Whether it asked for first-order signs, which no guess turns: there is one class."""
        return self.turned and self.query.arrays[PRIOR].size == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The rounds so far: those that are read once, and those that are read again when estimates improve.

    Attributes
    ----------
    settled : Estimates or None
        Sum of the estimates of all rounds that are read once.
    centred : tuple of Centred
        Rounds about centred ratings, in order.
    anchors : tuple of AnchorRound
        Rounds of anchor sensing, in order.
    """

    settled: Estimates | None = None
    centred: tuple[Centred, ...] = ()
    anchors: tuple[AnchorRound, ...] = ()

    def and_of(self, query: Query, statistic: Statistic, told: Estimates | None) -> Readings:
        """Return the readings with one more round, whose estimates were ``told`` when it came in."""
        if isinstance(statistic, AnchorStatistic):
            return replace(self, anchors=(*self.anchors, AnchorRound(query, statistic)))
        if told is None:
            return self
        if query.centres is None:
            return replace(self, settled=told if self.settled is None else self.settled + told)
        assert isinstance(statistic, ScoreStatistic)  # because only sign sensing has centres
        inside = replace(statistic, sensed=statistic.sensed[query.pool], scores=statistic.scores[query.pool])
        return replace(self, centred=(*self.centred, Centred(query=query, inside=inside)))

    def anew(self, design: PoolDesign, expected: Floats) -> Estimates:
        """Return the estimates of all rounds, at least one, if users like items as ``expected``, shape (N,)."""
        total = self.settled
        for one in self.centred:
            told = design.read(one.query, one.whole(), expected)
            total = told if total is None else total + told
        assert total is not None
        return total


NO_READINGS = Readings()
"""Before the first round."""
