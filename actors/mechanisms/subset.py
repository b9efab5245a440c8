"""Subset selection on devices: the random item is a set of one value, "none" its dummy; subsets are drawn packed."""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.halves import PackedHalf
from actors.one_item import OneItem
from actors.subset_kernels import release_subsets
from coordinator.protocol.arrays import Bits, Bits2, Indices2
from coordinator.protocol.mechanisms.subset import Subset as PublicSubset
from coordinator.protocol.messages import Query


class Subset(PackedHalf, OneItem):
    """A subset that holds the value, or, less often, one that does not."""

    names = ("subset",)

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        """Return the subsets, device by device."""
        return release_subsets(private.view(np.int32), PublicSubset().channel(query), coins)


DEVICE = (Subset(),)
