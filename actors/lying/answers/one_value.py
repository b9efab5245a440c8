"""Lies about frequency oracles: reports that speak for as many of the promoted items as one report can."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from actors.lying.lie import Asked, Lie, as_bits, largest, picks
from actors.lying.rows import rows_of
from actors.unary_kernels import release_unary
from coordinator.protocol.arrays import Bits2, Indices, Indices2, Ints, Words
from coordinator.protocol.channels import unary_channel
from coordinator.protocol.hadamard import signs_of
from coordinator.protocol.local_hash import buckets_of
from coordinator.protocol.mechanisms.hadamard import ROWS
from coordinator.protocol.mechanisms.olh import BUCKETS
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import columns, sides, values_of


def wished_values(asked: Asked) -> Indices:
    """Return the wishes for private values, int32, shape (K,): a like of an item, its dislike if told, and "none"."""
    wishes = asked.wishes
    return np.concatenate([wishes, *([-wishes] if sides(asked.query) == 2 else []), [0]]).astype(np.int32)


class NamedValue(Lie):
    """k-ary randomized response: a random one of the promoted values is named."""

    names = ("grr",)

    def _values(self, asked: Asked) -> Ints:
        """Return one promoted value for each liar, "none" if there are none."""
        promoted = np.flatnonzero(wished_values(asked) > 0)
        if not promoted.size:
            return np.full(asked.which.size, values_of(asked.query) - 1)
        found = np.empty(asked.which.size, np.int64)
        picks(asked.choices, promoted.size, found)
        return promoted[found]

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return the values as bits."""
        return as_bits(self._values(asked), honest.shape[1])

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Indices2:  # noqa: ARG002 (all is made up)
        """Return the values; the device then tells another one, or not."""
        return self._values(asked).astype(np.int32)[:, None]


class UnaryBits(NamedValue):
    """Unary encoding: every promoted value's bit is 1; the others are those of a device that liked nothing."""

    names = ("oue",)

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return the bits."""
        query, wishes = asked.query, wished_values(asked)
        nothing = np.full(asked.coins.devices, values_of(query) - 1, np.int32)
        channel = unary_channel(query.epsilon, values=values_of(query))
        told = rows_of(release_unary(nothing, channel, asked.coins), honest.shape[1], asked.which)
        told[:, wishes > 0], told[:, wishes < 0] = 1, 0
        return told


class CrowdedCodes(NamedValue, ABC):
    """Codes that public coins give to values: the code that most promoted values share is named."""

    @abstractmethod
    def _codes(self, query: Query) -> int:
        """Return the number of codes."""

    @abstractmethod
    def _encode(self, streams: Words, values: Indices, query: Query, codes: Indices) -> None:
        """Write each device's code of its value."""

    def _values(self, asked: Asked) -> Ints:
        query, wishes, streams = asked.query, wished_values(asked), asked.streams
        crowds, codes = np.zeros((streams.size, self._codes(query)), np.int64), np.empty(streams.size, np.int32)
        rows = np.arange(streams.size)
        for value in np.flatnonzero(wishes):
            self._encode(streams, np.full(streams.size, value, np.int32), query, codes)
            crowds[rows, codes] += wishes[value]
        return largest(crowds, asked.choices)


class HashedValues(CrowdedCodes):
    """Local hashing: codes are the buckets of the device's hash."""

    names = ("olh",)

    def _codes(self, query: Query) -> int:
        return int(query.parameters[BUCKETS])

    def _encode(self, streams: Words, values: Indices, query: Query, codes: Indices) -> None:
        buckets_of(streams, values, self._codes(query), codes)


class SignedRows(CrowdedCodes):
    """Hadamard response: codes are the signs in the device's rows."""

    names = ("hadamard",)

    def _codes(self, query: Query) -> int:
        return 1 << int(query.parameters[ROWS])

    def _encode(self, streams: Words, values: Indices, query: Query, codes: Indices) -> None:
        signs_of(streams, values, int(query.parameters[ROWS]), columns(query), codes)


LIES = (NamedValue(), UnaryBits(), HashedValues(), SignedRows())
