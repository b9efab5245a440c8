"""The set mechanism on devices: likes, or pairs of them, padded, and a subset that meets or avoids them; compiled."""

import numpy as np

from actors.block_model import Opinions
from actors.device_half import PackedHalf, Sketch
from actors.mechanisms.sign import places_in
from actors.packed_releases import release_subsets
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits, Bits2, Counts, Indices, Indices2, Words
from coordinator.protocol.compiled import borrowing, compiled
from coordinator.protocol.hashing import below
from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.mechanisms.sets import ranges_of, together
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import pool_of, pool_size
from coordinator.protocol.value_channels import PADDED, SubsetChannel


def liked_sets(query: Query, ratings: Ratings, coins: Coins, *, ranges: int = 0) -> Indices2:
    """Return each device's set, int32, shape (devices, padded): places in the pool, and dummies from its size on."""
    # With ``ranges`` above 0, a device's set is the range that the number of its likes in the pool is in, shape
    # (devices, 1); see `coordinator.protocol.mechanisms.sets.ranges_of`.
    places, streams = places_in(pool_of(query), ratings.items), coins.sketch()
    own = np.empty((coins.devices, int(query.parameters[PADDED])), np.int32)
    for tile, opinions in ratings.tiles(coins, places, only_likes=True):
        _fill_sets(opinions, streams[tile], pool_size(query), ranges, own[tile])
    return own


@compiled
def liked_pairs(sets: Indices2, items: int) -> Indices2:
    """Return the pairs of each device's set, int32, padded to as many as a set without dummies has."""
    # Shapes: ``sets`` (devices, w).
    own = np.empty((len(sets), sets.shape[1] * (sets.shape[1] - 1) // 2), np.int32)
    for k in range(len(sets)):
        count = 0
        for place in range(sets.shape[1]):
            for partner in range(place):
                smaller, larger = min(sets[k, place], sets[k, partner]), max(sets[k, place], sets[k, partner])
                if larger < items:
                    own[k, count] = smaller * (2 * items - smaller - 1) // 2 + larger - smaller - 1
                    count += 1
        for dummy in range(own.shape[1] - count):
            own[k, count + dummy] = items * (items - 1) // 2 + dummy
    return own


@borrowing
def _keep(coins: np.uint64, liked: Counts, count: int, dummies: int, ranges: int, own: Indices) -> None:
    """Write a device's set: a uniform subset of its likes if there are too many, else all of them and dummies."""
    if ranges:
        own[0] = 0
        while count >> own[0] and own[0] < ranges - 1:
            own[0] += 1
        return
    for place in range(own.size):
        if place >= count:
            own[place] = dummies + place - count
            continue
        if count > own.size:
            swap = place + below(coins, place, count - place)
            liked[place], liked[swap] = liked[swap], liked[place]
        own[place] = liked[place]


@compiled
def _fill_sets(opinions: Opinions, coins: Words, pool_size: int, ranges: int, own: Indices2) -> None:
    """Write devices' sets; ``coins`` holds a private stream a device."""
    for k in range(len(own)):
        liked = opinions.places[opinions.starts[k] : opinions.starts[k + 1]]
        _keep(coins[k], liked, liked.size, pool_size, ranges, own[k])


class Set(PackedHalf):
    """The sketch holds exactly as many values on every device."""

    names = ("set",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        return Sketch(liked_sets(query, ratings, coins))

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        channel = half_of(query.design).channel(query)
        assert isinstance(channel, SubsetChannel)  # of no other query
        return release_subsets(private.view(np.int32), channel, coins)


class Pairs(Set):
    """The sketch holds exactly as many items, or pairs of them, on every device, or one range of numbers of likes."""

    names = ("pairs",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return each device's set of items or of pairs, or its number of likes; see `actors.mechanisms.sets`."""
        items = pool_size(query)
        sets = liked_sets(query, ratings, coins, ranges=0 if together(query) else ranges_of(items))
        return Sketch(liked_pairs(sets, items) if together(query) == 2 else sets)


DEVICE = (Set(), Pairs())
