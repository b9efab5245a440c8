"""How a synthetic device draws its ratings from the block model: class, rated items, likes; compiled.

A set of items is a row of marks and a stamp: an item belongs to the set where its mark equals the stamp. The next
device uses a new stamp, so that nothing has to be cleared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint8, uint32, uint64

from actors.seeds import ratings_streams
from coordinator.protocol.arrays import Bits, Bits2, Bools2, Counts, Indices, Indices2, Words
from coordinator.protocol.compiled import borrowing, compiled, inlined
from coordinator.protocol.hashing import draw, zeros_below

_LOW = np.uint64(0xFFFFFFFF)
_LIKES = np.uint64(1 << 63)
_LAST_STAMP = 255
TOGETHER = 8
"""Words of candidates that are computed together; a speed parameter. Those that are not needed are thrown away."""
UNRATED, DISLIKED, LIKED = 0, 1, 2
"""What a device thinks of an item."""


class BlockModelRatings(NamedTuple):
    """The block model as devices draw from it; probabilities are whole numbers in units of 2**-63."""

    items: int
    rated: int
    class_marks: Words
    """Cumulated class shares, shape (K,)."""
    like: Words
    """P(class k likes an item of cluster l), shape (K, L)."""
    clusters: Indices
    """Cluster of every item, shape (N,)."""


@inlined
def device_class(stream: np.uint64, class_marks: Words) -> int:
    """Return the class k of the device: its lane 0 against the cumulated shares, in units of 2**-63."""
    word = draw(stream, uint64(0)) >> uint64(1)
    own_class = 0
    while word >= class_marks[own_class]:
        own_class += 1
    return own_class


@inlined
def likes_item(model: BlockModelRatings, stream: np.uint64, own_class: int, item: int) -> bool:
    """Return the rating of a rated item by a device of this class, by a coin of its own for every item."""
    word = draw(stream, _LIKES + uint64(item))
    return bool((word >> uint64(1)) < model.like[own_class, model.clusters[item]])


class Room(NamedTuple):
    """Memory in which one device after the other draws its subset of the items."""

    marks: Bits
    """The marks of all items, and of one place behind them, which stands for candidates that are no item."""
    candidates: Counts
    """Candidates, some repeated."""
    subset: Counts
    """The subset, in any order."""


@compiled
def room_for(items: int) -> Room:
    """Return room for subsets of so many items."""
    return Room(np.zeros(items + 1, np.uint8), np.empty(items + 2 * TOGETHER, np.uint32), np.empty(items, np.uint32))


@inlined
def mark_subset(stream: np.uint64, items: int, size: int, room: Room, stamp: int) -> None:
    """Mark a uniform subset of ``size`` of the items.

    Candidates are the halves of the stream's words, lanes 1 on, each made uniform over the items by multiplication
    with rejection (Lemire, 2019); a repeated candidate counts once.
    """
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
    bound, words = uint64(items), (missing + 1) >> 1
    for k in range((words + TOGETHER - 1) // TOGETHER * TOGETHER):
        word = draw(stream, lane + uint64(k))
        low, high = (word & _LOW) * bound, (word >> uint64(32)) * bound
        buffer[2 * k] = uint32(low >> uint64(32)) if (low & _LOW) >= rejected else uint32(bound)
        buffer[2 * k + 1] = uint32(high >> uint64(32)) if (high & _LOW) >= rejected else uint32(bound)
    return lane + uint64(words)


@borrowing
def list_rated(stream: np.uint64, items: int, rated: int, room: Room, stamp: int) -> int:
    """Write the ``rated`` items that a device rated to the room's ``subset``; return the stamp that was used.

    The same uniform subset as `mark_subset` marks; where more than half of the items are rated, the rest of them.
    """
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


@compiled
def block_model_rated(model: BlockModelRatings, master: Words, first: int, items: Indices2, likes: Bools2) -> None:
    """Write the rated items of synthetic devices, ascending, and whether each was liked: shapes (devices, w)."""
    item_count = model.items
    room, stamp = room_for(item_count), 0
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
                items[k, count], likes[k, count] = item, likes_item(model, stream, own_class, item)
                count += 1


@compiled
def block_model_would_like(model: BlockModelRatings, master: Words, first: int, items: Indices2, likes: Bools2) -> None:
    """Write how synthetic devices would rate ``items``, shape (devices, k), rated or not; -1 is never liked."""
    secret = ratings_streams(master, first, items.shape[0])
    for k in range(items.shape[0]):
        stream = secret[k]
        own_class = device_class(stream, model.class_marks)
        for j in range(items.shape[1]):
            item = items[k, j]
            likes[k, j] = item >= 0 and likes_item(model, stream, own_class, item)


@compiled
def block_model_opinions(model: BlockModelRatings, master: Words, first: int, items: Indices2, opinions: Bits2) -> None:
    """Write what synthetic devices think of ``items``, shape (devices, k): `UNRATED`, `DISLIKED` or `LIKED`."""
    item_count, inverted = model.items, 2 * model.rated > model.items
    size = item_count - model.rated if inverted else model.rated
    room, stamp = room_for(item_count), 0
    secret = ratings_streams(master, first, items.shape[0])
    for k in range(items.shape[0]):
        stamp, stream = next_stamp(room.marks, stamp), secret[k]
        mark_subset(stream, item_count, size, room, stamp)
        own_class = device_class(stream, model.class_marks)
        for j in range(items.shape[1]):
            item = items[k, j]
            opinions[k, j] = UNRATED
            if (room.marks[item] == stamp) != inverted:
                opinions[k, j] = LIKED if likes_item(model, stream, own_class, item) else DISLIKED
