"""Exact moments of sign sensing and of anchor sensing: how strongly an answer agrees with a sign.

A rating of the item at place j counts ``CENTRE_UNIT (2 R - 1) - centre_j``: its distance from what the server expects
of it. A device's other ratings are then a sum X of smaller terms, and the sign of the whole sum follows each rating
more often. Given X, a term v decides the sign of ``v + X`` with probability
``reach(|v|) = P(|X| < |v|) + P(|X| = |v|) / 2``.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import CENTRE_UNIT
from coordinator.protocol.moments.probabilities import binomial_mass, hypergeometric_masses
from coordinator.protocol.value_channels import choice_channel


@dataclass(frozen=True, slots=True, kw_only=True)
class SignMoments:
    """Answers of one round of sign sensing about all items."""

    contrast: float  # See `sign_contrast`


def sign_contrast(pool: int, *, items: int, rated: int, vectors: int, best_count: int, epsilon: Epsilon) -> float:
    """Return the contrast: ``E[H_i S]`` for each unit of ``2 b - 1`` of an item of the pool."""
    # A device that rated k items of the pool has m sums, each of k fair signs. Of the 2 m signed vectors each of the
    # ``best_count`` best is more probable by the channel's contrast, and one rating moves their sums by a k-th. With
    # one vector the contrast is ``tanh(epsilon / 2)`` times ``C(k - 1, floor((k - 1) / 2)) / 2^(k - 1)``, the
    # probability of a tie.
    best = _best_sums(pool, items, rated, vectors)
    return choice_channel(epsilon, choices=2 * vectors, best_count=best_count).contrast * float(best[best_count - 1])


@lru_cache(maxsize=4096)
def optimal_best_count(pool: int, *, items: int, rated: int, vectors: int, epsilon: Epsilon) -> int:
    """Return how many signed vectors should count as the best, 1 to m: where the contrast is largest."""
    best = _best_sums(pool, items, rated, vectors)
    channels = [
        choice_channel(epsilon, choices=2 * vectors, best_count=best_count).contrast
        for best_count in range(1, vectors + 1)
    ]
    return 1 + int(np.argmax(np.array(channels) * best))


@lru_cache(maxsize=4096)
def _best_sums(pool: int, items: int, rated: int, vectors: int) -> Floats:
    """Return ``(w/N) E[sum of the s best of m sums / k]`` for s = 1 to m, k rated items in the pool."""
    others, shares = hypergeometric_masses(items - 1, pool - 1, rated - 1)
    total = np.zeros(vectors)
    for ones, part in enumerate(shares.tolist(), others + 1):
        total += part * _best_of(ones, vectors) / ones
    return rated / items * total


@lru_cache(maxsize=4096)
def _best_of(ones: int, vectors: int) -> Floats:
    """Return the expected sum of the s largest of m absolute sums of ``ones`` fair signs, s = 1 to m."""
    values = np.arange(ones % 2, ones + 1, 2)
    tail = np.minimum(1.0, 2 * _more((ones + values) // 2 - 1, ones, 0.5))  # that of level 0 counts nothing
    steps = np.diff(values, prepend=0)  # E[sum of s largest] = sum over levels of E[min(s, how many reach the level)]
    more = np.arange(vectors)[:, None]
    reach = _more(more, vectors, tail[None, :])  # P(more than j sums reach the level)
    return np.cumsum(reach @ steps)


def _more(count: Ints, trials: int, chance: Floats | float) -> Floats:
    """Return P(a binomial count is larger), for counts from -1 on."""
    from scipy.special import betainc  # noqa: PLC0415 (settings stand beside what predicts them, and load no scipy)

    return np.where(count < 0, 1.0, betainc(np.maximum(count + 1, 1), trials - count, chance))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorMoments:
    """What answers about pairs follow: how much each class likes items of each cluster."""

    ratings: Floats  # shape (K, L); Mean rating, in [-1, 1]

    @property
    def profile(self) -> Floats:
        """The same by clusters, shape (L, K): a difference in any class's ratings tells clusters apart."""
        return self.ratings.T


def tie(signs: Floats) -> Floats:
    """Return ``C(n, floor(n / 2)) / 2^n``: how much one more sign moves the sign of a sum of n fair ones."""
    return binomial_mass(np.floor(signs / 2), signs, 0.5)


def pair_contrast(pool: int, *, items: int, rated: int, epsilon: Epsilon) -> float:
    """Return g2: ``E[Q_ij S]`` for each unit of ``E[X_i X_j]`` of a pair of the pool, without centres."""
    # A device that rated both items and h others of the pool adds up ``p = (h + 2) (h + 1) / 2`` signs, which are fair
    # and independent whatever its ratings are. So ``g2 = tanh(epsilon / 2) w (w - 1) / (N (N - 1)) E[tie(p - 1)]``,
    # where h is hypergeometric: ``w - 2`` draws from ``N - 2`` items, ``M - 2`` of them in the pool.
    if rated < 2:
        return 0.0
    least, shares = hypergeometric_masses(items - 2, pool - 2, rated - 2)
    others = np.arange(least, least + shares.size, dtype=np.float64)
    both = rated * (rated - 1) / (items * (items - 1))
    return bit_channel(epsilon).contrast * both * float(shares @ tie((others + 2) * (others + 1) / 2 - 1))


SMALL = 64
"""Largest pool in which each item itself is left out of the other ratings; in larger ones that makes no difference."""
SMALLER, OWN = 16, 32
"""Above the first size the left-out item's probability of a like is rounded to steps of ``1 / OWN`` to share work."""


def reach(centres: Indices, likes: Floats, *, items: int, rated: int) -> tuple[Floats, Floats]:
    """Return how often a like, and a dislike, of each of a pool's items decides its device's sign, shape (M,) each."""
    # Shapes: ``centres`` (M,); ``likes`` (M,).
    # The law of X, by its characteristic function: the number of the device's other ratings in the pool is
    # hypergeometric; each one's size is that of a random other item of the pool, its sign a fair coin. That a user
    # rates an item only once is left out where sizes differ: a relative change of the order of ``1 / M`` in pools of
    # which a device rated several items.
    share = np.zeros(2 * CENTRE_UNIT + 1)
    np.add.at(share, CENTRE_UNIT - centres, likes / centres.size)
    np.add.at(share, CENTRE_UNIT + centres, (1 - likes) / centres.size)
    if 1 < centres.size <= SMALL:
        own_likes = likes if centres.size <= SMALLER else np.rint(likes * OWN) / OWN
        kinds, which = np.unique(np.stack([centres, own_likes]), axis=1, return_inverse=True)
        same_items, item, steps = (
            np.zeros((kinds.shape[1], share.size)),
            np.arange(kinds.shape[1]),
            kinds[0].astype(np.int64),
        )
        np.add.at(same_items, (item, CENTRE_UNIT - steps), kinds[1])
        np.add.at(same_items, (item, CENTRE_UNIT + steps), 1 - kinds[1])
        others = (share * centres.size - same_items) / (centres.size - 1)
        laws, row = np.clip(others, 0, None), which.reshape(-1)
    else:
        laws, row = share[None, :], np.zeros(centres.size, np.intp)
    inside = _inside(laws, pool=centres.size, items=items, rated=rated)
    return inside[row, CENTRE_UNIT - centres], inside[row, CENTRE_UNIT + centres]


def _inside(share: Floats2, *, pool: int, items: int, rated: int) -> Floats2:
    """Return the reach of every size 0 to ``2 CENTRE_UNIT``, a row for each law of the other ratings' sizes."""
    law = _law_of_sum(share, pool=pool, items=items, rated=rated)
    inside: Floats2 = np.cumsum(law, axis=1) - law / 2
    inside[:, 0] = 0.0  # a rating that counts nothing decides nothing
    return inside


def _law_of_sum(share: Floats2, *, pool: int, items: int, rated: int) -> Floats2:
    """Return P(|X| = x) for x = 0 to ``2 CENTRE_UNIT``, a row for each row of ``share``, the law of a term's size."""
    fewest, chance = hypergeometric_masses(items - 1, pool - 1, rated - 1)
    chance = chance[: np.flatnonzero(chance > chance.max() * 1e-15)[-1] + 1]  # of the other ratings in the pool
    sizes = share.shape[1]
    ring = 1 << int(2 * (sizes - 1) * max(fewest + chance.size - 1, 1) + sizes).bit_length()
    term = np.zeros((len(share), ring))
    term[:, :sizes] += share / 2
    term[:, -np.arange(sizes)] += share / 2
    wave = np.fft.rfft(term).real
    law = np.fft.irfft(_polynomial(chance, fewest, wave), ring)
    masses: Floats2 = np.clip(law[:, :sizes], 0, None)
    masses[:, 1:] *= 2
    return masses


@compiled
def _polynomial(coefficients: Floats, lowest: int, at: Floats2) -> Floats2:
    """Return the values of a polynomial with these coefficients, from that of the power ``lowest`` on."""
    values = np.empty_like(at)
    for row in range(at.shape[0]):
        for column in range(at.shape[1]):
            value = 0.0
            for k in range(coefficients.size - 1, -1, -1):
                value = value * at[row, column] + coefficients[k]
            for _ in range(lowest):
                value *= at[row, column]
            values[row, column] = value
    return values
