"""Item pairs: which two items a device is asked about, from public coins, the same code on both sides."""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Indices, Words
from coordinator.protocol.coins import device_streams
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw

_LOW = np.uint64(0xFFFFFFFF)


@compiled
def below(stream: np.uint64, lane: int, bound: int) -> int:
    """Return a uniform whole number below ``bound`` (at most 2**32): multiplication with rejection (Lemire, 2019)."""
    many, rejected, step = uint64(bound), uint64((1 << 32) % bound), uint64(0)
    while True:
        word = draw(stream, uint64(lane) + (step << uint64(32)))
        for half in (word & _LOW, word >> uint64(32)):
            product = half * many
            if (product & _LOW) >= rejected:
                return int(product >> uint64(32))
        step += uint64(1)


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
