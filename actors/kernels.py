"""MaxSense's private bits, compiled: for devices that draw their ratings, and for stored ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint32

from actors.block_model import BlockModelRatings, device_class, likes_item, mark_subset, next_stamp
from actors.seeds import TILE, ratings_streams
from coordinator.protocol.arrays import Bits, Bools, Counts, Indices, Ints, Words
from coordinator.protocol.compiled import compiled, inlined
from coordinator.protocol.sensing import SensingTable
from coordinator.protocol.sensing_sets import sense
from coordinator.protocol.streams import device_streams


class StoredLikes(NamedTuple):
    """The liked items of real users, CSR: device d likes ``liked[starts[user[d]]:starts[user[d] + 1]]``."""

    items: int
    starts: Ints
    liked: Indices
    user: Indices


class StoredOpinions(NamedTuple):
    """The ratings of real users, CSR: device d rated ``rated[starts[user[d]]:starts[user[d] + 1]]``."""

    starts: Ints
    rated: Indices
    likes: Bools
    user: Indices


@compiled
def likes_some(
    model: BlockModelRatings, stream: np.uint64, marks: Bits, stamp: int, pool: Indices, sensed: Counts, many: int
) -> bool:
    """Return MaxSense's private bit of a device whose rated items are marked: whether it liked a sensed one.

    ``sensed`` holds ``many`` places in ``pool``, `sensing.items_of` a query. No item's mark says that it is not rated.
    """
    pooled, inverted = pool.size > 0, 2 * model.rated > model.items
    like = model.like[device_class(stream, model.class_marks)]
    for j in range(many):
        item = uint32(pool[sensed[j]]) if pooled else sensed[j]
        if (marks[item] == stamp) != inverted and likes_item(stream, item, like[model.clusters[item]]):
            return True
    return False


@inlined
def mark_rated(model: BlockModelRatings, stream: np.uint64, marks: Bits, stamp: int, buffer: Counts) -> None:
    """Mark what a device rated, or the rest where that is less; the place behind all items as one that is not rated."""
    inverted = 2 * model.rated > model.items
    size = model.items - model.rated if inverted else model.rated
    mark_subset(stream, model.items, size, marks, stamp, buffer)
    marks[model.items] = stamp if inverted else 0


@compiled
def block_model_maxsense(
    model: BlockModelRatings, master: Words, key: Words, table: SensingTable, pool: Indices, first: int, bits: Bits
) -> None:
    """Write MaxSense's private bit of synthetic devices ``first``, ``first + 1``, ...: 1 if a sensed item was liked.

    ``bits`` (uint8, one a device) receives them; ``key`` and ``table`` are the round's public coins. Items are sensed
    at the places of ``pool``, `sensing.items_of` the query.
    """
    marks, stamp = np.zeros(model.items + 1, np.uint8), 0
    buffer, sensed = np.empty(model.items + 2, np.uint32), np.empty(table.room, np.uint32)
    for start in range(0, bits.size, TILE):
        some = bits[start : start + TILE]
        secret, public = (
            ratings_streams(master, first + start, some.size),
            device_streams(key, first + start, some.size),
        )
        for k in range(some.size):
            stamp = next_stamp(marks, stamp)
            mark_rated(model, secret[k], marks, stamp, buffer)
            many = sense(public[k], table, sensed)
            some[k] = likes_some(model, secret[k], marks, stamp, pool, sensed, many)


@compiled
def stored_maxsense(likes: StoredLikes, key: Words, table: SensingTable, pool: Indices, first: int, bits: Bits) -> None:
    """Write MaxSense's private bit of real devices; see `block_model_maxsense`."""
    marks, stamp, sensed = np.zeros(likes.items + 1, np.uint8), 0, np.empty(table.room, np.uint32)
    public = device_streams(key, first, bits.size)
    for k in range(bits.size):
        stamp = next_stamp(marks, stamp)
        user = likes.user[first + k]
        for place in range(likes.starts[user], likes.starts[user + 1]):
            marks[likes.liked[place]] = stamp
        bits[k] = 0
        for j in range(sense(public[k], table, sensed)):
            if marks[uint32(pool[sensed[j]]) if pool.size else sensed[j]] == stamp:
                bits[k] = 1
                break
