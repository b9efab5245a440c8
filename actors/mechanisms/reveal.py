"""Reveals on devices: everything is told, to the server of the toy or to a trusted curator."""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.halves import DeviceHalf, Sketched
from actors.ratings import Ratings
from coordinator.protocol.coins import round_key
from coordinator.protocol.messages import Query
from coordinator.protocol.reveal import kept, reveals
from coordinator.protocol.streams import device_streams


class Reveal(DeviceHalf):
    """Which items were rated, then which were liked, at most ``most`` ratings a device, as they are."""

    names = ("full-reveal", "curator-items", "curator-pairs")

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return the bits of those that tell; with probability ``1 - share``, by a public coin, all of them are 0."""
        first, count = coins.first, coins.devices
        streams = device_streams(round_key(query.public_seed, query.round), first, count)
        rated = ratings.rated(coins.master, first, count)
        device = rated.owners
        tells = reveals(streams, query.parameters["share"])[device]
        tells &= kept(streams, rated.starts, int(query.parameters["most"]))
        bits = np.zeros((count, 2 * query.items), np.uint8)
        bits[device[tells], rated.items[tells]] = 1
        bits[device[tells], query.items + rated.items[tells]] = rated.values[tells]
        return Sketched(bits)


DEVICE = (Reveal(),)
