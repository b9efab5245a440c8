"""Best tests of noisy sums by whoever knows what all others add: one dose of noise is left, and a person's own vector.

Of a history with more likes than count some are kept by private coins. The test then compares means over what could
have been kept; of sums about pairs an attacker is told which likes were kept, which can only help it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from coordinator.protocol.arrays import Bools, Floats, Floats2
from coordinator.protocol.compiled import ZERO, compiled
from scenarios.studies.compare.risk.histories import HistoryPair, Scope
from scenarios.studies.compare.risk.report_tests import kept_of_both, log_binomials

DRAWS = 48  # Releases that are simulated of each of two histories, where likes are kept by private coins
EQUAL = np.zeros(1)  # Log-odds of two histories of which nothing is known yet


class CoordinateNoise(ABC):
    """The noise of each coordinate of a sum."""

    @abstractmethod
    def right(self, changes: int, odds: Floats) -> float:
        """Return how often two vectors are told apart that differ by one in this many coordinates.

        ``odds`` are log-odds of the first, which another sum that was seen before left: a mean over these.
        """

    @abstractmethod
    def log_ratios(self, ones: Bools, coins: np.random.Generator) -> Floats2:
        """Draw what noisy coordinates say: the log-ratio of a one over a zero, of private ones and zeros."""


@dataclass(frozen=True, slots=True)
class GaussianNoise(CoordinateNoise):
    """Gaussian noise; a discrete Gaussian tells two vectors apart as well, up to 5e-6 from a deviation of 12 on."""

    deviation: float

    def right(self, changes: int, odds: Floats) -> float:
        """Return ``Phi(sqrt(D) / (2 sigma))`` where both are equally likely before."""
        distance = math.sqrt(changes) / self.deviation
        if not distance:
            return float(special.expit(np.abs(odds)).mean())
        first = special.expit(odds)
        right = first * special.ndtr(distance / 2 + odds / distance)
        right += (1 - first) * special.ndtr(distance / 2 - odds / distance)
        return float(right.mean())

    def log_ratios(self, ones: Bools, coins: np.random.Generator) -> Floats2:
        """Draw log-ratios; see `CoordinateNoise.log_ratios`."""
        noisy = ones + self.deviation * coins.standard_normal(ones.shape)
        return np.asarray((2 * noisy - 1) / (2 * self.deviation**2))


@dataclass(frozen=True, slots=True)
class LaplaceNoise(CoordinateNoise):
    """Discrete Laplace noise: a coordinate that differs by one says one bit, whatever its value."""

    rate: float  # Log-ratio of neighbouring values [nats]

    def right(self, changes: int, odds: Floats) -> float:
        """Return how often the majority of bits is right where both are equally likely before."""
        bits = np.arange(changes + 1)
        law = np.exp(log_binomials(changes, bits) - changes * math.log1p(math.exp(-self.rate)) - self.rate * bits[::-1])
        logs, first = odds[:, None] + self.rate * (2 * bits - changes), special.expit(odds)[:, None]
        ties = np.abs(logs) < 1e-9
        right = first * law * ((logs > 0) & ~ties) + (1 - first) * law[::-1] * ((logs < 0) & ~ties)
        return float((right + ties * (first * law + (1 - first) * law[::-1]) / 2).sum(axis=1).mean())

    def log_ratios(self, ones: Bools, coins: np.random.Generator) -> Floats2:
        """Draw log-ratios; see `CoordinateNoise.log_ratios`."""
        right = coins.random(ones.shape) < special.expit(self.rate)
        return np.where(right == ones, self.rate, -self.rate)


@dataclass(frozen=True, slots=True)
class LikesSum:
    """An attack on sums of likes, with a maximum of likes per person."""

    noise: CoordinateNoise
    most: int
    scopes: tuple[Scope, ...] = (Scope(),)

    @property
    def worst(self) -> float:
        """See `histories.BestTest.worst`: both histories are full, and share nothing."""
        return self.noise.right(2 * self.most, EQUAL)

    def right(self, pairs: Sequence[HistoryPair]) -> float:
        """See `histories.BestTest.right`; a mean over simulated releases where likes are kept by private coins."""
        (pair,) = pairs
        if max(pair.first, pair.second) <= self.most:
            return self.noise.right(pair.changes, EQUAL)
        return float(special.expit(np.abs(log_odds(self, pair))).mean())


@lru_cache(maxsize=1 << 14)
def log_odds(attack: LikesSum, pair: HistoryPair, draws: int = DRAWS) -> Floats:
    """Simulate sums, half of them from each history, and return the exact log-ratio of the first over the second."""
    first, second, shared, _ = pair
    coins = np.random.default_rng([attack.most, *pair])
    likes = np.zeros((2, draws, first + second - shared), np.bool_)
    likes[0, :, :first] = _counted_likes(draws, first, attack.most, coins)
    of_second = np.concatenate([np.arange(shared), np.arange(first, first + second - shared)])
    likes[1][:, of_second] = _counted_likes(draws, second, attack.most, coins)
    ratios = np.exp(attack.noise.log_ratios(likes.reshape(-1, likes.shape[2]), coins)).T
    start = np.zeros((attack.most + 1, 2 * draws))
    start[0] = 1
    both = mean_products(start, ratios[:shared], 0)
    sides = (
        mean_products(both, rest, shared)[min(size, attack.most)]
        for rest, size in ((ratios[shared:first], first), (ratios[first:], second))
    )
    numerator, denominator = sides
    return np.asarray(np.log(numerator / denominator))


@compiled
def mean_products(means: Floats2, ratios: Floats2, before: int) -> Floats2:
    """Return mean products over t-subsets of coordinates, shape (most + 1, releases), after some more of them.

    ``M_j(t) = (1 - t/j) M_(j-1)(t) + (t/j) x_j M_(j-1)(t-1)``. Shape of ``ratios``: (coordinates, releases);
    ``before`` of them are in ``means``.
    """
    means, most = means.copy(), len(means) - 1
    for index in range(len(ratios)):
        count, ratio = before + index + 1, ratios[index]
        for size in range(min(count, most), ZERO, -1):  # in place, as each needs what the next smaller one was
            of_size, of_smaller, share = means[size], means[size - 1], size / count
            for release in range(ratio.size):
                of_size[release] += (of_smaller[release] * ratio[release] - of_size[release]) * share
    return means


def _counted_likes(draws: int, size: int, most: int, coins: np.random.Generator) -> Bools:
    """Return uniform draws of the likes that are kept, up to a maximum, shape (draws, size)."""
    if size <= most:
        return np.ones((draws, size), np.bool_)
    places = coins.random((draws, size)).argpartition(most - 1, axis=1)[:, :most]
    marks = np.zeros((draws, size), np.bool_)
    np.put_along_axis(marks, places, np.True_, axis=1)
    return marks


@dataclass(frozen=True, slots=True)
class KeptPairsSum:
    """An attack on sums of likes and of their pairs; the attacker also knows which likes were paired."""

    of_items: LikesSum
    of_pairs: CoordinateNoise
    scopes: tuple[Scope, ...]  # Of likes, and of pairs

    @property
    def worst(self) -> float:
        """See `histories.BestTest.worst`: both are full in both sums, and share nothing."""
        most = self.of_items.most
        return self._after(HistoryPair(most, most, 0), 2 * _with_diagonal(most))

    def right(self, pairs: Sequence[HistoryPair]) -> float:
        """See `histories.BestTest.right`."""
        items, paired = pairs
        most = self.of_items.most
        sizes = [_with_diagonal(min(most, size)) for size in (paired.first, paired.second)]
        both = kept_of_both(paired, most).tolist()
        rights = {count: self._after(items, sum(sizes) - 2 * _with_diagonal(count)) for count in set(both)}
        return float(np.mean([rights[count] for count in both]))

    def _after(self, items: HistoryPair, changes: int) -> float:
        """Return how often both sums together are right if the second differs in this many coordinates."""
        if max(items.first, items.second) > self.of_items.most:
            return self.of_pairs.right(changes, log_odds(self.of_items, items))
        return both_right(self.of_items.noise, items.changes, self.of_pairs, changes)


def both_right(first: CoordinateNoise, first_changes: int, second: CoordinateNoise, second_changes: int) -> float:
    """Return how often two vectors are told apart by two independent sums, each with noise of its own."""
    if isinstance(first, GaussianNoise) and isinstance(second, GaussianNoise):
        distance = first_changes / first.deviation**2 + second_changes / second.deviation**2
        return float(special.ndtr(math.sqrt(distance) / 2))
    assert isinstance(first, LaplaceNoise)  # one round's noise is of the other's kind
    bits = np.arange(first_changes + 1)
    odds = np.asarray(first.rate * (2 * bits - first_changes), np.float64)
    law = np.exp(
        log_binomials(first_changes, bits) - first_changes * math.log1p(math.exp(-first.rate)) - first.rate * bits[::-1]
    )
    mixed = (law + law[::-1]) / 2
    return float(
        sum(chance * second.right(second_changes, odds[index : index + 1]) for index, chance in enumerate(mixed))
    )


def _with_diagonal(likes: int) -> int:
    return likes * (likes + 1) // 2
