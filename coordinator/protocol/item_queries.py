"""Item queries: which item and which value a device is asked about, from public coins, the same code on both sides."""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Bools, Indices, Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw
from coordinator.protocol.streams import device_streams
from coordinator.protocol.uniform import below


@compiled
def item_queries(key: Words, first: int, count: int, pool: Indices) -> tuple[Indices, Bools]:
    """Return the items that devices ``first``, ``first + 1``, ... are asked about, uniform over the pool, and values.

    Parameters
    ----------
    key : ndarray of uint64, shape (2,)
        The round's public key, `coins.round_key`.
    first, count : int
        The devices.
    pool : ndarray of int32
        The items that are asked about, at least one.

    Returns
    -------
    tuple of ndarray, shape (count,)
        Items, int32, and whether the question is "is it liked?" (True) or "is it disliked?", a fair coin, bool.
    """
    streams = device_streams(key, first, count)
    items, values = np.empty(count, np.int32), np.empty(count, np.bool_)
    for k in range(count):
        items[k] = pool[below(streams[k], 0, pool.size)]
        values[k] = draw(streams[k], uint64(1)) >> uint64(63) == 1
    return items, values
