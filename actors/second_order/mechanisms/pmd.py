"""PMD: a device makes K candidate vectors that together are uniform at every item, and releases one of them.

Source: Xin and Jaakkola (2014), section 4, objective (8). At every item the K candidates are a permutation of the
ratings S that there are, so one of them, chosen by a fair coin of K sides, is uniform on S at every item alone. Greedy
swaps make the candidates' second moments like the device's own.
"""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.second_order.device_half import SecondOrderDevice
from actors.second_order.pmd_kernels import choose_candidates
from coordinator.protocol.arrays import Bits2, Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_public import MOST_CANDIDATES

SWEEPS, PASSES = 3, 1
"""Sweeps over all pairs of candidates at one item, and passes over all items, where nothing else is said."""


def candidate_values(features: ItemFeatures, candidates: int | None = None) -> Floats2:
    """Return what candidates may take at every item: the ratings S less mu, tiled to K.

    Parameters
    ----------
    features : ItemFeatures
        Public; has a scale.
    candidates : int or None
        K, a multiple of the size of S; None for the size itself.

    Returns
    -------
    ndarray of float64, shape (m, K)

    Raises
    ------
    InputError
        If ratings are continuous, K is below 2 or above 255, or no multiple of the size of S.
    """
    if features.scale is None:
        raise InputError("mechanism pmd needs a scale of discrete ratings; these are continuous, use pmc")
    size = len(features.scale)
    many = size if candidates is None else candidates
    if many < 2 or many > MOST_CANDIDATES or many % size:
        raise InputError(
            f"PMD with K = {many} candidates is impossible; give a multiple of the scale's {size} ratings "
            f"from 2 to {MOST_CANDIDATES}"
        )
    levels = np.tile(np.array(features.scale), many // size)
    return np.ascontiguousarray(levels[None, :] - features.mean[:, None])


def candidate(
    residuals: Floats2,
    values: Floats2,
    coins: Coins,
    *,
    ratings: int,
    sweeps: int = SWEEPS,
    passes: int = PASSES,
) -> Bits2:
    """Return the candidate that each device releases, as places in the scale S.

    Parameters
    ----------
    residuals : ndarray of float64, shape (devices, m)
        Private: r' = r - mu of the completed vectors.
    values : ndarray of float64, shape (m, K)
        Of `candidate_values`.
    coins : Coins
        Of these devices in this query.
    ratings : int
        Number of ratings in S.
    sweeps, passes : int
        See `pmd_kernels.greedy_swaps`.

    Returns
    -------
    ndarray of uint8, shape (devices, m)
        Every entry alone is uniform on 0 to ``ratings - 1``, whatever the residuals.
    """
    told = np.empty(residuals.shape, np.uint8)
    choose_candidates(values, residuals, coins.shuffles(), coins.whole(), sweeps, passes, told)
    told %= np.uint8(ratings)
    return told


class Pmd(SecondOrderDevice):
    """Releases one of K candidate vectors."""

    names = ("pmd",)

    def payloads(
        self,
        residuals: Floats2,
        query: SecondOrderQuery,  # noqa: ARG002 (the model tells it all)
        features: ItemFeatures,
        coins: Coins,
    ) -> list[bytes]:
        """Return the places of one candidate in the scale, a device."""
        values = candidate_values(features)
        told = candidate(residuals, values, coins, ratings=len(features.scale or ()))
        return [row.tobytes() for row in told]


DEVICE = (Pmd(),)
