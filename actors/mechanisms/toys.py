"""Openly told ratings on devices: item queries and reveals."""

from __future__ import annotations

import numpy as np
from numba import uint64

from actors.block_model import DISLIKED, LIKED
from actors.coins import Coins
from actors.halves import DeviceHalf, PackedHalf, Sketched
from actors.packed import as_bytes, room_for
from actors.ratings import Ratings
from coordinator.protocol.arrays import Bits, Bits2, Bools, Indices, Indices2, Ints, Words
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import compiled, inlined
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.messages import Query
from coordinator.protocol.public_draws import item_queries, random_subset, reveals

NOTHING = -1
"""Stands where a device tells fewer ratings than another."""


@compiled
def told_ratings(starts: Ints, items: Indices, likes: Bools, tells: Bools, told: Bools, numbers: Indices2) -> None:
    """Write ``2 item``, and 1 more where it was liked, for each rating that is told, of the devices that tell."""
    for k in range(tells.size):
        found = 0
        for at in range(starts[k], starts[k + 1]):
            if tells[k] and told[at]:
                numbers[k, found] = 2 * items[at] + likes[at]
                found += 1


def told_rows(numbers: Indices2, items: int) -> Bits:
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

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return 1 for each device whose rating it is."""
        assert query.pool is not None
        key = round_key(query.public_seed, query.round)
        items, values = item_queries(key, coins.first, coins.devices, query.pool)
        opinions = ratings.opinions(coins.master, coins.first, items[:, None])[:, 0]
        return Sketched((opinions == np.where(values, LIKED, DISLIKED)).astype(np.uint8).reshape(coins.devices, 1))


class Reveal(PackedHalf):
    """Which items were rated, then which were liked, at most ``most`` ratings a device, as they are."""

    names = ("full-reveal", "curator-items", "curator-pairs")

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return the ratings of those that tell, int32; with probability ``1 - share``, by a public coin, none."""
        first, count = coins.first, coins.devices
        streams = device_streams(round_key(query.public_seed, query.round), first, count)
        rated = ratings.rated(coins.master, first, count)
        tells = reveals(streams, query.parameters["share"])
        told = random_subset(streams, rated.starts, int(query.parameters["most"]))
        numbers = np.full((count, max(1, int(rated.degrees.max(initial=0)))), NOTHING, np.int32)
        told_ratings(rated.starts, rated.items, rated.values, tells, told, numbers)
        return Sketched(numbers)

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        """Return the bits of all items, device by device."""
        return told_rows(private.view(np.int32), query.items)


DEVICE = (
    ItemQuery(),
    Reveal(),
)
