"""MaxSense's private bits, compiled: for devices that draw their ratings, and for stored ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint8, uint32

from actors.block_model import BlockModelRatings, Room, device_class, likes_item, mark_subset, next_stamp, room_for
from actors.seeds import TILE, ratings_streams
from coordinator.protocol.arrays import Bits, Bools, Counts, Indices, Ints, Words
from coordinator.protocol.compiled import borrowing, compiled, inlined
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.public_draws import sense
from coordinator.protocol.sensing import SensingTable


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


class Scratch(NamedTuple):
    """Memory in which one device after the other draws its items."""

    room: Room
    """Memory for the rated items."""
    sensed: Counts
    """Places of the sensing set."""


@compiled
def scratch_for(model: BlockModelRatings, table: SensingTable) -> Scratch:
    """Return memory for any device's draws."""
    return Scratch(room_for(model.items), np.empty(table.room, np.uint32))


@inlined
def sense_and_like(
    model: BlockModelRatings,
    stream: np.uint64,
    public: np.uint64,
    table: SensingTable,
    pool: Indices,
    scratch: Scratch,
    stamp: int,
) -> tuple[int, bool]:
    """Draw a device's sensing set; return how many places it has, and whether the device likes one: the private bit.

    ``stream`` and ``public`` are the device's streams. Items are sensed at the places of ``pool``, `sensing.items_of`
    a query. ``stamp`` is a `next_stamp`. The place behind all items counts as one that is not rated.
    """
    marks, sensed, inverted = scratch.room.marks, scratch.sensed, 2 * model.rated > model.items
    size = model.items - model.rated if inverted else model.rated
    mark_subset(stream, model.items, size, scratch.room, stamp)
    marks[model.items] = stamp if inverted else 0
    places, ours = sense(public, table, sensed), uint8(stamp)
    own_class = device_class(stream, model.class_marks)
    if pool.size > 0 or inverted:
        for j in range(places):
            item = uint32(pool[sensed[j]]) if pool.size > 0 else sensed[j]
            rated = (marks[item] == ours) != inverted
            if rated and likes_item(model, stream, own_class, item):
                return places, True
        return places, False
    for j in range(places):  # the same in the usual case, whose loop decides nothing else
        item = sensed[j]
        if marks[item] == ours and likes_item(model, stream, own_class, item):
            return places, True
    return places, False


@compiled
def block_model_maxsense(
    model: BlockModelRatings, master: Words, key: Words, table: SensingTable, pool: Indices, first: int, bits: Bits
) -> None:
    """Write MaxSense's private bit of synthetic devices ``first``, ``first + 1``, ...: 1 if a sensed item was liked.

    ``bits`` (uint8, one a device) receives them; ``key`` and ``table`` are the round's public coins. Items are sensed
    at the places of ``pool``, `sensing.items_of` the query.
    """
    scratch, stamp = scratch_for(model, table), 0
    for start in range(0, bits.size, TILE):
        tile = bits[start : start + TILE]
        secret = ratings_streams(master, first + start, tile.size)
        stamp = _some_bits(
            model, secret, device_streams(key, first + start, tile.size), table, pool, scratch, stamp, tile
        )


@borrowing
def _some_bits(
    model: BlockModelRatings,
    secret: Words,
    public: Words,
    table: SensingTable,
    pool: Indices,
    scratch: Scratch,
    stamp: int,
    bits: Bits,
) -> int:
    """Write the bits of devices with these streams; return the last stamp."""
    for k in range(bits.size):
        stamp = next_stamp(scratch.room.marks, stamp)
        bits[k] = sense_and_like(model, secret[k], public[k], table, pool, scratch, stamp)[1]
    return stamp


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
