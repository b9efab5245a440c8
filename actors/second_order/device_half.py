"""The device's half of a two-tier mechanism: completed vectors go in, the bytes of releases come out."""

from __future__ import annotations

import numpy as np

from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Floats2
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery


class SecondOrderDevice:
    """What devices do with one mechanism, or several; all of it works on a block of devices at once."""

    names: tuple[str, ...]  # Names of the mechanisms, as in `SecondOrderQuery.mechanism`

    def payloads(
        self, residuals: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins
    ) -> list[bytes]:
        """Return one payload a device.

        Shapes: ``residuals`` (devices, m).
        """
        raise NotImplementedError


def packed(signs: Bits2) -> list[bytes]:
    """Return the signs of every device as bytes: 1 for plus, most significant bit first."""
    return [row.tobytes() for row in np.packbits(signs, axis=1)]
