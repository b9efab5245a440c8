"""Exact moments of frequency oracles and of the set mechanism: probabilities of values, and variances of counts."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.moments.blocks import mean_product
from coordinator.protocol.moments.probabilities import binomial_mass

LIKED = 0.5  # Assumed share of likes among ratings if it is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyMoments:
    """Moments of one round's estimate of an item of each cluster, in a round about the whole catalogue."""

    level: Floats  # shape (L,); Mean of an item's estimate
    variance: Floats  # shape (L,); Its variance for one user; that of U users is a U-th of it

    @property
    def profile(self) -> Floats:
        """What answers without noise say of each cluster's items, one row a cluster."""
        return self.level[:, None]


@lru_cache(maxsize=1 << 16)
def item_share(pool: int, *, items: int, rated: int, likes: float) -> float:
    """Return the probability that a user names one item of a pool, for each unit of how much users like that item."""
    none = mean_product(np.array([1 - likes, 1.0]), np.array([pool, items - pool]), rated)
    return (1 - none) / (pool * likes)


MEDIAN = 0.5


def likes_of(like: Floats, sizes: Ints, rated: int) -> Floats:
    """Return the probabilities of 0, 1, ..., ``rated`` likes among a uniform ``rated``-subset of the items.

    >>> likes_of(np.array([1.0, 0.0]), np.array([1, 3]), 2).round(12).tolist()
    [0.5, 0.5, 0.0]
    """
    # Shapes: ``like`` (L,); ``sizes`` (L,).
    total = int(sizes.sum())
    circle = np.exp(-2j * np.pi * np.arange(rated + 1) / (rated + 1))
    factors = 1 + np.outer(circle - 1, like)
    if rated in (0, total):
        transformed = np.prod(factors**sizes, axis=1) if rated else np.ones(1)
    else:
        chance = rated / total
        steps = min(math.ceil(16 * math.sqrt(total * chance * (1 - chance))) + 65, total + 1)
        angles = 2 * np.pi / steps * np.arange(steps)
        turn = np.exp(1j * angles)
        products = np.exp(-1j * angles * rated) * np.ones((rated + 1, 1))
        for factor, size in zip(factors.T, sizes.tolist(), strict=True):
            products *= (1 - chance + chance * np.outer(factor, turn)) ** size
        whole = (np.exp(-1j * angles * rated) * (1 - chance + chance * turn) ** total).sum()
        transformed = products.sum(axis=1) / whole
    return np.clip(np.fft.ifft(transformed).real, 0, 1)


@lru_cache(maxsize=4096)
def set_share(pool: int, *, items: int, rated: int, likes: float, padded: int) -> float:
    """Return the probability that one item of a pool is in a user's set, for each unit of how much users like it."""
    of = likes_of(np.array([likes, 0.0]), np.array([pool, items - pool]), rated)
    return float(of @ np.minimum(np.arange(rated + 1), padded)) / (pool * likes)


@lru_cache(maxsize=4096)
def best_sizes(pool: int, *, rated: int, epsilon: Epsilon, padded: int = 0, subset_size: int = 0) -> tuple[int, int]:
    """Return sizes of sets and subsets with the least noise ``v / f^2``, if half of all ratings are likes."""
    # f is the probability that an item of the pool is in a set, and v the variance of its estimate at a share of f / 2.
    others = binomial_mass(np.arange(rated), rated - 1, LIKED)

    def noise(set_size: int, many: int) -> float:
        share = rated / pool * LIKED * float(others @ np.minimum(1.0, set_size / np.arange(1, rated + 1)))
        return _variance(pool + set_size, set_size, many, as_float(epsilon), share / 2) / share**2

    def best_many(set_size: int) -> int:
        return subset_size or _lowest(lambda many: noise(set_size, many), 1, pool)

    set_size = padded or _lowest(lambda set_size: noise(set_size, best_many(set_size)), 1, min(rated, pool))
    return set_size, best_many(set_size)


@lru_cache(maxsize=4096)
def best_subset(values: int, *, set_size: int, epsilon: Epsilon, share: float) -> int:
    """Return the size of subsets that estimates a value of such a share with the least noise."""
    return _lowest(lambda many: _variance(values, set_size, many, as_float(epsilon), share), 1, values - set_size)


@lru_cache(maxsize=64)
def sizes_for(
    likes: tuple[float, ...],
    pool: int,
    *,
    epsilon: Epsilon,
    together: int = 1,
    padded: int = 0,
    subset_size: int = 0,
    most: int = 1 << 10,
) -> tuple[int, int]:
    """Return likes w that devices keep, and values k of a release, where it is known how many items devices like."""
    # w is the median number of likes: half of the devices pad, the others keep some of theirs. What has the least noise
    # if everybody likes items in proportion to their popularity would be larger where a few like very many, because it
    # is these of whom popular items say least. k has the least noise at half the mean share of devices with a value.
    median = int(np.searchsorted(np.cumsum(likes), MEDIAN))
    set_size = padded or max(together, min(median, most, pool))
    values, named = math.comb(set_size, together), math.comb(pool, together)
    from scipy.special import binom  # noqa: PLC0415 (settings stand beside what predicts them, and load no scipy)

    mean_values = binom(np.minimum(np.arange(len(likes)), set_size), together) @ np.array(likes)
    share = max(float(mean_values), 1e-9) / named
    return set_size, subset_size or best_subset(named + values, set_size=values, epsilon=epsilon, share=share / 2)


def _variance(values: int, set_size: int, subset_size: int, epsilon: float, share: float) -> float:
    """Return the variance of one report's estimate of such a share; see `protocol.channels.SubsetChannel`."""
    few, more = sorted((set_size, subset_size))
    logs = float(np.log1p(-more / (values - np.arange(few))).sum())
    avoid, meet = math.exp(logs), -math.expm1(logs)
    hit = 1 / (1 + avoid / meet * math.exp(-epsilon))
    mean, without = subset_size / values, subset_size / (values - set_size)
    own_share = hit * mean / meet
    other = hit * (mean - avoid * without) / meet + (1 - hit) * without
    rate = other + (own_share - other) * share
    return rate * (1 - rate) / (own_share - other) ** 2 if own_share > other else math.inf


def _lowest(of: Callable[[int], float], low: int, high: int) -> int:
    """Return where a function that falls and then rises is lowest, from ``low`` to ``high``."""
    while high - low > 2:
        third = (high - low) // 3
        if of(low + third) <= of(high - third):
            high -= third
        else:
            low += third
    return min(range(low, high + 1), key=of)


class NoSignal:
    """No number of answers distinguishes the clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YesMoments:
    """Item queries, in which every item gets so many yeses."""

    answers: int  # Number of yeses that an item needs


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealMoments:
    """Full reveal, in which users reveal everything or nothing."""

    share: float  # Probability that a user reveals


@dataclass(frozen=True, slots=True, kw_only=True)
class SumMoments:
    """Two servers' noisy totals of likes."""

    level: Floats  # shape (L,); Probability that a user's vector has a one for one item of each cluster
    noise: float  # Variance of all noise in a total

    @property
    def profile(self) -> Floats:
        """What totals without noise say of each cluster's items, one row a cluster."""
        return self.level[:, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTotalMoments:
    """A curator's noisy totals of pairs of items."""

    profile: Floats  # shape (L, L); Probability that two rated items are rated alike, by their clusters
    scale: float  # Scale of the Laplace noise on each pair
