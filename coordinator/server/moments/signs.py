"""Exact moments of sign sensing: how strongly an answer agrees with an item's sign, and how many answers to keep.

The released signed vector agrees with item i's sign, less disagrees, with the mean ``t_i = contrast * (2 b - 1)``, b
averaged over user classes: whatever the block model, since the other items' signs are fair coins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import choice_channel
from coordinator.server.moments.counts import hypergeometric_masses


@dataclass(frozen=True, slots=True, kw_only=True)
class SignMoments:
    """Answers of one round of sign sensing about all items.

    Attributes
    ----------
    contrast : float
        See `sign_contrast`.
    """

    contrast: float


def sign_contrast(pool: int, *, items: int, rated: int, vectors: int, kept: int, epsilon: Epsilon) -> float:
    """Return the contrast: ``E[H_i S]`` for each unit of ``2 b - 1`` of an item of the pool.

    A device that rated k items of the pool has m sums, each of k fair signs. Of the 2 m signed vectors the ``kept``
    best are each more probable by the channel's contrast; the sums of these over k are what one rating moves. With one
    vector it is ``tanh(epsilon / 2)`` times ``C(k - 1, floor((k - 1) / 2)) / 2^(k - 1)``, the probability of a tie.

    Parameters
    ----------
    pool : int
        Items M of the pool.
    items, rated : int
        N and w.
    vectors, kept : int
        Sign vectors m, and signed vectors that count as the best, at most m.
    epsilon : Fraction or None
        Privacy parameter of the answer [nats]; None for no noise.
    """
    best = _best_sums(pool, items, rated, vectors)
    return choice_channel(epsilon, choices=2 * vectors, kept=kept).contrast * float(best[kept - 1])


@lru_cache(maxsize=4096)
def best_kept(pool: int, *, items: int, rated: int, vectors: int, epsilon: Epsilon) -> int:
    """Return how many signed vectors should count as the best, 1 to m: where the contrast is largest."""
    best = _best_sums(pool, items, rated, vectors)
    channels = [choice_channel(epsilon, choices=2 * vectors, kept=kept).contrast for kept in range(1, vectors + 1)]
    return 1 + int(np.argmax(np.array(channels) * best))


@lru_cache(maxsize=4096)
def _best_sums(pool: int, items: int, rated: int, vectors: int) -> Floats:
    """Return ``(w/N) E[sum of the s best of m sums / k]`` for s = 1 to m, k rated items in the pool."""
    others, shares = hypergeometric_masses(items - 1, pool - 1, rated - 1)
    total = np.zeros(vectors)
    for own, part in enumerate(shares.tolist(), others + 1):
        total += part * _best_of(own, vectors) / own
    return rated / items * total


@lru_cache(maxsize=4096)
def _best_of(own: int, vectors: int) -> Floats:
    """Return the expected sum of the s largest of m absolute sums of ``own`` fair signs, s = 1 to m."""
    values = np.arange(own % 2, own + 1, 2)
    tail = np.minimum(1.0, 2 * _more((own + values) // 2 - 1, own, 0.5))  # that of level 0 counts nothing
    steps = np.diff(values, prepend=0)  # E[sum of s largest] = sum over levels of E[min(s, how many reach the level)]
    more = np.arange(vectors)[:, None]
    reach = _more(more, vectors, tail[None, :])  # P(more than j sums reach the level)
    found: Floats = np.cumsum(reach @ steps)
    return found


def _more(count: Ints, many: int, chance: Floats | float) -> Floats:
    """Return P(a binomial count is larger), for counts from -1 on."""
    return np.where(count < 0, 1.0, scipy.special.betainc(np.maximum(count + 1, 1), many - count, chance))
