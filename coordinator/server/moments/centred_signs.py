"""Exact moments of sign sensing whose ratings are counted from centres that the query brings, with one sign vector.

A rating of the item at place j counts ``UNIT (2 R - 1) - centre_j``: its distance from what the server expects of it. A
device's other ratings are then a sum X of smaller terms, and the sign of the whole sum follows each rating more often.
Given X, a term v decides the sign of ``v + X`` with probability ``reach(|v|) = P(|X| < |v|) + P(|X| = |v|) / 2``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from coordinator.protocol.arrays import Floats, Floats2, Indices
from coordinator.protocol.compiled import compiled
from coordinator.protocol.signs import UNIT

SMALL = 64
"""Largest pool in which each item itself is left out of the other ratings; in larger ones that makes no difference."""


SMALLER, OWN = 16, 32
"""Above the first size the left-out item's probability of a like is rounded to steps of ``1 / OWN`` to share work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How often a rating decides the sign of its device's sum."""

    liked: Floats  # shape (M,); If it is a like, and if it is a dislike, of each item of the pool
    disliked: Floats

    @property
    def slope(self) -> Floats:
        """How the mean of ``H S`` changes with ``2 b - 1``, for devices that rated the item and tell the truth."""
        half: Floats = (self.liked + self.disliked) / 2
        return half

    @property
    def offset(self) -> Floats:
        """That mean where ``2 b - 1`` is 0."""
        half: Floats = (self.liked - self.disliked) / 2
        return half


def reach(centres: Indices, likes: Floats, *, items: int, rated: int) -> Reach:
    """Return how often ratings of a pool's items decide a device's sign.

    Shapes: ``centres`` (M,); ``likes`` (M,).

    The law of X, by its characteristic function: the number of the device's other ratings in the pool is
    hypergeometric; each one's size is that of a random other item of the pool, its sign a fair coin. That a user rates
    an item only once is left out where sizes differ: a relative change of the order of ``1 / M`` in pools of which a
    device rated several items.
    """
    share = np.zeros(2 * UNIT + 1)
    np.add.at(share, UNIT - centres, likes / centres.size)
    np.add.at(share, UNIT + centres, (1 - likes) / centres.size)
    if 1 < centres.size <= SMALL:
        own_likes = likes if centres.size <= SMALLER else np.rint(likes * OWN) / OWN
        kinds, which = np.unique(np.stack([centres, own_likes]), axis=1, return_inverse=True)
        own, place, steps = np.zeros((kinds.shape[1], share.size)), np.arange(kinds.shape[1]), kinds[0].astype(np.int64)
        np.add.at(own, (place, UNIT - steps), kinds[1])
        np.add.at(own, (place, UNIT + steps), 1 - kinds[1])
        others = (share * centres.size - own) / (centres.size - 1)
        inside = _inside(np.clip(others, 0, None), pool=centres.size, items=items, rated=rated)[which.reshape(-1)]
        place = np.arange(centres.size)
        return Reach(liked=inside[place, UNIT - centres], disliked=inside[place, UNIT + centres])
    inside = _inside(share[None, :], pool=centres.size, items=items, rated=rated)[0]
    return Reach(liked=inside[UNIT - centres], disliked=inside[UNIT + centres])


def _inside(share: Floats2, *, pool: int, items: int, rated: int) -> Floats2:
    """Return the reach of every size 0 to ``2 UNIT``, a row for each law of the other ratings' sizes."""
    law = _law_of_sum(share, pool=pool, items=items, rated=rated)
    inside: Floats2 = np.cumsum(law, axis=1) - law / 2
    inside[:, 0] = 0.0  # a rating that counts nothing decides nothing
    return inside


def _law_of_sum(share: Floats2, *, pool: int, items: int, rated: int) -> Floats2:
    """Return P(|X| = x) for x = 0 to ``2 UNIT``, a row for each row of ``share``, the law of a term's size."""
    others = np.arange(max(0, rated - 1 - (items - pool)), min(pool - 1, rated - 1) + 1)
    chance = scipy.stats.hypergeom.pmf(others, items - 1, pool - 1, rated - 1) if items > 1 else np.ones(1)
    likely = chance > chance.max() * 1e-15
    others, chance = others[likely], chance[likely]
    sizes = share.shape[1]
    ring = 1 << int(2 * (sizes - 1) * max(int(others[-1]), 1) + sizes).bit_length()
    term = np.zeros((len(share), ring))
    term[:, :sizes] += share / 2
    term[:, -np.arange(sizes)] += share / 2
    wave = np.fft.rfft(term).real
    law = np.fft.irfft(_polynomial(chance, int(others[0]), wave), ring)
    masses: Floats2 = np.clip(law[:, :sizes], 0, None)
    masses[:, 1:] *= 2
    return masses


@compiled
def _polynomial(coefficients: Floats, lowest: int, at: Floats2) -> Floats2:
    """Return the values of a polynomial with these coefficients, from that of the power ``lowest`` on."""
    values = np.empty_like(at)
    for row in range(at.shape[0]):
        for place in range(at.shape[1]):
            value = 0.0
            for k in range(coefficients.size - 1, -1, -1):
                value = value * at[row, place] + coefficients[k]
            for _ in range(lowest):
                value *= at[row, place]
            values[row, place] = value
    return values
