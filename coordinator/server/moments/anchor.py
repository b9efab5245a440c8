"""Exact moments of anchor sensing: how strongly an answer agrees with the sign of a pair, and of a sensed item."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.server.moments.counts import binomial_mass, hypergeometric_masses


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorMoments:
    """What answers about pairs follow: how much each class likes items of each cluster.

    Attributes
    ----------
    ratings : ndarray of float64, shape (K, L)
        Mean rating, in [-1, 1].
    """

    ratings: Floats

    @property
    def profile(self) -> Floats:
        """The same by clusters, shape (L, K): clusters are told apart where any class rates them differently."""
        return self.ratings.T


def tie(signs: Floats) -> Floats:
    """Return ``C(n, floor(n / 2)) / 2^n``: how much one more sign moves the sign of a sum of n fair ones."""
    return binomial_mass(np.floor(signs / 2), signs, 0.5)


def pair_contrast(pool: int, *, items: int, rated: int, epsilon: Epsilon) -> float:
    """Return g2: ``E[Q_ij S]`` for each unit of ``E[X_i X_j]`` of a pair of the pool, without centres.

    A device that rated both items and h others of the pool adds up ``p = (h + 2) (h + 1) / 2`` signs, which are fair
    and independent whatever its ratings are. So ``g2 = tanh(epsilon / 2) w (w - 1) / (N (N - 1)) E[tie(p - 1)]``,
    where h is hypergeometric: ``w - 2`` draws from ``N - 2`` items, ``M - 2`` of them in the pool.

    Parameters
    ----------
    pool : int
        Items M of the pool, 2 to N.
    items, rated : int
        N, at least 2, and w.
    epsilon : Fraction or None
        Privacy parameter of the answer [nats]; None for no noise.
    """
    if rated < 2:
        return 0.0
    least, shares = hypergeometric_masses(items - 2, pool - 2, rated - 2)
    others = np.arange(least, least + shares.size, dtype=np.float64)
    both = rated * (rated - 1) / (items * (items - 1))
    return bit_channel(epsilon).contrast * both * float(shares @ tie((others + 2) * (others + 1) / 2 - 1))
