"""Words of queries that mechanisms, statistics and moments share: pools of items, sides of an item, and pairs."""

import numpy as np

from coordinator.protocol.arrays import Indices, read_only
from coordinator.protocol.messages import CENTRE_UNIT, Query

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


OUTSIDE = -1  # Place of an item that is not in the pool


def places_in(pool: Indices, items: int) -> Indices:
    """Return every item's place in the pool, `OUTSIDE` where it has none; int32, shape (N,)."""
    places = np.full(items, OUTSIDE, np.int32)
    places[pool] = np.arange(pool.size)
    return places


def centres_of(query: Query) -> tuple[Indices, int]:
    """Return what ratings of the pool's items are counted from, and what a rating counts in the same steps."""
    assert query.pool is not None
    if query.centres is None:
        return read_only(np.zeros(query.pool.size, np.int32)), 1
    return read_only(query.centres), CENTRE_UNIT


def pairs_of(items: int) -> int:
    """Return the number of pairs of so many items."""
    return items * (items - 1) // 2


AGREEMENTS = ("rated-equal", "equal", "positive")  # The three readings of the agreement bit (spec section 3)
OF_RATED = "-of-rated"  # How the names end of queries about pairs among a device's public rated items
LEVELS = "levels"  # Parameter of queries about turned signs: levels of an item's sensing coin, a power of two
PRIOR, GUESS, COUNTS, LEAN, SENSED = ("prior", "guess", "counts", "lean", "sensed")
"""Public arrays of queries about turned signs, int32, shapes (K,), (2 K, N), (2 K, N), (K,) and (N,)."""
