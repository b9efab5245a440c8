"""The set mechanism on devices: all that is liked, padded or cut, and a subset that meets or avoids it."""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.halves import PackedHalf, Sketched
from actors.liked_sets import liked_sets
from actors.ratings import Ratings
from actors.subset_kernels import release_subsets
from coordinator.protocol.arrays import Bits, Bits2, Indices2
from coordinator.protocol.channels import SubsetChannel
from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.messages import Query


class Set(PackedHalf):
    """The sketch holds exactly as many values on every device."""

    names = ("set",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return each device's set; see `actors.liked_sets`."""
        return Sketched(liked_sets(query, ratings, coins))

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        """Return the subsets, device by device."""
        channel = half_of(query.design).channel(query)
        assert isinstance(channel, SubsetChannel)  # of no other query
        return release_subsets(private.view(np.int32), channel, coins)


DEVICE = (Set(),)
