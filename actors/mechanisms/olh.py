"""Local hashing on devices: the bucket of the random item, by the device's public hash."""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.one_item import OneItem
from coordinator.protocol.arrays import Indices, Indices2
from coordinator.protocol.coins import round_key
from coordinator.protocol.local_hash import buckets_of
from coordinator.protocol.mechanisms.olh import BUCKETS
from coordinator.protocol.messages import Query
from coordinator.protocol.streams import device_streams


class Olh(OneItem):
    """The sketch is the bucket."""

    names = ("olh",)

    def encode(self, values: Indices, query: Query, coins: Coins) -> Indices2:
        """Return each device's bucket."""
        streams = device_streams(round_key(query.public_seed, query.round), coins.first, coins.devices)
        found = np.empty((values.size, 1), np.int32)
        buckets_of(streams, values, int(query.parameters[BUCKETS]), found[:, 0])
        return found


DEVICE = (Olh(),)
