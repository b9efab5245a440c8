"""Devices that lie: what ratings they make up, and a block of them that answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from actors.coins import Coins
from actors.device import Cohort, Raters, Said, say
from actors.keeper import Books
from actors.lying.lies import RATINGS, SKETCHES, Asked, Lie, Plot, put_rows, rows_of
from actors.lying.value_lies import lie_about
from actors.mechanisms import half_of
from actors.ratings import Ratings, StoredRatings
from coordinator.protocol.arrays import Indices2, Ints
from coordinator.protocol.messages import Query
from coordinator.protocol.rows import RowTable

PROFILES = 8192
"""Different made-up users; further liars claim what one of them does."""


def made_up(plot: Plot, devices: int, *, rated_public: bool = False) -> StoredRatings:
    """Return what every device would claim if it lied.

    A made-up user rated as many items as others did: as many of the wished ones as there are room for, in turn, each
    as wished, and for the rest other items, in turn, which it dislikes, so that they do not hide what it likes. Where
    clusters have no order half of its ratings at most are of wished items, and it likes the first cluster of the
    others: what it says of an item counts only beside what it says of these.
    """
    wished, others = (np.flatnonzero(plot.wishes != 0), np.flatnonzero(plot.wishes == 0))
    coins = np.random.default_rng(0)
    some = min(plot.rated if plot.ordered else -(-plot.rated // 2), wished.size)
    liked = (plot.wishes if plot.ordered else plot.claims) > 0
    items = np.concatenate(
        [_in_turn(coins.permutation(wished), some), _in_turn(coins.permutation(others), plot.rated - some)], axis=1
    )
    items.sort(axis=1)
    starts = np.arange(len(items) + 1, dtype=np.int64) * items.shape[1]
    rows = RowTable(starts=starts, items=items.ravel(), values=liked[items.ravel()], count=plot.wishes.size)
    user = (np.arange(devices) % PROFILES).astype(np.int32)
    return StoredRatings(rows=rows, user=user, rated_public=rated_public)


def _in_turn(items: Ints, each: int) -> Indices2:
    """Return ``each`` items, or all where there are fewer, for each made-up user; all items equally often."""
    each = min(each, items.size)
    if not each:
        return np.empty((PROFILES, 0), np.int32)
    turns = np.arange(PROFILES)[:, None] * each + np.arange(each)
    found: Indices2 = items[turns % items.size].astype(np.int32)
    return found


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
        asked = _about(asked, said.pairs)
        honest = rows_of(said.bits, asked.query.bits, asked.which)
        put_rows(said.bits, asked.which, lie.answers(asked, honest))
        return said


def _about(asked: Asked, pairs: Indices2 | None) -> Asked:
    """Return what was asked with the liars' pairs, if there are any."""
    return asked if pairs is None else replace(asked, pairs=pairs[asked.which])


@dataclass(frozen=True, slots=True, kw_only=True)
class Liars(Raters):
    """Devices that rated items, some of which lie."""

    plot: Plot = field(repr=False)  # What these agreed on

    def cohort(self, holdings: Ratings, secret: bytes, first: int, stop: int, keeper: Books | None) -> LyingCohort:
        """Return devices ``first`` to ``stop - 1``."""
        found = LyingCohort(holdings, secret, first, stop, self.budget, keeper=keeper, absence=self.absence)
        found.plot = self.plot
        return found
