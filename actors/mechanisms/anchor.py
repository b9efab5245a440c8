"""Anchor sensing on devices: one private bit of its ratings, under public signs of items or of pairs; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int32, int64, uint64

from actors.block_model import BlockModelRatings, device_class, likes_item, list_rated, room_for
from actors.coins import Coins
from actors.halves import DeviceHalf, Sketched
from actors.kernels import StoredOpinions
from actors.mechanisms.sign import places_in
from actors.ratings import Ratings, of_kind
from actors.seeds import ratings_streams
from coordinator.protocol.arrays import Bits, Bools, Counts, Indices, Indices2, Ints, Words
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import borrowing, compiled, inlined
from coordinator.protocol.hashing import below, device_streams, draw
from coordinator.protocol.mechanisms.anchor import COUNTS, GUESS, LEAN, LEVELS, PRIOR, SENSED
from coordinator.protocol.messages import Query
from coordinator.protocol.public_draws import item_coins, level_bits
from coordinator.protocol.signs import UNIT


class Turned(NamedTuple):
    """A query about turned signs as compiled code reads it; see `coordinator.protocol.mechanisms.anchor`."""

    prior: Indices
    guess: Indices2
    counts: Indices2
    lean: Indices
    sensed: Indices
    bits: int
    """Bits of an item's sensing coin."""


class Paired(NamedTuple):
    """A query about signs of pairs as compiled code reads it."""

    places: Indices
    """Every item's place in the pool, -1 outside."""
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
    for one in scores:
        best = max(best, one)
    for one in scores:
        tied += one == best
    left = below(coin, 1, tied) if tied > 1 else 0
    for k in range(scores.size):
        if scores[k] == best:
            if left == 0:
                return k
            left -= 1
    return 0


@borrowing
def _turned_bit(
    asked: Turned,
    public: np.uint64,
    coin: np.uint64,
    rated: Counts | Indices,
    likes: Bools,
    start: int,
    stop: int,
    kept: Ints,
    scores: Ints,
) -> int:
    """Return the private bit of a device whose ratings stand from ``start`` to ``stop``.

    ``kept`` and ``scores`` are room for its ratings and for the classes.
    """
    found = 0
    for k in range(scores.size):
        scores[k] = asked.prior[k]
    for at in range(start, stop):
        item, row = int(rated[at]), int(likes[at])
        sign, senses = item_coins(public, item, asked.sensed[item], asked.bits)
        if senses:
            kept[found] = sign * (2 * item + row + 1)  # never 0
            found += 1
        else:
            for k in range(scores.size):
                scores[k] += asked.guess[2 * k + row, item]
    k = _guessed(scores, coin)
    total = int64(asked.lean[k])
    for at in range(found):
        sign, code = (1 if kept[at] > 0 else -1), abs(kept[at]) - 1
        total += sign * int64(asked.counts[2 * k + (code & 1), code >> 1])
    return _sign_of(total, coin)


@borrowing
def _paired_bit(
    asked: Paired,
    public: np.uint64,
    coin: np.uint64,
    rated: Counts | Indices,
    likes: Bools,
    start: int,
    stop: int,
    values: Indices,
    held: Ints,
) -> int:
    """Return the private bit of a device whose ratings stand from ``start`` to ``stop``.

    ``values`` has room for each place, and ``held`` for one more.
    """
    pool, found, nothing = asked.centres.size, 0, int32(np.iinfo(np.int32).min)
    values[:] = nothing
    for at in range(start, stop):
        place = asked.places[rated[at]]
        if place >= 0:
            values[place] = (asked.unit if likes[at] else -asked.unit) - asked.centres[place]
    for place in range(pool):
        held[found] = place
        found += values[place] != nothing
    total, lane, word = int64(0), int64(-1), uint64(0)
    for first in range(found - 1):
        i = held[first]
        start, row = i * pool - i * (i + 1) // 2 - i - 1, int64(0)
        for second in range(first + 1, found):
            pair = start + held[second]
            if pair >> 6 != lane:
                lane = pair >> 6
                word = draw(public, uint64(lane))
            sign = 2 * int((word >> uint64(pair & 63)) & uint64(1)) - 1
            row += sign * int64(values[held[second]])
        total += row * int64(values[i])
    return _sign_of(total, coin)


@compiled
def block_model_turned(
    model: BlockModelRatings, master: Words, key: Words, coins: Words, asked: Turned, first: int, bits: Bits
) -> None:
    """Write synthetic devices' private bits, uint8, shape (devices,); ``key`` is the round's public key."""
    many = model.items
    room, stamp = room_for(many), 0
    rated, likes = room.chosen, np.empty(model.rated, np.bool_)
    kept, scores = np.empty(model.rated, np.int64), np.empty(asked.prior.size, np.int64)
    secret, public = ratings_streams(master, first, bits.size), device_streams(key, first, bits.size)
    for k in range(bits.size):
        stamp = list_rated(secret[k], many, model.rated, room, stamp)
        own_class = device_class(secret[k], model.class_marks)
        for at in range(model.rated):
            likes[at] = likes_item(model, secret[k], own_class, rated[at])
        bits[k] = _turned_bit(asked, public[k], coins[k], rated, likes, 0, model.rated, kept, scores)


@compiled
def block_model_paired(
    model: BlockModelRatings, master: Words, key: Words, coins: Words, asked: Paired, first: int, bits: Bits
) -> None:
    """Write synthetic devices' private bits; see `block_model_turned`."""
    many = model.items
    room, stamp = room_for(many), 0
    rated, likes = room.chosen, np.empty(model.rated, np.bool_)
    values, held = np.empty(asked.centres.size, np.int32), np.empty(asked.centres.size + 1, np.int64)
    secret, public = ratings_streams(master, first, bits.size), device_streams(key, first, bits.size)
    for k in range(bits.size):
        stamp = list_rated(secret[k], many, model.rated, room, stamp)
        own_class = device_class(secret[k], model.class_marks)
        for at in range(model.rated):
            likes[at] = asked.places[rated[at]] >= 0 and likes_item(model, secret[k], own_class, rated[at])
        bits[k] = _paired_bit(asked, public[k], coins[k], rated, likes, 0, model.rated, values, held)


@compiled
def stored_turned(opinions: StoredOpinions, key: Words, coins: Words, asked: Turned, first: int, bits: Bits) -> None:
    """Write real devices' private bits; see `block_model_turned`."""
    public, many = device_streams(key, first, bits.size), asked.sensed.size
    rated, likes = opinions.rated, opinions.likes
    kept, scores = np.empty(many, np.int64), np.empty(asked.prior.size, np.int64)
    for k in range(bits.size):
        user = opinions.user[first + k]
        start, stop = opinions.starts[user], opinions.starts[user + 1]
        bits[k] = _turned_bit(asked, public[k], coins[k], rated, likes, start, stop, kept, scores)


@compiled
def stored_paired(opinions: StoredOpinions, key: Words, coins: Words, asked: Paired, first: int, bits: Bits) -> None:
    """Write real devices' private bits; see `block_model_turned`."""
    public = device_streams(key, first, bits.size)
    rated, likes = opinions.rated, opinions.likes
    values, held = np.empty(asked.centres.size, np.int32), np.empty(asked.centres.size + 1, np.int64)
    for k in range(bits.size):
        user = opinions.user[first + k]
        start, stop = opinions.starts[user], opinions.starts[user + 1]
        bits[k] = _paired_bit(asked, public[k], coins[k], rated, likes, start, stop, values, held)


class PairSigns(DeviceHalf):
    """The sign of the signed sum over pairs of ratings."""

    names = ("pair-signs",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return each device's bit, uint8, shape (devices, 1)."""
        assert query.pool is not None
        centres, unit = (np.zeros(query.pool.size, np.int32), 1) if query.centres is None else (query.centres, UNIT)
        asked = Paired(places_in(query.pool, ratings.items), centres, unit)
        key, own, bits = round_key(query.public_seed, query.round), coins.choices(), np.empty(coins.devices, np.uint8)
        of_kind(
            ratings,
            block=lambda of: block_model_paired(of.model(), coins.master, key, own, asked, coins.first, bits),
            stored=lambda of: stored_paired(of.told, key, own, asked, coins.first, bits),
        )
        return Sketched(bits[:, None])


class Anchor(DeviceHalf):
    """The sign of what the sensed ratings count, turned by the class that the others let the device guess."""

    names = ("anchor",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return each device's bit, uint8, shape (devices, 1)."""
        prior, guess, counts, lean, sensed = (query.arrays[name] for name in (PRIOR, GUESS, COUNTS, LEAN, SENSED))
        asked = Turned(prior, guess, counts, lean, sensed, level_bits(int(query.parameters[LEVELS])))
        key, own, bits = round_key(query.public_seed, query.round), coins.choices(), np.empty(coins.devices, np.uint8)
        of_kind(
            ratings,
            block=lambda of: block_model_turned(of.model(), coins.master, key, own, asked, coins.first, bits),
            stored=lambda of: stored_turned(of.told, key, own, asked, coins.first, bits),
        )
        return Sketched(bits[:, None])


DEVICE = (
    PairSigns(),
    Anchor(),
)
