"""SSLP: a corner of the cube around the completed vector (Duchi, Jordan and Wainwright, 2013)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.arrays import Bits2, Bools, Floats2, Words2
from coordinator.protocol.budget import REPLACE, Epsilon, as_float
from coordinator.protocol.channels import BitChannel, bit_channel
from coordinator.protocol.compiled import compiled, uint64
from coordinator.protocol.second_order import WHOLE, Coins, SecondOrderQuery, Signs

if TYPE_CHECKING:
    from coordinator.protocol.features import ItemFeatures

_UNIT = 2.0**-53


def corners(shares: Floats2, channel: BitChannel, coins: Coins) -> Bits2:
    """Return SSLP's corners of the cube: 1 for +B, 0 for -B (Duchi, Jordan and Wainwright, 2013).

    A corner v~ is drawn around the private vector, then a uniform corner z; z is turned to v~'s side with probability
    ``e^eps / (1 + e^eps)`` and to the other side otherwise. A z at right angles to v~ is left alone.

    Shapes: ``shares`` (devices, m).
    """
    items = shares.shape[1]
    return _corners(shares, coins.whole() < channel.threshold, coins.places(items), coins.fair(items))


@compiled
def _corners(shares: Floats2, turned: Bools, coins: Words2, fair: Words2) -> Bits2:
    bits = np.empty(shares.shape, np.uint8)
    for k in range(shares.shape[0]):
        agreement = 0
        for item in range(shares.shape[1]):
            near = float(coins[k, item] >> uint64(11)) * _UNIT < 0.5 + 0.5 * shares[k, item]
            bit = (fair[k, item >> 6] >> uint64(item & 63)) & uint64(1)
            bits[k, item] = bit
            agreement += 1 if near == (bit == uint64(1)) else -1
        if agreement != 0 and (agreement > 0) == turned[k]:
            for item in range(shares.shape[1]):
                bits[k, item] ^= 1
    return bits


class Sslp(Signs):
    """A random corner on the side of the private vector, or on the other side; one randomized bit says which."""

    name, order = "sslp", 50
    guarantee = WHOLE
    neighbours = REPLACE
    takes_epsilon = True
    needs_range = True
    swept = ("5",)

    def channel(self, query: SecondOrderQuery, features: ItemFeatures) -> BitChannel:
        return bit_channel(query.epsilon)

    def randomize(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> Bits2:
        return np.packbits(corners(vectors / sslp_clip(features), self.channel(query, features), coins), axis=1)

    def heights(self, payloads: Bits2, query: SecondOrderQuery, features: ItemFeatures) -> float:
        return sslp_bound(features, query.epsilon)


def sslp_clip(features: ItemFeatures) -> float:
    """Return M, half the width of the range of ratings: SSLP clips residuals to ``[-M, M]``."""
    return (features.highest - features.lowest) / 2


def sslp_bound(features: ItemFeatures, epsilon: Epsilon) -> float:
    """Return B, the size of SSLP's coordinates that makes the release unbiased (Duchi, Jordan and Wainwright, 2013)."""
    # ``B = M (e^eps + 1) / (e^eps - 1) 2^(m - 1) / binom(m - 1, floor(m / 2))``, M of `sslp_clip`; what is estimated is
    # the clipped vector.
    count, middle = features.items, features.items // 2
    log_central = (count - 1) * math.log(2) - (
        math.lgamma(count) - math.lgamma(middle + 1) - math.lgamma(count - middle)
    )
    return sslp_clip(features) / math.tanh(as_float(epsilon) / 2) * math.exp(log_central)


MECHANISMS = (Sslp(),)
