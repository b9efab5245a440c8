"""Likes as a vector that devices give in shares alone, on devices: at most so many, picked by private coins."""

from actors.device_half import DeviceHalf, Sketch
from actors.mechanisms.sets import liked_sets
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.messages import Query


class Totals(DeviceHalf):
    """The sketch holds the places of a vector's ones; places from its end on stand for nothing."""

    names = ("totals",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        return Sketch(liked_sets(query, ratings, coins))


DEVICE = (Totals(),)
