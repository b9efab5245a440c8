"""Exact moments of frequency oracles: the probability of each private value, and the variance of counts.

A device that tells what it liked names the liked item i with probability ``(w/N) b_i E[1 / (1 + X)]``, X the likes
among its other ratings. ``E[1 / (1 + X)]`` is the integral of ``E[z^X]`` over z from 0 to 1, and ``E[z^X]`` a mean
product over the subsets that users rate. A device that tells what it rated names any item with the same probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss

from coordinator.protocol.arrays import Floats
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.subsets import mean_product

LIKED = 0.5
"""Assumed share of likes among ratings if it is unknown."""
NODES = 64
"""Most nodes of the integral, which is exact up to twice as many ratings of a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyMoments:
    """What one round about the whole catalogue tells of an item of each cluster.

    Attributes
    ----------
    level : ndarray of float64, shape (L,)
        Mean of an item's estimate.
    variance : ndarray of float64, shape (L,)
        Its variance for one user; that of U users is a U-th of it.
    """

    level: Floats
    variance: Floats

    @property
    def profile(self) -> Floats:
        """What answers without noise tell of each cluster's items, one row a cluster."""
        return self.level[:, None]


def liked_shares(block: BlockParameters) -> Floats:
    """Return the probability that a user's random liked item is one item of each cluster, shape (L,)."""
    nodes, weights = leggauss(min(NODES, block.rated // 2 + 1))
    shares = np.zeros(block.cluster_sizes.size)
    for cluster in range(shares.size):
        others = block.cluster_sizes - (np.arange(shares.size) == cluster)
        for share, like in zip(block.class_shares.tolist(), block.like, strict=True):
            for node, weight in zip(((1 + nodes) / 2).tolist(), (weights / 2).tolist(), strict=True):
                rest = mean_product(1 - (1 - node) * like, others, block.rated - 1)
                shares[cluster] += share * like[cluster] * weight * rest
    return shares * block.rated / block.items


def rated_shares(block: BlockParameters) -> tuple[Floats, Floats]:
    """Return the probability that a user's random rated item is one of each cluster, and liked; and disliked."""
    liked = block.class_shares @ block.like
    return liked / block.items, (1 - liked) / block.items


@lru_cache(maxsize=1 << 16)
def told_share(pool: int, *, items: int, rated: int, likes: float) -> float:
    """Return the probability that a user names one item of a pool, for each unit of how much users like that item.

    Parameters
    ----------
    pool : int
        Items M of the pool.
    items, rated : int
        N and w.
    likes : float
        Share of the pool's ratings that are likes, in (0, 1], taken to be that of every item: 1 where all that is rated
        is told, and then this is exact.
    """
    none = mean_product(np.array([1 - likes, 1.0]), np.array([pool, items - pool]), rated)
    return (1 - none) / (pool * likes)
