"""Partitions: a random order of the items, cut into sets, regenerated from public coins on both sides."""

from __future__ import annotations

import numpy as np
from numba import uint32, uint64

from coordinator.protocol.arrays import Counts
from coordinator.protocol.compiled import borrowing
from coordinator.protocol.hashing import draw
from coordinator.protocol.uniform import LOW, below


@borrowing
def random_order(stream: np.uint64, order: Counts, swaps: Counts, chosen: Counts) -> None:
    """Write the first items of one device's uniformly random order of all items; sets are its stretches.

    A Fisher-Yates shuffle that stops after ``chosen.size`` places and puts back what it moved, so that the next device
    starts from the same order, whoever came before.

    Parameters
    ----------
    stream : uint64
        The device's public stream, one of `streams.device_streams`.
    order : ndarray of uint32, shape (N,)
        0 to N - 1, before and after.
    swaps : ndarray of uint32, as ``chosen``
        Scratch.
    chosen : ndarray of uint32, shape (at most N,)
        Receives the items.
    """
    items, count, risky = order.size, chosen.size, uint64(0)
    for k in range(count):
        product = (draw(stream, uint64(k)) & LOW) * uint64(items - k)
        swaps[k] = uint32(uint64(k) + (product >> uint64(32)))
        risky |= np.uint64((product & LOW) < uint64(items - k))
    if risky:  # some first half may have to be rejected: once in 2**32 / N draws
        for k in range(count):
            swaps[k] = k + below(stream, k, items - k)
    for k in range(count):
        chosen[k] = order[swaps[k]]
        order[swaps[k]] = order[k]
    for k in range(count):
        order[swaps[k]] = swaps[k]
    for k in range(count):
        order[k] = k
