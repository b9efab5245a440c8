"""What PMC and PMD are compared with, as devices do it: Laplace noise on every coordinate, and SSLP."""

from __future__ import annotations

import numpy as np
from numba import uint64

from actors.second_order.coins import Coins
from coordinator.protocol.arrays import Bits, Bits2, Floats2, Indices2, Words, Words2
from coordinator.protocol.channels import BitChannel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.grid_noise import GridLaplace

_UNIT = 2.0**-53


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


def corners(shares: Floats2, channel: BitChannel, coins: Coins) -> Bits2:
    """Return SSLP's corners of the cube: 1 for +B, 0 for -B (Duchi, Jordan and Wainwright, 2013).

    A corner v~ is drawn around the private vector, then a uniform corner z; z is turned to v~'s side with probability
    ``e^eps / (1 + e^eps)`` and to the other side otherwise. A z at right angles to v~ is left alone.

    Parameters
    ----------
    shares : ndarray of float64, shape (devices, m)
        Private: the vector over its bound M; clipped to [-1, 1] here.
    channel : BitChannel
        Randomized response under the epsilon of the whole vector.
    coins : Coins
        Of these devices in this query.

    Returns
    -------
    ndarray of uint8, shape (devices, m)
    """
    told = np.empty(shares.shape, np.uint8)
    turned = coins.whole() < channel.threshold
    items = shares.shape[1]
    _corners(shares, turned.astype(np.uint8), coins.places(items), coins.fair(items), told)
    return told


@compiled
def _corners(shares: Floats2, turned: Bits, coins: Words2, fair: Words2, told: Bits2) -> None:
    for k in range(shares.shape[0]):
        agreement = 0
        for item in range(shares.shape[1]):
            near = float(coins[k, item] >> uint64(11)) * _UNIT < 0.5 + 0.5 * shares[k, item]
            bit = (fair[k, item >> 6] >> uint64(item & 63)) & uint64(1)
            told[k, item] = bit
            agreement += 1 if near == (bit == uint64(1)) else -1
        if agreement != 0 and (agreement > 0) == (turned[k] == 1):
            for item in range(shares.shape[1]):
                told[k, item] ^= 1
