"""Anchor sensing on devices: one private bit of its ratings, under public signs of items or of pairs; compiled."""

from typing import NamedTuple

import numpy as np

from actors.block_model import BlockModel, Opinions, device_class, likes_item, list_rated, room_for
from actors.device_half import DeviceHalf, Sketch
from actors.mechanisms.sign import centres_of, places_in
from actors.ratings import BlockRatings, Ratings
from actors.seeds import Coins, ratings_streams
from coordinator.protocol.arrays import Bits, Bools, Counts, Indices, Indices2, Ints, Words
from coordinator.protocol.compiled import ZERO, borrowing, compiled, inlined, int32, int64, uint64
from coordinator.protocol.hashing import below, draw
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import COUNTS, GUESS, LEAN, LEVELS, PRIOR, SENSED
from coordinator.protocol.public_draws import item_coins, level_bits


class TurnedQuery(NamedTuple):
    """A query about turned signs as compiled code reads it; see `coordinator.protocol.mechanisms.anchor`."""

    prior: Indices
    guess: Indices2
    counts: Indices2
    lean: Indices
    sensed: Indices
    bits: int  # Bits of an item's sensing coin


class PairQuery(NamedTuple):
    """A query about signs of pairs as compiled code reads it."""

    centres: Indices
    unit: int


@inlined
def _sign_of(total: int | np.int64, coin: np.uint64) -> int:
    """Return 1 for a sum above 0, 0 for one below, and for 0 a fair coin."""
    return int(total > 0) if total != 0 else int(draw(coin, uint64(0)) & uint64(1))


@borrowing
def _guessed(scores: Ints, coin: np.uint64) -> int:
    """Return the class of the highest score; a coin chooses among equal ones."""
    best, tied = scores[0], 0
    for score in scores:
        best = max(best, score)
    for score in scores:
        tied += score == best
    left = below(coin, int64(1), int64(tied))
    for k in range(scores.size):
        if scores[k] == best:
            if left == 0:
                return k
            left -= 1
    return 0


@borrowing
def _turned_bit(
    tables: TurnedQuery,
    public: np.uint64,
    coin: np.uint64,
    rated: Counts,
    likes: Bools,
    start: int,
    stop: int,
    sensed_ratings: Ints,
    scores: Ints,
) -> int:
    """Return the private bit of one device."""
    # ``sensed_ratings`` and ``scores`` are room for its ratings and for the classes.
    count = 0
    for k in range(scores.size):
        scores[k] = tables.prior[k]
    for at in range(start, stop):
        item, row = int(rated[at]), int(likes[at])
        sign, senses = item_coins(public, item, tables.sensed[item], tables.bits)
        if senses:
            sensed_ratings[count] = sign * (2 * item + row + 1)  # never 0
            count += 1
        else:
            for k in range(scores.size):
                scores[k] += tables.guess[2 * k + row, item]
    k = _guessed(scores, coin)
    total = int64(tables.lean[k])
    for at in range(count):
        sign, code = (1 if sensed_ratings[at] > 0 else -1), abs(sensed_ratings[at]) - 1
        total += sign * int64(tables.counts[2 * k + (code & 1), code >> 1])
    return _sign_of(total, coin)


@borrowing
def _paired_bit(
    tables: PairQuery,
    public: np.uint64,
    coin: np.uint64,
    opinions: Opinions,
    device: int,
    values: Indices,
    rated_places: Ints,
) -> int:
    """Return the private bit of one device."""
    # ``values`` has room for each place, and ``rated_places`` for one more.
    pool, count, nothing = tables.centres.size, 0, int32(np.iinfo(np.int32).min)
    values[:] = nothing
    for at in range(opinions.starts[device], opinions.starts[device + 1]):
        place = opinions.places[at]
        values[place] = (tables.unit if opinions.likes[at] else -tables.unit) - tables.centres[place]
    for place in range(pool):
        rated_places[count] = place
        count += values[place] != nothing
    total, lane, word = int64(0), int64(-1), uint64(0)
    for first in range(count - 1):
        i = rated_places[first]
        start, row = i * pool - i * (i + 1) // 2 - i - 1, int64(0)
        for second in range(first + 1, count):
            pair = start + rated_places[second]
            if pair >> 6 != lane:
                lane = pair >> 6
                word = draw(public, uint64(lane))
            sign = 2 * int((word >> uint64(pair & 63)) & uint64(1)) - 1
            row += sign * int64(values[rated_places[second]])
        total += row * int64(values[i])
    return _sign_of(total, coin)


@compiled
def block_model_turned(
    model: BlockModel, master: Words, public: Words, coins: Words, tables: TurnedQuery, first: int, bits: Bits
) -> None:
    """Write synthetic devices' private bits, uint8, shape (devices,); ``public`` holds their public streams."""
    # in one loop, which takes a tenth less time than `turned_bits` on their tiles
    room, stamp, likes = room_for(model.items), ZERO, np.empty(model.rated, np.bool_)
    sensed_ratings, scores = np.empty(model.rated, np.int64), np.empty(tables.prior.size, np.int64)
    rated, secret = room.subset, ratings_streams(master, first, bits.size)
    for k in range(bits.size):
        stamp = list_rated(secret[k], model.items, model.rated, room, stamp)
        own_class = device_class(secret[k], model.class_marks)
        for at in range(model.rated):
            likes[at] = likes_item(model, secret[k], own_class, rated[at])
        bits[k] = _turned_bit(tables, public[k], coins[k], rated, likes, ZERO, model.rated, sensed_ratings, scores)


@compiled
def turned_bits(opinions: Opinions, public: Words, coins: Words, tables: TurnedQuery, bits: Bits) -> None:
    """Write devices' private bits; see `block_model_turned`."""
    sensed_ratings, scores = np.empty(tables.sensed.size, np.int64), np.empty(tables.prior.size, np.int64)
    starts, items, likes = opinions
    for k in range(bits.size):
        start, stop = starts[k], starts[k + 1]
        bits[k] = _turned_bit(tables, public[k], coins[k], items, likes, start, stop, sensed_ratings, scores)


@compiled
def paired_bits(opinions: Opinions, public: Words, coins: Words, tables: PairQuery, bits: Bits) -> None:
    """Write devices' private bits; see `turned_bits`."""
    values, rated_places = np.empty(tables.centres.size, np.int32), np.empty(tables.centres.size + 1, np.int64)
    for k in range(bits.size):
        bits[k] = _paired_bit(tables, public[k], coins[k], opinions, k, values, rated_places)


class PairSigns(DeviceHalf):
    """The sign of the signed sum over pairs of ratings."""

    names = ("pair-signs",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        assert query.pool is not None
        tables = PairQuery(*centres_of(query))
        public, own, bits = coins.streams(query), coins.choices(), np.empty(coins.devices, np.uint8)
        for tile, opinions in ratings.tiles(coins, places_in(query.pool, ratings.items)):
            paired_bits(opinions, public[tile], own[tile], tables, bits[tile])
        return Sketch(bits[:, None])


class Anchor(DeviceHalf):
    """The sign of what the sensed ratings count, turned by the class that the others let the device guess."""

    names = ("anchor",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        prior, guess, counts, lean, sensed = (query.arrays[name] for name in (PRIOR, GUESS, COUNTS, LEAN, SENSED))
        tables = TurnedQuery(prior, guess, counts, lean, sensed, level_bits(int(query.parameters[LEVELS])))
        public, own, bits = coins.streams(query), coins.choices(), np.empty(coins.devices, np.uint8)
        if isinstance(ratings, BlockRatings):
            block_model_turned(ratings.model(), coins.master, public, own, tables, coins.first, bits)
            return Sketch(bits[:, None])
        for tile, opinions in ratings.tiles(coins, np.arange(ratings.items, dtype=np.int32)):
            turned_bits(opinions, public[tile], own[tile], tables, bits[tile])
        return Sketch(bits[:, None])


DEVICE = (PairSigns(), Anchor())
