"""Frequency oracles on devices: one random item a device, by its private coins, and each oracle's encoding of it."""

import numpy as np

from actors.block_model import BlockModel, StoredOpinions, device_class, likes_item, list_rated, room_for
from actors.device_half import DeviceHalf, PackedHalf, Sketch
from actors.mechanisms.sign import places_in
from actors.packed_releases import release_subsets, release_unary
from actors.ratings import BlockRatings, Ratings
from actors.seeds import Coins, ratings_streams
from coordinator.protocol.arrays import Bits, Bits2, Indices, Indices2, Words
from coordinator.protocol.compiled import ZERO, compiled, int64
from coordinator.protocol.hashing import below
from coordinator.protocol.mechanisms.oracles import BUCKETS, ROWS, columns
from coordinator.protocol.mechanisms.oracles import Oue as PublicOue
from coordinator.protocol.mechanisms.oracles import Subset as PublicSubset
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import pool_of, sides
from coordinator.protocol.public_draws import buckets_of, signs_of


@compiled
def block_model_choices(
    model: BlockModel, master: Words, coins: Words, places: Indices, sides: int, first: int, values: Indices
) -> None:
    """Write the value of synthetic devices, int32, shape (devices,); see `coordinator.protocol.mechanisms.oracles`."""
    # ``places`` holds every item's place in the pool, -1 outside; ``coins`` a private stream a device, the lanes of
    # which pick among the values that it could have.
    items, pool_size = model.items, (places >= 0).sum()
    room, stamp = room_for(items), ZERO
    rated = room.subset
    secret = ratings_streams(master, first, values.size)
    for k in range(values.size):
        stream = secret[k]
        stamp = list_rated(stream, items, model.rated, room, stamp)
        own_class = device_class(stream, model.class_marks)
        values[k] = sides * pool_size
        for step in range(model.rated):  # in random order, until one is in the pool
            swap = step + below(coins[k], step, model.rated - step)
            item, rated[swap] = rated[swap], rated[step]
            if places[item] >= 0:
                liked = likes_item(model, stream, own_class, item)
                if liked or sides == 2:
                    values[k] = places[item] + (0 if liked else pool_size)
                    break


@compiled
def stored_choices(rows: StoredOpinions, coins: Words, places: Indices, sides: int, first: int, own: Indices) -> None:
    """Write the value of real devices; see `block_model_choices`."""
    pool_size = (places >= 0).sum()
    for k in range(own.size):
        user, matches = rows.user[first + k], 0
        ends = rows.starts[user], rows.starts[user + 1]
        for at in range(*ends):
            matches += places[rows.rated[at]] >= 0 and (rows.likes[at] or sides == 2)
        own[k] = sides * pool_size
        left = below(coins[k], int64(0), int64(matches)) if matches else -1
        for at in range(*ends):
            if left < 0:
                break
            place = places[rows.rated[at]]
            if place >= 0 and (rows.likes[at] or sides == 2):
                if left == 0:
                    own[k] = place + (0 if rows.likes[at] else pool_size)
                left -= 1


def choices(query: Query, ratings: Ratings, coins: Coins) -> Indices:
    """Return the private value of each device, int32, shape (devices,)."""
    places, streams = places_in(pool_of(query), ratings.items), coins.sketch()
    side_count, values = sides(query), np.empty(coins.devices, np.int32)
    if isinstance(ratings, BlockRatings):
        block_model_choices(ratings.model(), coins.master, streams, places, side_count, coins.first, values)
    else:
        stored_choices(ratings.stored_opinions, streams, places, side_count, coins.first, values)
    return values


class OneItem(DeviceHalf):
    """What devices do with queries about one random item: they choose the item and encode it for their oracle."""

    def encode(self, values: Indices, query: Query, coins: Coins) -> Indices2:
        """Return private sketches of values, shape (devices, any); by default the values as they are."""
        return values.reshape(-1, 1)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return each device's random item as the oracle encodes it."""
        return Sketch(self.encode(choices(query, ratings, coins), query, coins))


class Grr(OneItem):
    """The sketch is the value."""

    names = ("grr",)


class Oue(PackedHalf, OneItem):
    """A bit for every value."""

    names = ("oue",)

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        return release_unary(private.view(np.int32)[:, 0], PublicOue().channel(query), coins)


class Olh(OneItem):
    """The sketch is the bucket."""

    names = ("olh",)

    def encode(self, values: Indices, query: Query, coins: Coins) -> Indices2:
        return buckets_of(coins.streams(query), values, int(query.parameters[BUCKETS]))[:, None]


class Hadamard(OneItem):
    """The sketch is the number that the signs make."""

    names = ("hadamard",)

    def encode(self, values: Indices, query: Query, coins: Coins) -> Indices2:
        return signs_of(coins.streams(query), values, int(query.parameters[ROWS]), columns(query))[:, None]


class Subset(PackedHalf, OneItem):
    """A subset that holds the value, or, less often, one that does not."""

    names = ("subset",)

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        return release_subsets(private.view(np.int32), PublicSubset().channel(query), coins)


DEVICE = (Grr(), Oue(), Olh(), Hadamard(), Subset())
