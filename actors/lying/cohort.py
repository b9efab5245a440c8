"""A block of devices some of which lie; the others answer what they would have answered without them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from actors.coins import Coins
from actors.device import Cohort, Raters, Said, say
from actors.keeper import Books
from actors.lying.answers import lie_about
from actors.lying.lie import Asked, Lie
from actors.lying.plot import RATINGS, SKETCHES, Plot
from actors.lying.profiles import made_up
from actors.lying.rows import put_rows, rows_of
from actors.mechanisms import half_of
from actors.ratings import Ratings, StoredRatings
from coordinator.protocol.arrays import Indices2, Ints
from coordinator.protocol.messages import Query


class LyingCohort(Cohort):
    """Devices as in `Cohort`, of which those lie whom a coin of their own chooses, as their `Plot` says."""

    plot: Plot

    def _said(self, query: Query, first: int, stop: int) -> Said:
        coins = self._coins(query, first, stop)
        which = self.plot.liars(query, coins)
        if not which.size:
            return super()._said(query, first, stop)
        lie = lie_about(query.design)
        if lie is None or self.plot.makes_up == RATINGS or (self.plot.makes_up == SKETCHES and not lie.sketched):
            return self._of_made_up_ratings(query, coins, which)
        asked = Asked(query=query, plot=self.plot, coins=coins, which=which)
        return self._of_sketches(lie, asked) if self.plot.makes_up == SKETCHES else self._of_answers(lie, asked)

    @cached_property
    def _made_up(self) -> StoredRatings:
        return made_up(self.plot, self._ratings.users, rated_public=self._ratings.rated_public)

    def _of_made_up_ratings(self, query: Query, coins: Coins, which: Ints) -> Said:
        """Return what is said where liars answer as their device would if their ratings were others."""
        said, other = say(query, self._ratings, coins), say(query, self._made_up, coins)
        put_rows(said.bits, which, rows_of(other.bits, query.bits, which))
        able, pairs = said.able, said.pairs
        if other.able is not None or able is not None:
            able = np.ones(coins.devices, np.bool_) if able is None else able
            able[which] = True if other.able is None else other.able[which]
        if pairs is not None and other.pairs is not None:
            pairs[which] = other.pairs[which]
        return Said(said.bits, able, pairs)

    def _of_sketches(self, lie: Lie, asked: Asked) -> Said:
        """Return what is said where liars choose what the local randomizer is given."""
        half = half_of(asked.query.design)
        private, able, pairs = half.sketch(asked.query, self._ratings, asked.coins)
        asked = _about(asked, pairs)
        private[asked.which] = lie.sketches(asked, private[asked.which])
        return Said(half.packed(private, asked.query, asked.coins), able, pairs)

    def _of_answers(self, lie: Lie, asked: Asked) -> Said:
        """Return what is said where liars choose what they release."""
        said = say(asked.query, self._ratings, asked.coins)
        asked, able = _about(asked, said.pairs), said.able
        honest = rows_of(said.bits, asked.query.bits, asked.which)
        put_rows(said.bits, asked.which, lie.answers(asked, honest))
        if self.plot.grinds:
            able = np.ones(asked.coins.devices, np.bool_) if able is None else able
            able[asked.which] &= lie.suits(asked)
        return Said(said.bits, able, said.pairs)


def _about(asked: Asked, pairs: Indices2 | None) -> Asked:
    """Return what was asked with the liars' pairs, if there are any."""
    return asked if pairs is None else replace(asked, pairs=pairs[asked.which])


@dataclass(frozen=True, slots=True, kw_only=True)
class Liars(Raters):
    """Devices that rated items, some of which lie.

    Attributes
    ----------
    plot : Plot
        What these agreed on.
    """

    plot: Plot = field(repr=False)

    def cohort(self, holdings: Ratings, secret: bytes, first: int, stop: int, keeper: Books | None) -> LyingCohort:
        """Return devices ``first`` to ``stop - 1``."""
        found = LyingCohort(holdings, secret, first, stop, self.budget, keeper=keeper, absence=self.absence)
        found.plot = self.plot
        return found
