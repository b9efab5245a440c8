"""Hadamard response on devices: the signs of the random item in the device's public rows."""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.one_item import OneItem
from coordinator.protocol.arrays import Indices, Indices2
from coordinator.protocol.coins import round_key
from coordinator.protocol.hadamard import signs_of
from coordinator.protocol.mechanisms.hadamard import ROWS
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import columns
from coordinator.protocol.streams import device_streams


class Hadamard(OneItem):
    """The sketch is the number that the signs make."""

    names = ("hadamard",)

    def encode(self, values: Indices, query: Query, coins: Coins) -> Indices2:
        """Return each device's signs."""
        streams = device_streams(round_key(query.public_seed, query.round), coins.first, coins.devices)
        found = np.empty((values.size, 1), np.int32)
        signs_of(streams, values, int(query.parameters[ROWS]), columns(query), found[:, 0])
        return found


DEVICE = (Hadamard(),)
