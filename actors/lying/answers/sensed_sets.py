"""Lies about MaxSense and Multi-MaxSense: 1 if a set holds more of the promoted items than sets do on average."""

from __future__ import annotations

import numpy as np

from actors.lying.lie import Asked, Lie
from coordinator.protocol.arrays import Bits2, Bools, Counts, Indices, Indices2, Ints, Ints2, Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import Query
from coordinator.protocol.partition import random_order
from coordinator.protocol.sensing import SensingTable, sensing_of
from coordinator.protocol.sensing_sets import sense


@compiled
def _held(streams: Words, table: SensingTable, wishes: Indices, totals: Ints, hits: Ints) -> None:
    """Write the sum of the wishes for what each device senses, and how many wished items that are.

    ``wishes`` is int32, shape (table.items + 1,): 0 for the place behind all items, which is none.
    """
    sensed, seen = np.empty(table.room, np.uint32), np.full(table.items + 1, -1, np.int64)
    for k in range(streams.size):
        totals[k], hits[k] = 0, 0
        for place in sensed[: sense(streams[k], table, sensed)]:
            if seen[place] != k:
                seen[place] = k
                totals[k] += wishes[place]
                hits[k] += wishes[place] != 0


@compiled
def _held_by_parts(streams: Words, size: int, wishes: Indices, scratch: Counts, totals: Ints2) -> None:
    """Write the sum of the wishes for each set of each device's partition, int64, shape (devices, sets)."""
    order, swaps = np.arange(wishes.size).astype(np.uint32), np.empty_like(scratch)
    for k in range(streams.size):
        random_order(streams[k], order, swaps, scratch)
        for question in range(totals.shape[1]):
            totals[k, question] = 0
            for item in scratch[question * size : (question + 1) * size]:
                totals[k, question] += wishes[item]


class SensedSets(Lie):
    """With r promoted items that are sensed with probability p: 1 if at least ``floor(r p) + 1`` of them are."""

    names = ("maxsense",)

    def _counts(self, asked: Asked) -> tuple[Ints, Ints]:
        totals, hits = np.empty(asked.which.size, np.int64), np.empty(asked.which.size, np.int64)
        _held(asked.streams, sensing_of(asked.query), np.append(asked.wishes, np.int32(0)), totals, hits)
        return totals, hits

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:  # noqa: ARG002 (every answer moves all items)
        """Return 1 where the sensed items are wished for more than on average."""
        mean = asked.query.parameters["sensing"] * int(asked.wishes.sum())
        return (self._counts(asked)[0] > mean).astype(np.uint8)[:, None]

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Bits2:
        """Return the same bits; the device then flips them."""
        return self.answers(asked, honest.view(np.uint8))

    def suits(self, asked: Asked) -> Bools:
        """Return whose set holds all promoted items."""
        found: Bools = self._counts(asked)[1] == np.count_nonzero(asked.wishes)
        return found


class PartitionedSets(Lie):
    """The same for every set of the partition."""

    names = ("multi-maxsense",)

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return 1 for each set that is wished for more than sets are on average."""
        query, size = asked.query, int(asked.query.parameters["set_size"])
        totals = np.empty(honest.shape, np.int64)
        scratch = np.empty(min(query.items, size * query.questions), np.uint32)
        _held_by_parts(asked.streams, size, asked.wishes, scratch, totals)
        return (totals * query.items > _sizes(query, size) * int(asked.wishes.sum())).astype(np.uint8)

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Bits2:
        """Return the same bits; the device then flips them."""
        return self.answers(asked, honest.view(np.uint8))


def _sizes(query: Query, size: int) -> Ints:
    """Return the number of items of each set; the last one of a partition may be smaller."""
    ends = np.minimum((np.arange(query.questions) + 1) * size, query.items)
    return np.diff(ends, prepend=0)


LIES = (SensedSets(), PartitionedSets())
