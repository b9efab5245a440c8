"""Sign sensing on devices: signed sums of a device's ratings, and which signed sign vector it names; compiled."""

import numpy as np

from actors.block_model import Opinions
from actors.device_half import DeviceHalf, Sketch
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Bools, Indices, Indices2, Ints, Words, read_only
from coordinator.protocol.compiled import compiled, int64
from coordinator.protocol.hashing import below
from coordinator.protocol.mechanisms.sign import Sign as PublicSign
from coordinator.protocol.mechanisms.sign import to_bits
from coordinator.protocol.messages import CENTRE_UNIT, Query
from coordinator.protocol.public_draws import sign_bit
from coordinator.protocol.value_channels import ChoiceChannel

OUTSIDE = -1  # Place of an item that is not in the pool


def places_in(pool: Indices, items: int) -> Indices:
    """Return every item's place in the pool, `OUTSIDE` where it has none; int32, shape (N,)."""
    places = np.full(items, OUTSIDE, np.int32)
    places[pool] = np.arange(pool.size)
    return places


def centres_of(query: Query) -> tuple[Indices, int]:
    """Return what ratings of the pool's items are counted from, and what a rating counts in the same steps."""
    assert query.pool is not None
    if query.centres is None:
        return read_only(np.zeros(query.pool.size, np.int32)), 1
    return read_only(query.centres), CENTRE_UNIT


@compiled
def add_signs(opinions: Opinions, public: Words, centres: Indices, unit: int, sums: Indices2) -> None:
    """Write devices' sums, int32, shape (devices, sign vectors); ``public`` holds their streams."""
    # A like counts ``unit`` and a dislike ``-unit``, less the centre of the item's place, under the place's sign; no
    # branch follows a coin.
    words = -(-centres.size // 64)
    for k in range(len(sums)):
        for vector in range(sums.shape[1]):
            total = int64(0)
            for at in range(opinions.starts[k], opinions.starts[k + 1]):
                place = opinions.places[at]
                value = unit * (2 * int64(opinions.likes[at]) - 1) - centres[place]
                total += value * (2 * int64(sign_bit(public[k], vector * words, place)) - 1)
            sums[k, vector] = total


def choose(sums: Indices2, channel: ChoiceChannel, coins: Coins) -> tuple[Bools, Ints]:
    """Return the sign and the number of the vector that each device names. Shapes: ``sums`` (devices, sign vectors)."""
    return _choose(sums, coins.release(0) >= channel.threshold, coins.choices(), channel.best_count)


@compiled
def _choose(sums: Indices2, best: Bools, streams: Words, best_count: int) -> tuple[Bools, Ints]:
    positive, vector, vectors = np.empty(len(sums), np.bool_), np.empty(len(sums), np.int64), sums.shape[1]
    sizes = np.empty(vectors, np.int32)
    for k in range(len(sums)):
        rank = int64(below(streams[k], int64(0), best_count))
        if not best[k]:
            rank = best_count + int64(below(streams[k], int64(1), 2 * vectors - best_count))
        for a in range(vectors):  # insertion sort, the largest first
            size, place = abs(sums[k, a]), a
            while place > 0 and sizes[place - 1] < size:
                sizes[place] = sizes[place - 1]
                place -= 1
            sizes[place] = size
        target = sizes[rank] if rank < vectors else -sizes[2 * vectors - 1 - rank]
        tied = 0
        for a in range(vectors):
            tied += (sums[k, a] == target) + (sums[k, a] == -target)
        tie = int64(below(streams[k], int64(2), int64(tied)))
        for a in range(vectors):
            for sign in (True, False):
                if (sums[k, a] if sign else -sums[k, a]) == target:
                    if tie == 0:
                        positive[k], vector[k] = sign, a
                    tie -= 1
    return positive, vector


class Sign(DeviceHalf):
    """The sums rank the signed vectors; one of the best is named, or, less often, another one."""

    names = ("sign",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return the sums of ratings of the pool under each sign vector, less their centres if any, int32."""
        assert query.pool is not None
        public, places = coins.streams(query), places_in(query.pool, ratings.items)
        centres, unit = centres_of(query)
        sums = np.empty((coins.devices, int(query.parameters["vectors"])), np.int32)
        for tile, opinions in ratings.tiles(coins, places):
            add_signs(opinions, public[tile], centres, unit, sums[tile])
        return Sketch(sums)

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits2:
        positive, vector = choose(private.view(np.int32), PublicSign().channel(query), coins)
        return to_bits(positive, vector, int(query.parameters["vectors"]))


DEVICE = (Sign(),)
