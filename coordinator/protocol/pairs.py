"""Item pairs: which two items a device is asked about, from public coins, the same code on both sides."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Indices, Indices2, Ints, Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.streams import device_streams
from coordinator.protocol.uniform import below


@compiled
def random_pairs(key: Words, first: int, count: int, items: int) -> tuple[Indices, Indices]:
    """Return the pairs that devices ``first``, ``first + 1``, ... are asked about, uniform over all pairs i < j.

    Parameters
    ----------
    key : ndarray of uint64, shape (2,)
        The round's public key, `coins.round_key`.
    first, count : int
        The devices.
    items : int
        Number of items N, at least 2.

    Returns
    -------
    tuple of ndarray of int32, shape (count,)
        The smaller and the larger item of each pair.
    """
    streams = device_streams(key, first, count)
    low, high = np.empty(count, np.int32), np.empty(count, np.int32)
    for k in range(count):
        one, other = below(streams[k], 0, items), below(streams[k], 1, items - 1)
        other += other >= one
        low[k], high[k] = min(one, other), max(one, other)
    return low, high


@compiled
def pairs_among(key: Words, first: int, sizes: Ints) -> Indices2:
    """Return two places of each device's own list, uniform over all pairs a < b, where lists are public.

    Parameters
    ----------
    key : ndarray of uint64, shape (2,)
        The round's public key, `coins.round_key`.
    first : int
        The first device.
    sizes : ndarray of int64, shape (count,)
        Lengths of the devices' lists; a list with less than two entries has no pair.

    Returns
    -------
    ndarray of int32, shape (count, 2)
        Places in each list; -1 where there is no pair.
    """
    streams, places = device_streams(key, first, sizes.size), np.full((sizes.size, 2), -1, np.int32)
    for k in range(sizes.size):
        if sizes[k] >= 2:
            one, other = below(streams[k], 0, sizes[k]), below(streams[k], 1, sizes[k] - 1)
            other += other >= one
            places[k, 0], places[k, 1] = min(one, other), max(one, other)
    return places
