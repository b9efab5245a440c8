"""Likes, or pairs of them, as a vector that devices give in shares alone: at most so many, picked by private coins."""

import numpy as np

from actors.device_half import DeviceHalf, Sketch
from actors.mechanisms.sets import liked_sets
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.arrays import Indices2
from coordinator.protocol.compiled import compiled
from coordinator.protocol.mechanisms.sets import together
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import pool_size


@compiled
def pair_places(sets: Indices2, items: int) -> Indices2:
    """Return the places of pairs of each device's set, and of its items with themselves, int32; -1 for no pair.

    Places are those of an upper triangle with its diagonal, row by row. Shapes: ``sets`` (devices, w).
    """
    likes = sets.shape[1]
    places = np.full((len(sets), likes * (likes + 1) // 2), -1, np.int32)
    for k in range(len(sets)):
        count = 0
        for place in range(likes):
            for partner in range(place + 1):
                smaller, larger = min(sets[k, place], sets[k, partner]), max(sets[k, place], sets[k, partner])
                if larger < items:
                    places[k, count] = smaller * (2 * items - smaller + 1) // 2 + larger - smaller
                count += 1
    return places


class Totals(DeviceHalf):
    """The sketch holds the places of a vector's ones; places from its end on stand for nothing."""

    names = ("totals",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        return Sketch(liked_sets(query, ratings, coins))


class PairVector(Totals):
    """The sketch holds places of items, or of pairs of the items of a pool; negative ones stand for nothing, too."""

    names = ("pair-totals",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        sets = liked_sets(query, ratings, coins)
        return Sketch(sets if together(query) == 1 else pair_places(sets, pool_size(query)))


DEVICE = (Totals(), PairVector())
