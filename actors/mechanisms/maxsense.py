"""MaxSense and Multi-MaxSense on devices: whether some item of a public set was liked; compiled."""

import numpy as np

from actors import block_model
from actors.device_half import DeviceHalf, Sketch
from actors.ratings import BlockRatings, Ratings
from actors.seeds import Coins, ratings_streams
from coordinator.protocol.arrays import Bits, Bits2, Counts, Words
from coordinator.protocol.compiled import ZERO, borrowing, compiled, uint8
from coordinator.protocol.messages import Query
from coordinator.protocol.public_draws import random_order
from coordinator.protocol.sensing import items_of, sensing_of


@compiled
def block_model_partition(
    model: block_model.BlockModel, master: Words, public: Words, set_size: int, first: int, bits: Bits2
) -> None:
    """Write the bits of synthetic devices ``first``, ``first + 1``, ...: 1 where an item of the set was liked."""
    # ``bits`` (uint8, devices x sets) receives them; ``public`` holds the devices' public streams.
    items, inverted = model.items, 2 * model.rated > model.items
    size = items - model.rated if inverted else model.rated
    room, stamp = block_model.room_for(items), ZERO
    order, partition = np.arange(items).astype(np.uint32), np.empty(min(items, set_size * bits.shape[1]), np.uint32)
    swaps = np.empty_like(partition)
    secret = ratings_streams(master, first, len(bits))
    bits[:] = 0
    for k in range(len(bits)):
        stamp, stream = block_model.next_stamp(room.marks, stamp), secret[k]
        block_model.mark_subset(stream, items, size, room, stamp)
        own_class = block_model.device_class(stream, model.class_marks)
        random_order(public[k], order, swaps, partition)
        _meet(model, stream, own_class, room.marks, stamp, partition, set_size, bits, k)


@borrowing
def _meet(
    model: block_model.BlockModel,
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
            if (marks[item] == ours) != inverted and block_model.likes_item(model, stream, own_class, item):
                bits[k, question] = 1
                break


@compiled
def stored_partition(likes: block_model.StoredLikes, public: Words, set_size: int, first: int, bits: Bits2) -> None:
    """Write the bits of real devices ``first``, ``first + 1``, ...: 1 where an item of the set was liked."""
    marks, stamp = np.zeros(likes.items, np.uint8), ZERO
    order = np.arange(likes.items).astype(np.uint32)
    partition = np.empty(min(likes.items, set_size * bits.shape[1]), np.uint32)
    swaps = np.empty_like(partition)
    bits[:] = 0
    for k in range(len(bits)):
        stamp = block_model.next_stamp(marks, stamp)
        user = likes.user[first + k]
        for place in range(likes.starts[user], likes.starts[user + 1]):
            marks[likes.liked[place]] = stamp
        random_order(public[k], order, swaps, partition)
        for question in range(bits.shape[1]):
            for item in partition[question * set_size : (question + 1) * set_size]:
                if marks[item] == stamp:
                    bits[k, question] = 1
                    break


class MaxSense(DeviceHalf):
    """One bit, flipped (Banerjee et al., Figure 2)."""

    names = ("maxsense",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return 1 for each device that liked some sensed item."""
        public, table, pool = coins.streams(query), sensing_of(query), items_of(query)
        bits = np.empty(coins.devices, np.uint8)
        if isinstance(ratings, BlockRatings):
            block_model.block_model_maxsense(ratings.model(), coins.master, public, table, pool, coins.first, bits)
        else:
            block_model.stored_maxsense(ratings.liked, public, table, pool, coins.first, bits)
        return Sketch(bits.reshape(coins.devices, 1))


class MultiMaxSense(DeviceHalf):
    """A bit a set, each flipped (Banerjee et al., Figure 3)."""

    names = ("multi-maxsense",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return 1 for each set in which the device liked some item."""
        public, size = coins.streams(query), int(query.parameters["set_size"])
        bits = np.empty((coins.devices, query.questions), np.uint8)
        if isinstance(ratings, BlockRatings):
            block_model_partition(ratings.model(), coins.master, public, size, coins.first, bits)
        else:
            stored_partition(ratings.liked, public, size, coins.first, bits)
        return Sketch(bits)


DEVICE = (MaxSense(), MultiMaxSense())
