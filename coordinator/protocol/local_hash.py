"""Local hashing: every device has a public hash of its own, keyed by its public stream; the same code on both sides.

A word of the stream hashes two values, one with each half, by multiplication: every bucket has its share of the 2^32
halves to within one of them, so that two values fall into one bucket with probability 1/g to within (g / 2^32)^2 of it.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint32, uint64

from coordinator.protocol.arrays import Indices, Ints, Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw
from coordinator.protocol.uniform import LOW


@compiled
def buckets_of(streams: Words, values: Indices, buckets: int, told: Indices) -> None:
    """Write the bucket that each device's hash puts its value into, int32, shape (devices,)."""
    for k in range(streams.size):
        word = draw(streams[k], uint64(values[k] >> 1))
        half = word >> uint64(32) if values[k] & 1 else word & LOW
        told[k] = int64((half * uint64(buckets)) >> uint64(32))


@compiled
def count_supports(streams: Words, told: Indices, buckets: int, counts: Ints) -> None:
    """Add to each value's count the devices whose hash puts it into the bucket that they told."""
    pairs, many = counts.size // 2, uint64(buckets)
    low, high = np.zeros(pairs + 1, np.uint32), np.zeros(pairs + 1, np.uint32)
    odd = counts.size & 1
    for k in range(streams.size):
        stream, bucket = streams[k], uint64(told[k])
        begin = ((bucket << uint64(32)) + many - uint64(1)) // many
        wide = (((bucket + uint64(1)) << uint64(32)) + many - uint64(1)) // many - begin
        for pair in range(pairs + odd):
            word = draw(stream, uint64(pair))
            low[pair] += uint32((word & LOW) - begin < wide)
            high[pair] += uint32((word >> uint64(32)) - begin < wide)
    for pair in range(pairs):
        counts[2 * pair] += low[pair]
        counts[2 * pair + 1] += high[pair]
    if odd:
        counts[2 * pairs] += low[pairs]
