"""The floor: a bare reference kernel with the random numbers and additions of a MaxSense round, and nothing else.

Speed is measured relative to it. It is no bound, because a kernel with cheaper random numbers is faster.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Counts
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw
from coordinator.server.fleet.layout import cut


@compiled
def floor_kernel(first: int, stop: int, items: int, rated: int, sensed: int, counts: Counts) -> np.uint64:
    """Draw ``rated`` words for a device's ratings; draw one word and add one for each sensed item.

    Sets may have repeated items, gaps are not geometric, keys are weak, and nothing is released.
    """
    mixed = uint64(0)
    for device in range(first, stop):
        stream = draw(uint64(device), uint64(0))
        for lane in range(rated):
            mixed ^= draw(stream, uint64(lane))
        for lane in range(sensed):
            word = draw(stream, uint64(rated + lane)) >> uint64(32)
            counts[(word * uint64(items)) >> uint64(32)] += 1
    return mixed


def floor_seconds(*, users: int, items: int, rated: int, sensed: int, threads: int) -> float:
    """Return the seconds of the floor kernel over ``users`` devices on ``threads`` threads."""
    pieces = cut(0, users, -(-users // threads))
    counts = [np.zeros(items, np.uint32) for _ in pieces]
    floor_kernel(0, 1, items, rated, sensed, counts[0])
    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        jobs = [
            pool.submit(floor_kernel, first, stop, items, rated, sensed, mine)
            for (first, stop), mine in zip(pieces, counts, strict=True)
        ]
        for job in jobs:
            job.result()
        return time.perf_counter() - start
