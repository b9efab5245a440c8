"""MaxSense on devices: whether some item of the device's public sensing set was liked."""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.halves import DeviceHalf, Sketched
from actors.kernels import block_model_maxsense, stored_maxsense
from actors.ratings import Ratings, of_kind
from coordinator.protocol.coins import round_key
from coordinator.protocol.messages import Query
from coordinator.protocol.sensing import items_of, sensing_of


class MaxSense(DeviceHalf):
    """One bit, flipped (Banerjee et al., Figure 2)."""

    names = ("maxsense",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return 1 for each device that liked some sensed item."""
        key, table, pool = round_key(query.public_seed, query.round), sensing_of(query), items_of(query)
        bits = np.empty(coins.devices, np.uint8)
        of_kind(
            ratings,
            block=lambda of: block_model_maxsense(of.model(), coins.master, key, table, pool, coins.first, bits),
            stored=lambda of: stored_maxsense(of.liked, key, table, pool, coins.first, bits),
        )
        return Sketched(bits.reshape(coins.devices, 1))


DEVICE = (MaxSense(),)
