"""Ratings in the clear, on devices: item queries and reveals. Neither is private."""

import numpy as np

from actors.block_model import DISLIKED, LIKED
from actors.device_half import DeviceHalf, PackedHalf, Sketch
from actors.packed_releases import as_bytes, room_for
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits, Bits2, Bools, Indices2, Words
from coordinator.protocol.compiled import compiled, inlined, uint64
from coordinator.protocol.messages import Query
from coordinator.protocol.public_draws import item_queries, random_subset, reveals
from coordinator.protocol.rating_table import Likes

NOTHING = -1  # Fills the row of a device that reveals fewer ratings than another


def revealed_ratings(rated: Likes, mask: Bools) -> Indices2:
    """Return ``2 item``, and 1 more where it was liked, for each rating in ``mask``, a row a device, filled up."""
    subset = rated.where(mask)
    numbers = np.full((rated.users, max(1, int(rated.degrees.max(initial=0)))), NOTHING, np.int32)
    places = np.arange(subset.items.size) - subset.starts[:-1][subset.owners]
    numbers[subset.owners, places] = 2 * subset.items + subset.values
    return numbers


def rating_rows(numbers: Indices2, items: int) -> Bits:
    """Return packed bits, device by device: which items were rated, then which were liked."""
    words = room_for(len(numbers), 2 * items)
    _set_bits(numbers, items, words)
    return as_bytes(words, len(numbers), 2 * items)


@inlined
def _set_bit(words: Words, place: int) -> None:
    words[place >> 6] |= uint64(1) << uint64(63 - (place & 63))


@compiled
def _set_bits(numbers: Indices2, items: int, words: Words) -> None:
    for k in range(len(numbers)):
        for number in numbers[k]:
            if number != NOTHING:
                _set_bit(words, 2 * items * k + (number >> 1))
                if number & 1:
                    _set_bit(words, 2 * items * k + items + (number >> 1))


class ItemQuery(DeviceHalf):
    """The answer as it is (after Theorem 10 [4.3])."""

    names = ("item-query",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return 1 for each device whose rating it is."""
        assert query.pool is not None
        key = query.key
        items, values = item_queries(key, coins.first, coins.devices, query.pool)
        opinions = ratings.opinions(coins.master, coins.first, items[:, None])[:, 0]
        return Sketch((opinions == np.where(values, LIKED, DISLIKED)).astype(np.uint8).reshape(coins.devices, 1))


class Reveal(PackedHalf):
    """Which items were rated, then which were liked, at most ``most`` ratings a device, as they are."""

    names = ("full-reveal", "curator-items", "curator-pairs")

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return the revealed ratings, int32; with probability ``1 - share``, by a public coin, a device has none."""
        first, count = coins.first, coins.devices
        streams = coins.streams(query)
        rated = ratings.rated(coins.master, first, count)
        revealing = reveals(streams, query.parameters["share"])
        mask = random_subset(streams, rated.starts, int(query.parameters["most"]))
        return Sketch(revealed_ratings(rated, mask & revealing[rated.owners]))

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        return rating_rows(private.view(np.int32), query.items)


DEVICE = (ItemQuery(), Reveal())
