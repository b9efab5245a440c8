"""A file's own months or years: who is there, what their sets hold, and what lists are worth in the next period."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Floats2, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from scenarios.data.datasets import RatingTable, read_for, version_of
from scenarios.data.rating_periods import MONTH, RatingPeriods, first_periods, rating_periods
from scenarios.data.rating_split import judge_likes
from scenarios.studies.years.made_worlds import TOP
from scenarios.studies.years.reports import Cohorts
from scenarios.studies.years.years_settings import Years

SAMPLES = 20  # Samples of people, from which intervals follow
_ONE = threading.Lock()


@dataclass(frozen=True, kw_only=True, eq=False)
class FilePeriods:
    """A file by periods; a person and an item are there from the period of their first rating on, and nobody leaves.

    Ratings stand person by person, and by time of each. Periods count from 1; what was rated before the first one has
    a number below.
    """

    labels: tuple[str, ...]  # Of the periods
    people: int
    items: int
    draws: int  # Sets of coins
    likes: int  # w that sets are cut to, at random
    owners: Ints
    rated: Ints  # Items
    liked: Bools
    periods_of: Ints

    @property
    def worlds(self) -> int:
        """Sets of coins."""
        return self.draws

    @property
    def periods(self) -> int:
        """All periods of the budget; lists after the last one have nothing to be held against."""
        return len(self.labels)

    @property
    def scored(self) -> int:
        """All but the last."""
        return self.periods - 1

    @cached_property
    def arrivals(self) -> Ints:
        """The period in which each person came, from 1 on; what was before the first period counts as it."""
        return first_periods(RatingPeriods(self.labels, self.periods_of), self.owners, self.people)

    @cached_property
    def _item_arrivals(self) -> Ints:
        first = np.full(self.items, self.periods + 1, np.int64)
        np.minimum.at(first, self.rated, self.periods_of)
        return first

    @cached_property
    def present(self) -> Floats2:
        """Share of all people who arrived in one period and are there in another, shape (T, T)."""
        arrived = np.bincount(self.arrivals - 1, minlength=self.periods) / self.people
        return np.triu(np.repeat(arrived[:, None], self.periods, axis=1))

    @cached_property
    def _shares(self) -> dict[tuple[int, Cohorts], Floats]:
        return {}

    def shares(self, period: int, cohorts: Cohorts) -> Floats:
        """Return the share of some people whose set of likes so far holds each item, shape (1, N)."""
        if (key := (period, cohorts)) not in self._shares:
            of_arrival = np.zeros(self.periods + 1)
            for arrival, weight in cohorts:
                of_arrival[arrival] = float(weight)
            likes = self.liked & (self.periods_of <= period)
            counts = np.bincount(self.owners[likes], minlength=self.people)
            weights = of_arrival[self.arrivals] * np.minimum(1.0, self.likes / np.maximum(counts, 1))
            held = np.bincount(self.rated[likes], weights=weights[self.owners[likes]], minlength=self.items)
            self._shares[key] = (held / of_arrival[self.arrivals].sum())[None]
        return self._shares[key]

    @property
    def likes_once(self) -> bool:
        """A rating is there once."""
        return True

    @property
    def all_likes(self) -> int:
        """As many as a set has: everybody's first ones."""
        return self.likes

    def new_likes(self, period: int) -> Floats:
        """Return the share of all people whose first likes an item joins in a period, shape (1, N)."""
        first = self._first_likes
        there = np.maximum(self.periods_of[first], 1) == period
        return (np.bincount(self.rated[first[there]], minlength=self.items) / self.people)[None]

    @cached_property
    def _first_likes(self) -> Ints:
        """Which ratings are among everybody's first likes."""
        liking = np.flatnonzero(self.liked)
        owners = self.owners[liking]  # Ratings stand person by person, and by time of each
        return liking[np.arange(owners.size) - np.searchsorted(owners, owners) < self.likes]

    def new_items(self, period: int) -> Bools:
        """Return the items that somebody rated first in a period, shape (1, N)."""
        new: Bools = self._item_arrivals == period
        return new[None]

    def evaluated(self, period: int) -> Floats:
        """Return how many people's lists are scored after a period, and the same in each sample, (1 + samples,)."""
        return np.asarray(self._weights[:, self._tests(period)[0]].sum(axis=1))

    def ndcg(self, scores: Floats, period: int) -> Floats:
        """Return NDCG of lists without what a person rated before, shape (worlds, 1 + samples)."""
        people, past, test = self._tests(period)
        order = self._ties[np.argsort(-scores[:, self._ties], axis=-1, kind="stable")]
        ranks = np.empty(order.shape, np.int64)
        np.put_along_axis(ranks, order, np.arange(self.items)[None], axis=-1)
        gained = np.zeros((scores.shape[0], people.size))
        discounts = 1 / np.log2(np.arange(2, TOP + 2))
        _gains(ranks, self._starts[people], past, test, self.rated, self.liked, discounts, gained)
        weights = self._weights[:, people]
        # A sample of few people may hold nobody of them
        return np.asarray(gained @ weights.T / np.maximum(weights.sum(axis=1), 1))

    def popularity(self, people: int, drift: float | None, seed: int) -> Floats:  # noqa: ARG002 (it has no noise)
        """Return NDCG of all likes so far, shape (scored, 1, 1 + samples)."""
        return self.discounted(1.0)

    def discounted(self, by: float) -> Floats:
        """Return the same where likes of an earlier period count less by a factor."""
        made, counts = [], np.zeros(self.items)
        for period in range(min(int(self.periods_of.min()), 1), self.periods):
            now = self.liked & (self.periods_of == period)
            counts = by * counts + np.bincount(self.rated[now], minlength=self.items)
            if period >= 1:
                made.append(self.ndcg(counts[None], period))
        return np.array(made)

    @cached_property
    def _ties(self) -> Ints:
        return np.random.default_rng(int.from_bytes(derive(0, "ties of years"))).permutation(self.items)

    @cached_property
    def _weights(self) -> Floats2:
        """How often each person is in everybody, and in each sample of people, shape (1 + samples, people)."""
        coins = np.random.default_rng(int.from_bytes(derive(0, "people of years")))
        every = np.full(self.people, 1 / self.people)
        return np.vstack([np.ones(self.people), coins.multinomial(self.people, every, size=SAMPLES)])

    @cached_property
    def _starts(self) -> Ints:
        return np.concatenate([[0], np.cumsum(np.bincount(self.owners, minlength=self.people))])

    def _tests(self, period: int) -> tuple[Ints, Ints, Ints]:
        """Return who likes something in the next period; how much each rated until this one, and until the next."""
        if period not in self._tested:
            past = np.bincount(self.owners[self.periods_of <= period], minlength=self.people)
            test = np.bincount(self.owners[self.periods_of <= period + 1], minlength=self.people)
            liking = self.owners[self.liked & (self.periods_of == period + 1)]
            people = np.unique(liking)
            self._tested[period] = (people, past[people], test[people])
        return self._tested[period]

    @cached_property
    def _tested(self) -> dict[int, tuple[Ints, Ints, Ints]]:
        return {}


@compiled
def _gains(
    ranks: Ints, starts: Ints, past: Ints, test: Ints, rated: Ints, liked: Bools, discounts: Floats, gained: Floats
) -> None:
    """Write every person's NDCG; ranks of items, shape (worlds, N), skip what the person had rated before."""
    top = discounts.size
    for world in range(ranks.shape[0]):
        for person in range(starts.size):
            first = starts[person]
            gain, ideal, count = 0.0, 0.0, 0
            for rating in range(first + past[person], first + test[person]):
                if liked[rating]:
                    if count < top:
                        ideal += discounts[count]
                    count += 1
                    rank = ranks[world, rated[rating]]
                    if rank < top + past[person]:
                        before = 0
                        for earlier in range(first, first + past[person]):
                            if ranks[world, rated[earlier]] < rank:
                                before += 1
                        if rank - before < top:
                            gain += discounts[rank - before]
            gained[world, person] = gain / ideal


def file_periods(settings: Years, draws: int = 1) -> FilePeriods:
    """Return a file by its periods; it is read once."""
    assert settings.ratings is not None  # made worlds have none
    with _ONE:  # threads that begin together wait for the first
        names = ("ratings", "columns", "duplicates", "bad_lines", "unrated", "like_from", "period", "periods", "likes")
        alike = Years.model_construct(**{name: getattr(settings, name) for name in names})
        return _file_periods(alike, draws, version_of(settings.ratings))


def table_of(settings: Years) -> RatingTable:
    """Return the ratings with their times."""
    table = read_for(settings, times=True)
    if table.times is None:
        raise InputError("the ratings have no column of times, which periods need; name it last in --columns")
    return table


@lru_cache(maxsize=4)
def _file_periods(settings: Years, draws: int, *_: Any) -> FilePeriods:
    table = table_of(settings)
    assert table.times is not None  # which `table_of` checks
    labels, periods_of = rating_periods(table.times, settings.period or MONTH, settings.periods)
    liked = judge_likes(table, settings.liked_from)
    if missing := [label for number, label in enumerate(labels[1:], 2) if not liked[periods_of == number].any()]:
        raise InputError(f"nobody likes anything in period {missing[0]} of the file; lower --like-from, or --periods")
    owners = np.repeat(np.arange(table.users), table.degrees)
    order = np.lexsort((table.times, owners))
    return FilePeriods(
        labels=labels,
        people=table.users,
        items=table.count,
        draws=draws,
        likes=settings.likes,
        owners=owners[order],
        rated=table.items[order].astype(np.int64),
        liked=liked[order],
        periods_of=periods_of[order],
    )
