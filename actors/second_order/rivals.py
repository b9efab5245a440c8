"""What PMC and PMD are compared with, as devices do it: Laplace noise on every coordinate, SSLP, and PrivUnitG."""

from __future__ import annotations

import numpy as np
from numba import uint64
from scipy import special

from actors.second_order.coins import Coins
from coordinator.protocol.arrays import Bits, Bits2, Floats, Floats2, Indices2, Words, Words2
from coordinator.protocol.caps import CapChannel
from coordinator.protocol.channels import BitChannel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.grid_noise import GridLaplace

_UNIT = 2.0**-53


def noisy_places(shares: Floats2, channel: GridLaplace, coins: Coins) -> Indices2:
    """Return coordinates with Laplace noise, as steps of the channel's grid.

    Parameters
    ----------
    shares : ndarray of float64, shape (devices, m)
        Private: completed ratings as shares of their range; clipped to [0, 1] here.
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
            place = round(min(max(shares[k, item], 0.0), 1.0) * steps)
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


def leaning(vectors: Floats2, channel: CapChannel, coins: Coins) -> Floats2:
    """Return PrivUnitG's unbiased releases of unit vectors.

    Parameters
    ----------
    vectors : ndarray of float64, shape (devices, d)
        Private, each of length 1, or 0: then the release is noise alone, whose density is within epsilon, too.
    channel : CapChannel
        Of d dimensions.
    coins : Coins
        Of these devices in this query.

    Returns
    -------
    ndarray of float64, shape (devices, d)
    """
    level = _uniform(coins.whole(1))
    outside = coins.whole() < channel.threshold
    level = np.where(outside, level * channel.below, channel.below + level * (1 - channel.below))
    along = special.ndtri(np.minimum(level, 1 - _UNIT))
    noise: Floats2 = special.ndtri(_uniform(coins.places(vectors.shape[1])))
    _turn(noise, vectors, along, channel.length)
    return noise


@compiled
def _turn(noise: Floats2, vectors: Floats2, along: Floats, length: float) -> None:
    """Give every row of the noise the component along its vector that it should have, and divide by the length."""
    for k in range(noise.shape[0]):
        extra = along[k]
        for a in range(noise.shape[1]):
            extra -= noise[k, a] * vectors[k, a]
        for a in range(noise.shape[1]):
            noise[k, a] = (noise[k, a] + extra * vectors[k, a]) / length


def _uniform(coins: Words | Words2) -> Floats:
    """Return uniform numbers strictly between 0 and 1."""
    return np.asarray(((coins >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)
