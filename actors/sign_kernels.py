"""Sign sensing's private sums, compiled: a device's ratings of the pool's items, each under its public sign."""

from __future__ import annotations

import numpy as np

from actors.block_model import BlockModelRatings, device_class, likes_item, list_rated, room_for
from actors.kernels import StoredOpinions
from actors.seeds import ratings_streams
from coordinator.protocol.arrays import Indices, Indices2, Words
from coordinator.protocol.compiled import compiled, inlined
from coordinator.protocol.sign_streams import sign_bit
from coordinator.protocol.streams import device_streams

OUTSIDE = -1
"""Place of an item that is not in the pool."""


def places_in(pool: Indices, items: int) -> Indices:
    """Return every item's place in the pool, `OUTSIDE` where it has none; int32, shape (N,)."""
    places = np.full(items, OUTSIDE, np.int32)
    places[pool] = np.arange(pool.size)
    return places


@inlined
def _add_rating(stream: np.uint64, place: int, words: int, value: int, sums: Indices2, device: int) -> None:
    """Add what one rating counts to the device's sum of every sign vector, under its sign; no branch follows a coin."""
    for vector in range(sums.shape[1]):
        sums[device, vector] += value * (2 * int(sign_bit(stream, vector * words, place)) - 1)


@compiled
def block_model_signs(
    model: BlockModelRatings,
    master: Words,
    key: Words,
    places: Indices,
    centres: Indices,
    unit: int,
    first: int,
    sums: Indices2,
) -> None:
    """Write synthetic devices' sums, int32, shape (devices, sign vectors); ``key`` is the round's public key.

    A like counts ``unit`` and a dislike ``-unit``, less the centre of the item's place in the pool.
    """
    many, words = model.items, -(-centres.size // 64)
    room, stamp = room_for(many), 0
    rated = room.chosen
    secret, public = ratings_streams(master, first, len(sums)), device_streams(key, first, len(sums))
    for k in range(len(sums)):
        stream = secret[k]
        stamp = list_rated(stream, many, model.rated, room, stamp)
        own_class = device_class(stream, model.class_marks)
        sums[k] = 0
        for item in rated[: model.rated]:
            if places[item] >= 0:
                liked = likes_item(model, stream, own_class, item)
                value = unit * (2 * int(liked) - 1) - centres[places[item]]
                _add_rating(public[k], places[item], words, value, sums, k)


@compiled
def stored_signs(
    opinions: StoredOpinions, key: Words, places: Indices, centres: Indices, unit: int, first: int, sums: Indices2
) -> None:
    """Write real devices' sums; see `block_model_signs`."""
    public, words = device_streams(key, first, len(sums)), -(-centres.size // 64)
    for k in range(len(sums)):
        user = opinions.user[first + k]
        sums[k] = 0
        for at in range(opinions.starts[user], opinions.starts[user + 1]):
            place = places[opinions.rated[at]]
            if place >= 0:
                value = (unit if opinions.likes[at] else -unit) - centres[place]
                _add_rating(public[k], place, words, value, sums, k)
