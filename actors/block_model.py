"""How a synthetic device draws its ratings from the block model (class, rated items, likes), or has them stored.

A set of items is a row of marks and a stamp: an item belongs to the set where its mark equals the stamp. The next
device uses a new stamp, so that nothing has to be cleared.
"""

from typing import NamedTuple

import numpy as np

from actors.seeds import TILE, ratings_streams
from coordinator.protocol.arrays import Bits, Bits2, Bools, Bools2, Counts, Indices, Indices2, Ints, Words
from coordinator.protocol.compiled import ZERO, borrowing, compiled, inlined, int64, uint8, uint32, uint64
from coordinator.protocol.hashing import below, draw, zeros_below
from coordinator.protocol.mechanism import DISLIKED, LIKED, UNRATED, Opinions
from coordinator.protocol.public_draws import random_order, sense
from coordinator.protocol.sensing import SensingTable

_LOW = np.uint64(0xFFFFFFFF)
_LIKES = np.uint64(1 << 63)
_LAST_STAMP = 255
TOGETHER = 8
"""Words of candidates that are computed together; a speed parameter. Those that are not needed are thrown away."""


class BlockModel(NamedTuple):
    """The block model as devices draw from it; probabilities are whole numbers in units of 2**-63."""

    items: int
    rated: int
    class_marks: Words  # Cumulated class shares, shape (K,)
    like: Words  # P(class k likes an item of cluster l), shape (K, L)
    clusters: Indices  # Cluster of every item, shape (N,)


@inlined
def device_class(stream: np.uint64, class_marks: Words) -> int:
    """Return the class k of the device: its lane 0 against the cumulated shares, in units of 2**-63."""
    word = draw(stream, uint64(0)) >> uint64(1)
    own_class = 0
    while word >= class_marks[own_class]:
        own_class += 1
    return own_class


@inlined
def likes_item(model: BlockModel, stream: np.uint64, own_class: int, item: int | np.uint32) -> bool:
    """Return the rating of a rated item by a device of this class, by a coin of its own for every item."""
    word = draw(stream, _LIKES + uint64(item))
    return bool((word >> uint64(1)) < model.like[own_class, model.clusters[item]])


class Room(NamedTuple):
    """Memory in which one device after the other draws its subset of the items."""

    marks: Bits  # The marks of all items, and of one place behind them, which stands for candidates that are no item
    candidates: Counts  # Candidates, some repeated
    subset: Counts  # The subset, in any order


@compiled
def room_for(items: int) -> Room:
    """Return memory for subsets of this many items."""
    return Room(np.zeros(items + 1, np.uint8), np.empty(items + 2 * TOGETHER, np.uint32), np.empty(items, np.uint32))


@inlined
def mark_subset(stream: np.uint64, items: int, size: int, room: Room, stamp: int) -> None:
    """Mark a uniform subset of ``size`` of the items."""
    # Candidates are the halves of the stream's words, lanes 1 on, each made uniform over the items by multiplication
    # with rejection (Lemire, 2019); a repeated candidate counts once.
    ours, count, lane, rejected = uint8(stamp), 0, uint64(1), uint64((1 << 32) % items)
    marks, buffer = room.marks, room.candidates
    marks[items] = ours
    while count < size:
        missing = size - count
        lane = _candidates(stream, lane, items, rejected, missing, buffer)
        for k in range(missing):
            count += marks[buffer[k]] != ours
            marks[buffer[k]] = ours


@inlined
def _candidates(
    stream: np.uint64, lane: np.uint64, items: int, rejected: np.uint64, missing: int, buffer: Counts
) -> np.uint64:
    """Write at least ``missing`` candidates to the buffer, with ``items`` for a rejected one; return the next lane."""
    bound, draws = uint64(items), (missing + 1) >> 1
    for k in range((draws + TOGETHER - 1) // TOGETHER * TOGETHER):
        word = draw(stream, lane + uint64(k))
        low, high = (word & _LOW) * bound, (word >> uint64(32)) * bound
        buffer[2 * k] = uint32(low >> uint64(32)) if (low & _LOW) >= rejected else uint32(bound)
        buffer[2 * k + 1] = uint32(high >> uint64(32)) if (high & _LOW) >= rejected else uint32(bound)
    return lane + uint64(draws)


@borrowing
def list_rated(stream: np.uint64, items: int, rated: int, room: Room, stamp: int) -> int:
    """Write the ``rated`` items that a device rated to the room's ``subset``; return the stamp that was used."""
    # The same uniform subset as `mark_subset` marks; where more than half of the items are rated, the rest of them.
    marks, buffer, subset = room.marks, room.candidates, room.subset
    stamp = next_stamp(marks, stamp)
    if 2 * rated > items:
        mark_subset(stream, items, items - rated, room, stamp)
        count = 0
        for item in range(items):
            subset[count] = item
            count += marks[item] != stamp
        return stamp
    ours, count, lane, rejected = uint8(stamp), 0, uint64(1), uint64((1 << 32) % items)
    marks[items] = ours
    while count < rated:
        missing = rated - count
        lane = _candidates(stream, lane, items, rejected, missing, buffer)
        for k in range(missing):
            subset[count] = buffer[k]
            count += marks[buffer[k]] != ours
            marks[buffer[k]] = ours
    return stamp


@borrowing
def next_stamp(marks: Bits, stamp: int) -> int:
    """Return a stamp that no mark holds; clears the marks when the stamps are used up."""
    if stamp == _LAST_STAMP:
        marks[:] = 0
        return 1
    return stamp + 1


class StoredOpinions(NamedTuple):
    """The ratings of real users, CSR: device d rated ``rated[starts[user[d]]:starts[user[d] + 1]]``."""

    starts: Ints
    rated: Indices
    likes: Bools
    user: Indices


@compiled
def block_model_opinions_of(
    model: BlockModel, master: Words, first: int, places: Indices, only_likes: bool, room: Opinions
) -> None:
    """Write synthetic devices' ratings of items that have a place, 0 or more, in the order in which they drew them."""
    own_room, stamp, end = room_for(model.items), ZERO, 0
    secret = ratings_streams(master, first, room.starts.size - 1)
    for k in range(secret.size):
        stream = secret[k]
        stamp = list_rated(stream, model.items, model.rated, own_room, stamp)
        own_class = device_class(stream, model.class_marks)
        for item in own_room.subset[: model.rated]:
            if places[item] >= 0:
                room.places[end], room.likes[end] = places[item], likes_item(model, stream, own_class, item)
                end += not only_likes or room.likes[end]
        room.starts[k + 1] = end


@compiled
def stored_opinions_of(rows: StoredOpinions, first: int, places: Indices, room: Opinions) -> None:
    """Write real devices' ratings of items that have a place; see `block_model_opinions_of`."""
    end = 0
    for k in range(room.starts.size - 1):
        user = rows.user[first + k]
        for at in range(rows.starts[user], rows.starts[user + 1]):
            pool_index = places[rows.rated[at]]
            if pool_index >= 0:
                room.places[end], room.likes[end] = pool_index, rows.likes[at]
                end += 1
        room.starts[k + 1] = end


@compiled
def block_model_rated(model: BlockModel, master: Words, first: int, items: Indices2, likes: Bools2) -> None:
    """Write the rated items of synthetic devices, ascending, and whether each was liked: shapes (devices, w)."""
    item_count = model.items
    room, stamp = room_for(item_count), ZERO
    rated, bitmap = room.subset, np.zeros(-(-item_count // 64), np.uint64)
    secret = ratings_streams(master, first, items.shape[0])
    for k in range(items.shape[0]):
        stream = secret[k]
        stamp = list_rated(stream, item_count, model.rated, room, stamp)
        for item in rated[: model.rated]:
            bitmap[item >> 6] |= uint64(1) << uint64(item & 63)
        own_class, count = device_class(stream, model.class_marks), 0
        for word in range(bitmap.size):
            while bitmap[word]:
                item = 64 * word + zeros_below(bitmap[word])
                bitmap[word] &= bitmap[word] - uint64(1)
                items[k, count], likes[k, count] = item, likes_item(model, stream, own_class, uint32(item))
                count += 1


@compiled
def block_model_would_like(model: BlockModel, master: Words, first: int, items: Indices2, likes: Bools2) -> None:
    """Write how synthetic devices would rate ``items``, shape (devices, k), rated or not; -1 is never liked."""
    secret = ratings_streams(master, first, items.shape[0])
    for k in range(items.shape[0]):
        stream = secret[k]
        own_class = device_class(stream, model.class_marks)
        for j in range(items.shape[1]):
            item = items[k, j]
            likes[k, j] = item >= 0 and likes_item(model, stream, own_class, uint32(item))


@compiled
def block_model_opinions(model: BlockModel, master: Words, first: int, items: Indices2, opinions: Bits2) -> None:
    """Write what synthetic devices think of ``items``, shape (devices, k): `UNRATED`, `DISLIKED` or `LIKED`."""
    item_count, inverted = model.items, 2 * model.rated > model.items
    size = item_count - model.rated if inverted else model.rated
    room, stamp = room_for(item_count), ZERO
    secret = ratings_streams(master, first, items.shape[0])
    for k in range(items.shape[0]):
        stamp, stream = next_stamp(room.marks, stamp), secret[k]
        mark_subset(stream, item_count, size, room, stamp)
        own_class = device_class(stream, model.class_marks)
        for j in range(items.shape[1]):
            item = items[k, j]
            opinions[k, j] = UNRATED
            if (room.marks[item] == stamp) != inverted:
                opinions[k, j] = LIKED if likes_item(model, stream, own_class, uint32(item)) else DISLIKED


class StoredLikes(NamedTuple):
    """The liked items of real users, CSR: device d likes ``liked[starts[user[d]]:starts[user[d] + 1]]``."""

    items: int
    starts: Ints
    liked: Indices
    user: Indices


class Scratch(NamedTuple):
    """Memory in which one device after the other draws its items."""

    room: Room  # Memory for the rated items
    sensed: Counts  # Places of the sensing set


@compiled
def scratch_for(model: BlockModel, table: SensingTable) -> Scratch:
    """Return memory for any device's draws."""
    return Scratch(room_for(model.items), np.empty(table.room, np.uint32))


@inlined
def sense_and_like(
    model: BlockModel,
    stream: np.uint64,
    public: np.uint64,
    table: SensingTable,
    pool: Indices,
    scratch: Scratch,
    stamp: int,
) -> tuple[int, bool]:
    """Draw a device's sensing set; return how many places it has, and whether the device likes one: the private bit."""
    # ``stream`` and ``public`` are the device's streams. Items are sensed at the places of ``pool``, `sensing.items_of`
    # a query. ``stamp`` is a `next_stamp`. The place behind all items counts as one that is not rated.
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
    model: BlockModel, master: Words, public: Words, table: SensingTable, pool: Indices, first: int, bits: Bits
) -> None:
    """Write MaxSense's private bit of synthetic devices ``first``, ``first + 1``, ...: 1 if a sensed item was liked."""
    # ``bits`` (uint8, one a device) receives them; ``public`` holds the devices' public streams, and ``table`` says how
    # sets are drawn from them. Items are sensed at the places of ``pool``, `sensing.items_of` the query.
    scratch, stamp = scratch_for(model, table), ZERO
    for start in range(0, bits.size, TILE):
        tile = bits[start : start + TILE]
        secret = ratings_streams(master, first + start, tile.size)
        stamp = _some_bits(model, secret, public[start : start + TILE], table, pool, scratch, stamp, tile)


@borrowing
def _some_bits(
    model: BlockModel,
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
def stored_maxsense(
    likes: StoredLikes, public: Words, table: SensingTable, pool: Indices, first: int, bits: Bits
) -> None:
    """Write MaxSense's private bit of real devices; see `block_model_maxsense`."""
    marks, stamp, sensed = np.zeros(likes.items + 1, np.uint8), ZERO, np.empty(table.room, np.uint32)
    for k in range(bits.size):
        stamp = next_stamp(marks, stamp)
        user = likes.user[first + k]
        for at in range(likes.starts[user], likes.starts[user + 1]):
            marks[likes.liked[at]] = stamp
        bits[k] = 0
        for j in range(sense(public[k], table, sensed)):
            if marks[uint32(pool[sensed[j]]) if pool.size else sensed[j]] == stamp:
                bits[k] = 1
                break


@compiled
def block_model_partition(
    model: BlockModel, master: Words, public: Words, set_size: int, first: int, bits: Bits2
) -> None:
    """Write the bits of synthetic devices ``first``, ``first + 1``, ...: 1 where an item of the set was liked."""
    # ``bits`` (uint8, devices x sets) receives them; ``public`` holds the devices' public streams.
    items, inverted = model.items, 2 * model.rated > model.items
    size = items - model.rated if inverted else model.rated
    room, stamp = room_for(items), ZERO
    order, partition = np.arange(items).astype(np.uint32), np.empty(min(items, set_size * bits.shape[1]), np.uint32)
    swaps = np.empty_like(partition)
    secret = ratings_streams(master, first, len(bits))
    bits[:] = 0
    for k in range(len(bits)):
        stamp, stream = next_stamp(room.marks, stamp), secret[k]
        mark_subset(stream, items, size, room, stamp)
        own_class = device_class(stream, model.class_marks)
        random_order(public[k], order, swaps, partition)
        _meet(model, stream, own_class, room.marks, stamp, partition, set_size, bits, k)


@borrowing
def _meet(
    model: BlockModel,
    stream: np.uint64,
    own_class: int,
    marks: Bits,
    stamp: int,
    partition: Counts,
    set_size: int,
    bits: Bits2,
    k: int,
) -> None:
    """Write device k's bits: 1 for a set, a slice of ``partition``, that has an item which it rated and liked."""
    ours, inverted = uint8(stamp), 2 * model.rated > model.items
    for question in range(bits.shape[1]):
        for item in partition[question * set_size : (question + 1) * set_size]:
            if (marks[item] == ours) != inverted and likes_item(model, stream, own_class, item):
                bits[k, question] = 1
                break


@compiled
def stored_partition(likes: StoredLikes, public: Words, set_size: int, first: int, bits: Bits2) -> None:
    """Write the bits of real devices ``first``, ``first + 1``, ...: 1 where an item of the set was liked."""
    marks, stamp = np.zeros(likes.items, np.uint8), ZERO
    order = np.arange(likes.items).astype(np.uint32)
    partition = np.empty(min(likes.items, set_size * bits.shape[1]), np.uint32)
    swaps = np.empty_like(partition)
    bits[:] = 0
    for k in range(len(bits)):
        stamp = next_stamp(marks, stamp)
        user = likes.user[first + k]
        for at in range(likes.starts[user], likes.starts[user + 1]):
            marks[likes.liked[at]] = stamp
        random_order(public[k], order, swaps, partition)
        for question in range(bits.shape[1]):
            for item in partition[question * set_size : (question + 1) * set_size]:
                if marks[item] == stamp:
                    bits[k, question] = 1
                    break


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
def stored_choices(
    rows: StoredOpinions, coins: Words, places: Indices, sides: int, first: int, choices: Indices
) -> None:
    """Write the value of real devices; see `block_model_choices`."""
    pool_size = (places >= 0).sum()
    for k in range(choices.size):
        user, matches = rows.user[first + k], 0
        ends = rows.starts[user], rows.starts[user + 1]
        for at in range(*ends):
            matches += places[rows.rated[at]] >= 0 and (rows.likes[at] or sides == 2)
        choices[k] = sides * pool_size
        left = below(coins[k], int64(0), int64(matches)) if matches else -1
        for at in range(*ends):
            if left < 0:
                break
            pool_index = places[rows.rated[at]]
            if pool_index >= 0 and (rows.likes[at] or sides == 2):
                if left == 0:
                    choices[k] = pool_index + (0 if rows.likes[at] else pool_size)
                left -= 1
