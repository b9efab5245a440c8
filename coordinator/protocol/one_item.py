"""Frequency oracles in public: a device has one private value, a random item of its own, or none.

Of M items that are asked about, by their places in the pool: a device that tells what it liked has the value j if the
j-th item is a random one of those that it liked, and M if it liked none. One that tells what it rated has j if the
random item was liked, M + j if it was disliked, and 2 M if it rated none.
"""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Indices
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf

SIDES = "sides"
"""Parameter of every query: values an item, 1 or 2."""


def sides(query: Query) -> int:
    """Return how many values stand for an item: 1, liked; 2, liked or disliked."""
    return int(query.parameters[SIDES])


def pool_size(query: Query) -> int:
    """Return the number of items M that are asked about."""
    return query.items if query.pool is None else query.pool.size


def pool_of(query: Query) -> Indices:
    """Return the items that are asked about, ascending, int32."""
    return np.arange(query.items, dtype=np.int32) if query.pool is None else query.pool


def values_of(query: Query) -> int:
    """Return the number of private values K, "none" among them."""
    return sides(query) * pool_size(query) + 1


def columns(query: Query) -> int:
    """Return the smallest power of two that is not below the number of private values: columns of a Hadamard matrix."""
    return 1 << (values_of(query) - 1).bit_length()


class OneItem(PublicHalf):
    """A query about one random item a device; what is released of it is the oracle's own affair."""

    parameters = frozenset({SIDES})
    pooled = None

    def check(self, query: Query) -> None:
        """Refuse values an item that are none."""
        if query.parameters[SIDES] not in (1, 2):
            raise InputError(f"{query} has {SIDES} {query.parameters[SIDES]:g}; give 1, or 2 where dislikes are told")
