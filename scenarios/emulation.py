"""Emulated devices: statistics drawn from their exact moments, for runs too large or too many to simulate.

Devices are independent, so that every count is binomial. A device's sign of an item agrees with its bit with a
probability that `coordinator.estimates.contrasts_of` tells; its bit about a sensing set is 1, and is 1 with an item in
the set, with probabilities that `given_sensed` tells. Given the bits, two items' counts are uncorrelated up to the
product of their effects; they are drawn independently. There are no releases, and nothing to take a digest of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.estimates import contrasts_of
from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.messages import Query, Release
from coordinator.server import Ask
from coordinator.statistics import ScoreStatistic
from coordinator.subsets import mean_product


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """A transport without devices; see `coordinator.rounds.Transport`.

    Attributes
    ----------
    likes : ndarray of float64, shape (K, N)
        Probability that a user of each class likes each item: part of the world.
    class_shares : ndarray of float64, shape (K,)
        Shares of the user classes.
    rated : int
        Number of items w that every user rated.
    coins : numpy.random.Generator
        What counts are drawn with.
    """

    likes: Floats2
    class_shares: Floats
    rated: int
    coins: np.random.Generator

    def ask(self, ask: Ask) -> tuple[ScoreStatistic, Sequence[Release]]:
        """Draw the statistic of a round of sign sensing, or of MaxSense."""
        query, users = ask.query, ask.stop - ask.first
        if query.design not in ("sign", "maxsense"):
            raise ValueError(f"{query} is about neither signs nor sensing sets; nothing else is emulated")
        pool = np.arange(query.items) if query.pool is None else query.pool
        drawn = self._signs if query.design == "sign" else self._sets
        sensed, scores = np.zeros(query.items, np.int64), np.zeros(query.items, np.int64)
        sensed[pool], scores[pool], ones = drawn(query, self.likes[:, pool], users)
        statistic = ScoreStatistic(sensed=sensed, scores=scores, asked=users, answered=users, refused=0, ones=int(ones))
        return statistic, []

    def recall(self, ask: Ask) -> None:
        """Do nothing: there are no devices whose ledgers could book anything."""

    def _signs(self, query: Query, liked: Floats2, users: int) -> tuple[Ints, Ints, int]:
        """Draw how many devices had each item in their vector, agreements with it, and ones."""
        means = np.zeros(liked.shape[1])
        for share, likes in zip(self.class_shares, liked, strict=True):
            contrast, offset = contrasts_of(query, rated=self.rated, likes=likes)
            means += share * (contrast * (2 * likes - 1) + offset)
        agreed = self.coins.binomial(users, (1 + means) / 2)
        return np.full(means.size, users), agreed, int(self.coins.binomial(users, 0.5))

    def _sets(self, query: Query, liked: Floats2, users: int) -> tuple[Ints, Ints, int]:
        """Draw how many devices sensed each item, those of them that answered 1, and ones."""
        sensing = float(query.parameters["sensing"])
        given, rate = self.given_sensed(query, liked)
        ones = int(self.coins.binomial(users, rate))
        scores = self.coins.binomial(ones, sensing * given / rate if rate else given)
        others = self.coins.binomial(users - ones, sensing * (1 - given) / (1 - rate) if rate < 1 else 1 - given)
        return scores + others, scores, ones

    def given_sensed(self, query: Query, liked: Floats2) -> tuple[Floats, float]:
        """Return P(answer 1 | item sensed) of each item of the pool, shape (M,), and P(answer 1).

        As `coordinator.moments.maxsense_moments` has it, for a pool: items outside are never sensed.
        """
        sensing, flips = float(query.parameters["sensing"]), bit_channel(query.epsilon).contrast
        kinds, which, counts = np.unique(liked, axis=1, return_inverse=True, return_counts=True)
        sizes = np.append(counts, query.items - liked.shape[1])
        silent, without = 0.0, np.zeros(counts.size)
        for share, likes in zip(self.class_shares.tolist(), kinds, strict=True):
            factors = np.append(1 - sensing * likes, 1.0)
            silent += share * mean_product(factors, sizes, self.rated)
            for kind in range(counts.size):
                others = sizes - (np.arange(sizes.size) == kind)
                rest = mean_product(factors, others, self.rated - 1)
                without[kind] += share * (1 - sensing) * likes[kind] * rest
        rate = (1 + flips) / 2 - flips * silent
        given: Floats = rate + flips * self.rated / query.items * without
        return given[which.reshape(-1)], rate
