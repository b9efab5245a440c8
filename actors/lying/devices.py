"""Devices that lie: the ratings that they make up, and a block of devices some of which lie."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from actors.device import Cohort, Reports, reports_of
from actors.lying.lies import RATINGS, SKETCHES, Collusion, LiarsView, Lie, lie_about, put_rows, rows_of
from actors.mechanisms import half_of
from actors.ratings import StoredRatings
from actors.seeds import Coins
from coordinator.protocol.arrays import Indices2, Ints
from coordinator.protocol.messages import Query
from coordinator.protocol.rating_table import RowTable

PROFILES = 8192  # How many different made-up users there are; further liars repeat the ratings of one of them


def made_up(collusion: Collusion, devices: int, *, rated_public: bool = False) -> StoredRatings:
    """Return the ratings that every device would claim if it lied.

    A made-up user rated as many items as others did: first wished ones, in turn, each as wished, and then, if it has
    ratings left, other items, in turn, which it dislikes, so that they do not hide its likes. Where clusters have no
    order, half of its ratings at most are of wished items, and of the others it likes the first cluster: there its
    rating of an item counts only beside its ratings of others.
    """
    wished, rest = (np.flatnonzero(collusion.wishes != 0), np.flatnonzero(collusion.wishes == 0))
    coins = np.random.default_rng(0)
    wished_count = min(collusion.rated if collusion.ordered else -(-collusion.rated // 2), wished.size)
    liked = (collusion.wishes if collusion.ordered else collusion.claims) > 0
    items = np.concatenate(
        [
            _in_turn(coins.permutation(wished), wished_count),
            _in_turn(coins.permutation(rest), collusion.rated - wished_count),
        ],
        axis=1,
    )
    items.sort(axis=1)
    starts = np.arange(len(items) + 1, dtype=np.int64) * items.shape[1]
    rows = RowTable(starts=starts, items=items.ravel(), values=liked[items.ravel()], count=collusion.wishes.size)
    user = (np.arange(devices) % PROFILES).astype(np.int32)
    return StoredRatings(rows=rows, user=user, rated_public=rated_public)


def _in_turn(items: Ints, each: int) -> Indices2:
    """Return ``each`` items, or all where there are fewer, for each made-up user; all items equally often."""
    each = min(each, items.size)
    if not each:
        return np.empty((PROFILES, 0), np.int32)
    turns = np.arange(PROFILES)[:, None] * each + np.arange(each)
    turn_items: Indices2 = items[turns % items.size].astype(np.int32)
    return turn_items


class LyingCohort(Cohort):
    """Devices as in `Cohort`; each lies or not by its own coin, and liars follow their `Collusion`."""

    def __init__(self, *block: Any, collusion: Collusion, **settings: Any) -> None:
        super().__init__(*block, **settings)
        self.collusion = collusion

    def _reports(self, query: Query, first: int, stop: int) -> Reports:
        coins = self._coins(query, first, stop)
        liars = self.collusion.liars(query, coins)
        if not liars.size:
            return super()._reports(query, first, stop)
        lie = lie_about(query.design)
        if (
            lie is None
            or self.collusion.makes_up == RATINGS
            or (self.collusion.makes_up == SKETCHES and not lie.sketched)
        ):
            return self._of_made_up_ratings(query, coins, liars)
        view = LiarsView(query=query, collusion=self.collusion, coins=coins, liars=liars)
        return self._of_sketches(lie, view) if self.collusion.makes_up == SKETCHES else self._of_answers(lie, view)

    @cached_property
    def _made_up(self) -> StoredRatings:
        return made_up(self.collusion, self._ratings.users, rated_public=self._ratings.rated_public)

    def _of_made_up_ratings(self, query: Query, coins: Coins, liars: Ints) -> Reports:
        """Return the reports if liars answer as their devices would with made-up ratings."""
        honest, made_up_reports = reports_of(query, self._ratings, coins), reports_of(query, self._made_up, coins)
        put_rows(honest.bits, liars, rows_of(made_up_reports.bits, query.bits, liars))
        able, pairs = honest.able, honest.pairs
        if made_up_reports.able is not None or able is not None:
            able = np.ones(coins.devices, np.bool_) if able is None else able
            able[liars] = True if made_up_reports.able is None else made_up_reports.able[liars]
        if pairs is not None and made_up_reports.pairs is not None:
            pairs[liars] = made_up_reports.pairs[liars]
        return Reports(honest.bits, able, pairs)

    def _of_sketches(self, lie: Lie, view: LiarsView) -> Reports:
        """Return the reports if liars choose the sketch that the local randomizer gets."""
        half = half_of(view.query.design)
        private, able, pairs = half.sketch(view.query, self._ratings, view.coins)
        view = _about(view, pairs)
        private[view.liars] = lie.sketches(view, private[view.liars])
        return Reports(half.packed(private, view.query, view.coins), able, pairs)

    def _of_answers(self, lie: Lie, view: LiarsView) -> Reports:
        """Return the reports if liars choose their releases."""
        reports = reports_of(view.query, self._ratings, view.coins)
        view = _about(view, reports.pairs)
        honest_rows = rows_of(reports.bits, view.query.bits, view.liars)
        put_rows(reports.bits, view.liars, lie.answers(view, honest_rows))
        return reports


def _about(view: LiarsView, pairs: Indices2 | None) -> LiarsView:
    """Return the liars' view with their pairs, if there are any."""
    return view if pairs is None else replace(view, pairs=pairs[view.liars])
