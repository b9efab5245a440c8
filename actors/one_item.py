"""The private value of frequency oracles: one random item a device, by its private coins; compiled."""

from __future__ import annotations

import numpy as np

from actors.block_model import BlockModelRatings, device_class, likes_item, list_rated, room_for
from actors.coins import Coins
from actors.halves import DeviceHalf, Sketched
from actors.kernels import StoredOpinions
from actors.ratings import Ratings, of_kind
from actors.seeds import ratings_streams
from actors.sign_kernels import places_in
from coordinator.protocol.arrays import Indices, Indices2, Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import pool_of, sides
from coordinator.protocol.uniform import below


@compiled
def block_model_choices(
    model: BlockModelRatings, master: Words, coins: Words, places: Indices, sides: int, first: int, values: Indices
) -> None:
    """Write the value of synthetic devices, int32, shape (devices,); see `coordinator.protocol.one_item`.

    ``places`` holds every item's place in the pool, -1 outside; ``coins`` a private stream a device, the lanes
    of which pick among the values that it could have.
    """
    many, asked = model.items, (places >= 0).sum()
    room, stamp = room_for(many), 0
    rated = room.chosen
    secret = ratings_streams(master, first, values.size)
    for k in range(values.size):
        stream = secret[k]
        stamp = list_rated(stream, many, model.rated, room, stamp)
        own_class = device_class(stream, model.class_marks)
        values[k] = sides * asked
        for step in range(model.rated):  # in random order, until one is in the pool
            other = step + below(coins[k], step, model.rated - step)
            item, rated[other] = rated[other], rated[step]
            if places[item] >= 0:
                liked = likes_item(model, stream, own_class, item)
                if liked or sides == 2:
                    values[k] = places[item] + (0 if liked else asked)
                    break


@compiled
def stored_choices(
    opinions: StoredOpinions, coins: Words, places: Indices, sides: int, first: int, values: Indices
) -> None:
    """Write the value of real devices; see `block_model_choices`."""
    asked = (places >= 0).sum()
    for k in range(values.size):
        user, found = opinions.user[first + k], 0
        ends = opinions.starts[user], opinions.starts[user + 1]
        for at in range(*ends):
            found += places[opinions.rated[at]] >= 0 and (opinions.likes[at] or sides == 2)
        values[k] = sides * asked
        left = below(coins[k], 0, found) if found else -1
        for at in range(*ends):
            if left < 0:
                break
            place = places[opinions.rated[at]]
            if place >= 0 and (opinions.likes[at] or sides == 2):
                if left == 0:
                    values[k] = place + (0 if opinions.likes[at] else asked)
                left -= 1


def choices(query: Query, ratings: Ratings, coins: Coins) -> Indices:
    """Return the private value of each device, int32, shape (devices,)."""
    places, told, values = places_in(pool_of(query), ratings.items), sides(query), np.empty(coins.devices, np.int32)
    mine = coins.sketch()
    of_kind(
        ratings,
        block=lambda of: block_model_choices(of.model(), coins.master, mine, places, told, coins.first, values),
        stored=lambda of: stored_choices(of.told, mine, places, told, coins.first, values),
    )
    return values


class OneItem(DeviceHalf):
    """What devices do with queries about one random item: they choose the item and encode it for their oracle."""

    def encode(self, values: Indices, query: Query, coins: Coins) -> Indices2:  # noqa: ARG002 (others use them)
        """Return private sketches of values, shape (devices, any); by default the values as they are."""
        return values.reshape(-1, 1)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return each device's random item as the oracle encodes it."""
        return Sketched(self.encode(choices(query, ratings, coins), query, coins))
