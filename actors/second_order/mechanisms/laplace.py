"""Laplace noise on every coordinate, as a device does it: the noise is drawn in steps of a grid."""

from __future__ import annotations

import numpy as np
from numba import uint64

from actors.coins import Coins
from actors.second_order.device_half import SecondOrderDevice
from coordinator.protocol.arrays import Floats2, Indices2, Words, Words2
from coordinator.protocol.compiled import compiled
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.grid_noise import GridLaplace, grid_laplace
from coordinator.protocol.second_order import SecondOrderQuery


def noisy_places(shares: Floats2, channel: GridLaplace, coins: Coins) -> Indices2:
    """Return coordinates with Laplace noise, as steps of the channel's grid.

    Parameters
    ----------
    shares : ndarray of float64, shape (devices, m)
        Private: completed ratings as shares of their range; clipped to [0, 1] here, what is not a number to 0.
    channel : GridLaplace
        Of one coordinate.
    coins : Coins
        Of these devices in this query.

    Returns
    -------
    ndarray of int32, shape (devices, m)
        ``-channel.beyond`` to ``channel.steps + channel.beyond``.
    """
    told = np.empty(shares.shape, np.int32)
    _add_noise(shares, channel.steps, channel.beyond, channel.at_least, coins.places(shares.shape[1]), told)
    return told


@compiled
def _add_noise(shares: Floats2, steps: int, beyond: int, at_least: Words, coins: Words2, told: Indices2) -> None:
    half = uint64(1) << uint64(63)
    for k in range(shares.shape[0]):
        for item in range(shares.shape[1]):
            share = shares[k, item]
            place = round(min(share, 1.0) * steps) if share > 0.0 else 0  # 0 if it is not a number, too
            coin = coins[k, item]
            size = at_least.size - np.searchsorted(at_least, coin & (half - uint64(1)), side="right")
            noisy = place + (size if coin >= half else -size)
            told[k, item] = min(max(noisy, -beyond), steps + beyond)


class Laplace(SecondOrderDevice):
    """Releases the clipped completed vector with Laplace noise on every coordinate."""

    names = ("laplace",)

    def payloads(
        self, residuals: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins
    ) -> list[bytes]:
        """Return the noisy coordinates of every device, in the scale of the ratings."""
        channel, width = grid_laplace(query.epsilon), features.highest - features.lowest
        shares = (residuals + (features.mean - features.lowest)) / width
        told = features.lowest + noisy_places(shares, channel, coins) * (width / channel.steps)
        return [row.tobytes() for row in told.astype("<f8")]


DEVICE = (Laplace(),)
