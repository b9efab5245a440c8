"""Made worlds, whose shares of likes change from period to period."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Floats2, Ints
from coordinator.protocol.coins import derive
from coordinator.server.ageing import AgedShares, Measurement
from scenarios.studies.years.reports import Cohorts

TOP = 10  # Items of a list
_FLAT, _POWER = 4, 0.7  # Popularity by rank is (rank + 4)^-0.7: the tenth item of 2,000 is liked by 11 % with 20 likes
_DISCOUNTS = 1 / np.log2(np.arange(2, TOP + 2))


@dataclass(frozen=True, kw_only=True, eq=False)
class MadeWorlds:
    """Made worlds, one a seed: item j is liked by a share ``1 - exp(-z g_j)`` of people, w items by each on average.

    log g walks at random by a deviation ``drift`` a period; a share of items is replaced by new ones of random rank. A
    share of people leaves each period, and as many come, whose taste is the same. Arrays are over worlds first.
    """

    first_seed: int
    count: int
    periods: int
    items: int
    likes: int
    drift: float
    item_arrivals: float
    churn: float

    @property
    def worlds(self) -> int:
        """Worlds."""
        return self.count

    @property
    def scored(self) -> int:
        """All periods: the world goes on for one more."""
        return self.periods

    @cached_property
    def present(self) -> Floats2:
        """Share of all people who arrived in one period and are there in another, shape (T, T)."""
        arrival, period = np.indices((self.periods, self.periods))
        arrived = np.where(arrival == 0, 1.0, self.churn)
        return np.where(period >= arrival, arrived * (1 - self.churn) ** np.maximum(period - arrival, 0), 0.0)

    @cached_property
    def _drawn(self) -> tuple[Floats, Bools]:
        """Shares of every period and the one after, and the items that came with them, (worlds, T + 1, N) each."""
        shape = (self.count, self.periods + 1, self.items)
        odds, new = np.empty(shape), np.zeros(shape, np.bool_)
        ranked = -_POWER * np.log(np.arange(self.items) + _FLAT + 1.0)
        arrivals = round(self.item_arrivals * self.items)
        for world in range(self.count):
            coins = np.random.default_rng(int.from_bytes(derive(self.first_seed + world, "a made world of years")))
            odds[world, 0] = ranked
            for period in range(1, self.periods + 1):
                odds[world, period] = odds[world, period - 1] + self.drift * coins.normal(size=self.items)
                came = coins.permutation(self.items)[:arrivals]
                odds[world, period, came] = ranked[coins.integers(0, self.items, arrivals)]
                new[world, period, came] = True
        return _with_mean_likes(np.exp(odds), self.likes), new

    def shares(self, period: int, cohorts: Cohorts) -> Floats:  # noqa: ARG002 (all people are alike)
        """Return the share of people who like each item in a period."""
        return self._drawn[0][:, period - 1]

    @property
    def likes_once(self) -> bool:
        """Not: everybody draws likes anew in each period."""
        return False

    @property
    def all_likes(self) -> int:
        """Those of all periods: counters take the likes of each period for new ones."""
        return self.likes * self.periods

    def new_likes(self, period: int) -> Floats:
        """Return the share of people who like each item in a period."""
        return self.shares(period, ())

    def new_items(self, period: int) -> Bools:
        """Return the items that came with a period."""
        return self._drawn[1][:, period - 1]

    def ndcg(self, scores: Floats, period: int) -> Floats:
        """Return the NDCG that is expected, by the shares of the next period."""
        shares = self._drawn[0][:, period]
        top = _best(scores)
        gained = np.take_along_axis(shares, top, axis=-1) @ _DISCOUNTS
        return np.asarray(gained / (np.take_along_axis(shares, _best(shares), axis=-1) @ _DISCOUNTS))[:, None]

    def popularity(self, people: int, drift: float | None, seed: int) -> Floats:
        """Return NDCG of as many people's likes without noise, in the same filter."""
        coins = np.random.default_rng(int.from_bytes(derive(seed, f"popularity of {people}")))
        state = AgedShares.unknown((self.count, self.items), start=self.likes / self.items, drift=drift)
        made = []

        def sampling(shares: Floats) -> Floats:
            return shares * (1 - shares) / people

        for period in range(1, self.periods + 1):
            counts = coins.binomial(people, self.shares(period, ())) / people
            state = state.renewed(self.new_items(period))
            state = state.after([Measurement(counts, sampling)])
            made.append(self.ndcg(state.renewed(self.new_items(period + 1)).mean, period))
        return np.array(made)


def _with_mean_likes(weights: Floats, likes: int) -> Floats:
    """Return ``1 - exp(-z g)`` with the z that makes it sum to so many over the last axis, by Newton's method."""
    z = likes / weights.sum(axis=-1, keepdims=True)
    for _ in range(30):
        rest = np.exp(-z * weights)
        excess = likes - (1 - rest).sum(axis=-1, keepdims=True)
        if np.abs(excess).max() < 1e-10 * likes:
            break
        z = z + excess / (weights * rest).sum(axis=-1, keepdims=True)
    return np.asarray(-np.expm1(-z * weights))


def _best(scores: Floats) -> Ints:
    """Return the ten items of the largest scores, best first, shape (worlds, 10)."""
    top = np.argpartition(-scores, TOP - 1, axis=-1)[..., :TOP]
    order = np.argsort(-np.take_along_axis(scores, top, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(top, order, axis=-1)
