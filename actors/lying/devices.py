"""Devices that lie: what they agreed on before a run, what ratings they make up, and a block of them that answers.

The experimenter tells liars their plot with the population; the server never learns it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from actors.coins import Coins
from actors.device import Cohort, Raters, Said, say
from actors.keeper import Books
from actors.lying.lies import Asked, Lie, put_rows, rows_of
from actors.lying.value_lies import lie_about
from actors.mechanisms import half_of
from actors.ratings import Ratings, StoredRatings
from actors.seeds import LIARS, private_coins
from coordinator.protocol.arrays import Floats, Indices, Indices2, Ints
from coordinator.protocol.checked import require_array, require_range, require_whole
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.rows import RowTable

ANSWERS, SKETCHES, RATINGS = "answers", "sketches", "ratings"
"""What a liar makes up: its answer; or its sketch once it knows the query; or its ratings before any query."""
_COINS = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What liars agreed on.

    Attributes
    ----------
    shares : ndarray of float64, shape (N + 1,)
        Share of the devices that lies in a query about M items, at place M; 0 to 1.
    wishes : ndarray of int32, shape (N,)
        1 for items that should seem liked more than they are, -1 for those that should seem liked less, 0 for others.
    truth : ndarray of int32, shape (N,)
        1 for items that are liked more than usual, else -1. The spec lets liars know it, which is an upper bound.
    ordered : bool
        Whether a cluster is liked more than the other. If none is, 1 and -1 are sides: a truth of 1 means the first
        cluster, and a wish that an item should seem to be of it.
    makes_up : str
        `ANSWERS`, `SKETCHES` or `RATINGS`. Only the first gets around the local randomizer.
    rated : int
        How many items a liar claims to have rated, where it makes up its ratings.

    Raises
    ------
    InputError
        If the arrays do not fit each other.
    """

    shares: Floats = field(repr=False)
    wishes: Indices = field(repr=False)
    truth: Indices = field(repr=False)
    ordered: bool = True
    makes_up: str = ANSWERS
    rated: int = 1

    def __post_init__(self) -> None:
        require_array("wishes of liars", self.wishes, np.int32, [None])
        require_range("wishes of liars", self.wishes, -1, 1)
        require_array("truth of liars", self.truth, np.int32, self.wishes.shape)
        require_array("shares of liars", self.shares, np.float64, [self.wishes.size + 1])
        require_range("shares of liars", self.shares, 0.0, 1.0)
        require_whole("rated items of a liar", self.rated, 1, self.wishes.size)
        if self.makes_up not in (ANSWERS, SKETCHES, RATINGS):
            raise InputError(f"liars make up {self.makes_up!r}; choose {ANSWERS}, {SKETCHES} or {RATINGS}")

    @property
    def claims(self) -> Indices:
        """What liars say of every item, 1 or -1: their wish, and the truth where they have none."""
        return np.where(self.wishes == 0, self.truth, self.wishes)

    def liars(self, query: Query, coins: Coins) -> Ints:
        """Return which devices of a block lie, ascending places in it.

        A device has one coin for all queries, so that those who lie at a share also lie at every larger one.
        """
        share = float(self.shares[query.items if query.pool is None else query.pool.size])
        return liars_among(coins, share)


def liars_among(coins: Coins, share: float) -> Ints:
    """Return which devices of a block lie, ascending places in it, by a coin of each, the same in all queries."""
    if share == 0:
        return np.empty(0, np.int64)
    mine = private_coins(coins.master, coins.first, coins.devices, LIARS, np.zeros(2, np.uint64), 0)
    return np.flatnonzero(mine <= np.uint64(min(int(share * _COINS), _COINS - 1)))


PROFILES = 8192
"""Different made-up users; further liars claim what one of them does."""


def made_up(plot: Plot, devices: int, *, rated_public: bool = False) -> StoredRatings:
    """Return what every device would claim if it lied.

    A made-up user rated as many items as others did: as many of the wished ones as there are room for, in turn, each
    as wished, and for the rest other items, in turn, which it dislikes, so that they do not hide what it likes. Where
    clusters have no order half of its ratings at most are of wished items, and it likes the first cluster of the
    others: what it says of an item counts only beside what it says of these.

    Parameters
    ----------
    plot : Plot
        The wishes, and how many items are rated.
    devices : int
        Devices of the population.
    rated_public : bool
        Whether it is public which items a device rated.
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
