"""Unary encoding on devices: one of the device's ratings, drawn at random."""

import numpy as np

from actors.device_half import DeviceHalf, Sketch
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.messages import Query


class Unary(DeviceHalf):
    """A 1 for one rating; nothing rated: no 1."""

    names = ("unary",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return the bits of one rating a device."""
        told = ratings.rated(coins.master, coins.first, coins.devices)
        starts, items, likes = told.starts, told.items, told.values
        rated = np.diff(starts)
        some = np.flatnonzero(rated)
        drawn = coins.sketch()[some] % rated[some].astype(np.uint64)
        place = starts[some] + drawn.astype(np.int64)
        bits = np.zeros((coins.devices, query.questions), np.uint8)
        bits[some, 2 * items[place] + likes[place]] = 1
        return Sketch(bits)


DEVICE = (Unary(),)
