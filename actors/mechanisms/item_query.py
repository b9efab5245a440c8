"""Item queries on devices: whether the rating that it is asked about is the device's own."""

from __future__ import annotations

import numpy as np

from actors.block_model import DISLIKED, LIKED
from actors.coins import Coins
from actors.halves import DeviceHalf, Sketched
from actors.ratings import Ratings
from coordinator.protocol.coins import round_key
from coordinator.protocol.item_queries import item_queries
from coordinator.protocol.messages import Query


class ItemQuery(DeviceHalf):
    """The answer as it is (after Theorem 10 [4.3])."""

    names = ("item-query",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return 1 for each device whose rating it is."""
        assert query.pool is not None
        key = round_key(query.public_seed, query.round)
        items, values = item_queries(key, coins.first, coins.devices, query.pool)
        opinions = ratings.opinions(coins.master, coins.first, items[:, None])[:, 0]
        return Sketched((opinions == np.where(values, LIKED, DISLIKED)).astype(np.uint8).reshape(coins.devices, 1))


DEVICE = (ItemQuery(),)
