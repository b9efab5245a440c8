"""Reveals on devices: everything is told, to the server of the toy or to a trusted curator."""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.halves import PackedHalf, Sketched
from actors.ratings import Ratings
from actors.reveal_kernels import NOTHING, told_ratings, told_rows
from coordinator.protocol.arrays import Bits, Bits2, Indices2
from coordinator.protocol.coins import round_key
from coordinator.protocol.messages import Query
from coordinator.protocol.reveal import kept, reveals
from coordinator.protocol.streams import device_streams


class Reveal(PackedHalf):
    """Which items were rated, then which were liked, at most ``most`` ratings a device, as they are."""

    names = ("full-reveal", "curator-items", "curator-pairs")

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return the ratings of those that tell, int32; with probability ``1 - share``, by a public coin, none."""
        first, count = coins.first, coins.devices
        streams = device_streams(round_key(query.public_seed, query.round), first, count)
        rated = ratings.rated(coins.master, first, count)
        tells = reveals(streams, query.parameters["share"])
        told = kept(streams, rated.starts, int(query.parameters["most"]))
        numbers = np.full((count, max(1, int(rated.degrees.max(initial=0)))), NOTHING, np.int32)
        told_ratings(rated.starts, rated.items, rated.values, tells, told, numbers)
        return Sketched(numbers)

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        """Return the bits of all items, device by device."""
        return told_rows(private.view(np.int32), query.items)


DEVICE = (Reveal(),)
