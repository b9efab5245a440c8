"""Words of queries that mechanisms, statistics and moments share: pools of items, sides of an item, and pairs."""

import numpy as np

from coordinator.protocol.arrays import Indices
from coordinator.protocol.messages import Query

SIDES = "sides"  # Parameter of every query: values an item, 1 or 2


def sides(query: Query) -> int:
    """Return how many values stand for an item: 1, liked; 2, liked or disliked."""
    return int(query.parameters[SIDES])


def pool_size(query: Query) -> int:
    """Return the number of items M that are asked about."""
    return query.items if query.pool is None else query.pool.size


def pool_of(query: Query) -> Indices:
    """Return the items that are asked about, ascending, int32."""
    return np.arange(query.items, dtype=np.int32) if query.pool is None else query.pool


def pairs_of(items: int) -> int:
    """Return the number of pairs of so many items."""
    return items * (items - 1) // 2


AGREEMENTS = ("rated-equal", "equal", "positive")  # The three readings of the agreement bit (spec section 3)
OF_RATED = "-of-rated"  # How the names end of queries about pairs among a device's public rated items
LEVELS = "levels"  # Parameter of queries about turned signs: levels of an item's sensing coin, a power of two
PRIOR, GUESS, COUNTS, LEAN, SENSED = ("prior", "guess", "counts", "lean", "sensed")
"""Public arrays of queries about turned signs, int32, shapes (K,), (2 K, N), (2 K, N), (K,) and (N,)."""
