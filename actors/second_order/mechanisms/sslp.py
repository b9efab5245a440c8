"""SSLP, as a device does it: a random corner of the cube is turned to its vector's side, or away from it."""

from __future__ import annotations

import numpy as np
from numba import uint64

from actors.coins import Coins
from actors.second_order.device_half import SecondOrderDevice, packed
from coordinator.protocol.arrays import Bits, Bits2, Floats2, Words2
from coordinator.protocol.channels import BitChannel, bit_channel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_mechanisms.sslp import sslp_clip

_UNIT = 2.0**-53


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


class Sslp(SecondOrderDevice):
    """Releases a corner of the cube; the vector is clipped at half the width of the range of ratings."""

    names = ("sslp",)

    def payloads(
        self, residuals: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins
    ) -> list[bytes]:
        """Return the packed corner of every device."""
        shares = residuals / sslp_clip(features)
        return packed(corners(shares, bit_channel(query.epsilon), coins))


DEVICE = (Sslp(),)
