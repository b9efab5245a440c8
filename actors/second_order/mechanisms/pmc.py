"""PMC: a device's sign vector, or its opposite (Theorem 4.2), and the same with every bit flipped now and then.

Source: Xin and Jaakkola (2014), section 4: ``u = +-h sign(r')``, each with probability 1/2. A residual of exactly 0,
that of an item that no public user rated, has no sign of its own: it gets a fair coin. A fixed sign there would tell
the overall one.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from actors.coins import Coins
from actors.second_order.device_half import SecondOrderDevice, packed
from coordinator.protocol.arrays import Bits2, Floats, Floats2, Words, Words2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery


def signs(residuals: Floats2, coins: Coins) -> Bits2:
    """Return the bits that PMC releases: 1 for +h, 0 for -h.

    Parameters
    ----------
    residuals : ndarray of float64, shape (devices, m)
        Private: r' = r - mu of the completed vectors.
    coins : Coins
        Of these devices in this query.

    Returns
    -------
    ndarray of uint8, shape (devices, m)
        Every bit alone is a fair coin, whatever the residuals.
    """
    told = np.empty(residuals.shape, np.uint8)
    _signs(residuals, coins.whole(), coins.fair(residuals.shape[1]), told)
    return told


@compiled
def _signs(residuals: Floats2, flips: Words, fair: Words2, told: Bits2) -> None:
    for k in range(residuals.shape[0]):
        flip = flips[k] >> uint64(63)
        for item in range(residuals.shape[1]):
            residual = residuals[k, item]
            coin = (fair[k, item >> 6] >> uint64(item & 63)) & uint64(1)
            told[k, item] = flip ^ (coin if residual == 0.0 else uint64(residual > 0.0))


def flipped_signs(residuals: Floats2, coins: Coins, epsilon: Epsilon) -> Bits2:
    """Return PMC's bits, each flipped with probability ``1 / (1 + e^epsilon)`` by a coin of its own (PMC-RR).

    Parameters
    ----------
    residuals, coins
        As for `signs`.
    epsilon : Fraction or None
        Privacy parameter of each bit [nats]; None for PMC itself.

    Raises
    ------
    InputError
        If 64-bit coins cannot express epsilon.
    """
    threshold = bit_channel(epsilon).threshold
    told = signs(residuals, coins)
    told ^= (coins.places(residuals.shape[1]) < threshold).astype(np.uint8)
    return told


@compiled
def own_h(residuals: Floats2) -> Floats:
    """Return every device's own h, the mean absolute residual, float64, shape (devices,); it leaks a little."""
    sizes = np.zeros(residuals.shape[0])
    for k in range(residuals.shape[0]):
        for item in range(residuals.shape[1]):
            sizes[k] += abs(residuals[k, item])
        sizes[k] /= residuals.shape[1]
    return sizes


class Pmc(SecondOrderDevice):
    """Releases the sign vector or its opposite, with bits flipped if there is an epsilon, and h if it is asked for."""

    names = ("pmc", "pmc-rr")

    def payloads(
        self,
        residuals: Floats2,
        query: SecondOrderQuery,
        features: ItemFeatures,  # noqa: ARG002 (signs are the same in all models)
        coins: Coins,
    ) -> list[bytes]:
        """Return the packed signs of every device."""
        told = packed(flipped_signs(residuals, coins, query.epsilon))
        if not query.own_h:
            return told
        return [signs + size.tobytes() for signs, size in zip(told, own_h(residuals).astype("<f8"), strict=True)]


DEVICE = (Pmc(),)
