"""Lies about sign sensing: the signed vector that most of the wished items agree with."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numba import uint64

from actors.lying.lie import Asked, Lie
from coordinator.protocol.arrays import Bits2, Bools, Indices2, Ints, Words
from coordinator.protocol.bit_tricks import ones
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw
from coordinator.protocol.signs import to_bits
from coordinator.protocol.uniform import below


def mask(wished: Bools) -> Words:
    """Return which places of a pool are wished for, as words of 64 places each, the first place the lowest bit."""
    words = np.zeros(-(-wished.size // 64), np.uint64)
    places = np.flatnonzero(wished)
    np.bitwise_or.at(words, places >> 6, np.uint64(1) << (places & 63).astype(np.uint64))
    return words


@compiled
def agreements(streams: Words, up: Words, down: Words, sums: Indices2) -> None:
    """Write by how much the wishes agree with each sign vector more than they disagree, int32, (devices, vectors)."""
    wished = 0
    for word in range(up.size):
        wished += ones(up[word]) + ones(down[word])
    for k in range(streams.size):
        for vector in range(sums.shape[1]):
            agree = 0
            for word in range(up.size):
                signs = draw(streams[k], uint64(vector * up.size + word))
                agree += ones(signs & up[word]) + ones(~signs & down[word])
            sums[k, vector] = 2 * agree - wished


@compiled
def _best(sums: Indices2, streams: Words, positive: Bools, vector: Ints) -> None:
    """Write the signed vector of the largest sum; of equal ones, and of the signs of 0, any."""
    many = sums.shape[1]
    for k in range(len(sums)):
        start, largest = below(streams[k], 0, many), -1
        for step in range(many):
            place = (start + step) % many
            if abs(sums[k, place]) > largest:
                largest, vector[k] = abs(sums[k, place]), place
        total = sums[k, vector[k]]
        positive[k] = total > 0 or (total == 0 and draw(streams[k], uint64(1)) >> uint64(63) == 1)


class SummedSigns(Lie, ABC):
    """The liar answers as if the wished items were all that it has an opinion of, and flips nothing."""

    both_ways = True

    @abstractmethod
    def _sums(self, asked: Asked) -> Indices2:
        """Return by how much the wishes agree with each sign vector more than they disagree, (liars, vectors)."""

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:  # noqa: ARG002 (every answer moves all items)
        """Return the best signed vectors as bits."""
        sums = self._sums(asked)
        positive, vector = np.empty(len(sums), np.bool_), np.empty(len(sums), np.int64)
        _best(sums, asked.choices, positive, vector)
        return to_bits(positive, vector, sums.shape[1])


class SignedSums(SummedSigns):
    """Sign sensing itself."""

    names = ("sign",)

    def _sums(self, asked: Asked) -> Indices2:
        sums = np.empty((asked.which.size, int(asked.query.parameters["vectors"])), np.int32)
        agreements(asked.streams, mask(asked.wishes > 0), mask(asked.wishes < 0), sums)
        return sums

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Indices2:  # noqa: ARG002 (as above)
        """Return the sums; the device then names a vector as it would among sums of its ratings."""
        return self._sums(asked)

    def suits(self, asked: Asked) -> Bools:
        """Return for whom all wishes agree with one signed vector."""
        found: Bools = np.abs(self._sums(asked)).max(axis=1) == np.count_nonzero(asked.wishes)
        return found


LIES = (SignedSums(),)
