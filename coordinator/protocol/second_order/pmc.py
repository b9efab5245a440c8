"""PMC: the sign vector of completed residuals or its opposite; and PMC-RR, whose bits are flipped now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.arrays import Bits2, Floats, Floats2, Words, Words2
from coordinator.protocol.channels import BitChannel, bit_channel
from coordinator.protocol.checked import require_range
from coordinator.protocol.compiled import compiled, uint64
from coordinator.protocol.second_order import (
    A_BIT,
    ELEMENT,
    HALF,
    LARGEST_RELEASED,
    Coins,
    SecondOrderQuery,
    Signs,
    as_bytes,
    as_numbers,
    packed_size,
)

if TYPE_CHECKING:
    from coordinator.protocol.budget import Epsilon
    from coordinator.protocol.features import ItemFeatures

OWN_H = "none: a device's own h in full precision tells its ratings to whoever can try them out"


def signs(residuals: Floats2, coins: Coins) -> Bits2:
    """Return the bits that PMC releases: 1 for +h, 0 for -h.

    Shapes: ``residuals`` (devices, m).
    """
    return _signs(residuals, coins.whole(), coins.fair(residuals.shape[1]))


@compiled
def _signs(residuals: Floats2, flips: Words, fair: Words2) -> Bits2:
    bits = np.empty(residuals.shape, np.uint8)
    for k in range(residuals.shape[0]):
        flip = flips[k] >> uint64(63)
        for item in range(residuals.shape[1]):
            residual = residuals[k, item]
            coin = (fair[k, item >> 6] >> uint64(item & 63)) & uint64(1)
            bits[k, item] = flip ^ (coin if residual == 0.0 else uint64(residual > 0.0))
    return bits


def flipped_signs(residuals: Floats2, coins: Coins, epsilon: Epsilon) -> Bits2:
    """Return PMC's bits, each flipped with probability ``1 / (1 + e^epsilon)`` by a coin of its own (PMC-RR).

    ``epsilon`` in nats.
    """
    threshold = bit_channel(epsilon).threshold
    bits = signs(residuals, coins)
    bits ^= (coins.places(residuals.shape[1]) < threshold).astype(np.uint8)
    return bits


@compiled
def own_h(residuals: Floats2) -> Floats:
    """Return every device's own h, the mean absolute residual, float64, shape (devices,); it leaks a little."""
    sizes = np.zeros(residuals.shape[0])
    for k in range(residuals.shape[0]):
        for item in range(residuals.shape[1]):
            sizes[k] += abs(residuals[k, item])
        sizes[k] /= residuals.shape[1]
    return sizes


class Pmc(Signs):
    """Signs of the size h: common h, or the device's own, float64, after them."""

    name, order = "pmc", 20
    guarantee = ELEMENT
    releases_own_h = True
    weight: float | None = HALF
    sided = True
    swept: tuple[str, ...] = ("",)
    attacked: tuple[str, ...] = ("",)

    def promised(self, query: SecondOrderQuery) -> str:
        """Return the promise; there is none where the device releases its own h."""
        return OWN_H if query.own_h else self.guarantee

    def size(self, query: SecondOrderQuery, features: ItemFeatures) -> int:
        return packed_size(features) + 8 * query.own_h

    def randomize(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> Bits2:
        releases: Bits2 = np.packbits(flipped_signs(vectors, coins, query.epsilon), axis=1)
        return np.hstack([releases, as_bytes(own_h(vectors)[:, None])]) if query.own_h else releases

    def check(self, payloads: Bits2, query: SecondOrderQuery, features: ItemFeatures) -> None:
        if query.own_h:
            require_range("the device's own h", _own_heights(payloads, features), 0, LARGEST_RELEASED)

    def heights(self, payloads: Bits2, query: SecondOrderQuery, features: ItemFeatures) -> Floats2 | float:
        return _own_heights(payloads, features) if query.own_h else features.common_h


class PmcRr(Pmc):
    """PMC with every sign flipped now and then."""

    name, order = "pmc-rr", 30
    guarantee = f"{ELEMENT}; each bit flipped as under epsilon a bit, m times that for all bits"
    takes_epsilon, epsilon_of = True, A_BIT
    weight = None
    swept, attacked = ("2",), ("2", "1")

    def channel(self, query: SecondOrderQuery, features: ItemFeatures) -> BitChannel:
        return bit_channel(query.epsilon)


def _own_heights(payloads: Bits2, features: ItemFeatures) -> Floats2:
    return as_numbers(payloads[:, packed_size(features) :])


MECHANISMS = (Pmc(), PmcRr())
