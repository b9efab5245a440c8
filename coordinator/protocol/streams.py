"""Public coins: a counter-based hash of (public seed, round, device, lane), the same code on both sides."""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import siphash1


@compiled
def device_streams(key: Words, first: int, count: int) -> Words:
    """Return the public streams of ``count`` devices in one round, uint64; `hashing.draw` gives a stream's lanes."""
    streams = np.empty(count, np.uint64)
    key0, key1 = key[0], key[1]
    for k in range(count):
        streams[k] = siphash1(key0, key1, uint64(first) + uint64(k))
    return streams
