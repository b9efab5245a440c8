"""Optimized unary encoding on devices: the random item itself is what the channel takes; bits are drawn packed."""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.halves import PackedHalf
from actors.one_item import OneItem
from actors.unary_kernels import release_unary
from coordinator.protocol.arrays import Bits, Bits2, Indices2
from coordinator.protocol.mechanisms.oue import Oue as PublicOue
from coordinator.protocol.messages import Query


class Oue(PackedHalf, OneItem):
    """A bit for every value."""

    names = ("oue",)

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        """Return the bits of all values, device by device."""
        return release_unary(private.view(np.int32)[:, 0], PublicOue().channel(query), coins)


DEVICE = (Oue(),)
