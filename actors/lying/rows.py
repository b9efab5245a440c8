"""Some devices' bits in a packed block: taken out as bytes, and put back; compiled."""

from __future__ import annotations

import numpy as np
from numba import uint8

from coordinator.protocol.arrays import Bits, Bits2, Ints
from coordinator.protocol.compiled import compiled


def rows_of(packed: Bits, width: int, which: Ints) -> Bits2:
    """Return the bits of devices ``which`` of a block, uint8 of 0 and 1, shape (n, width)."""
    rows = np.empty((which.size, width), np.uint8)
    _take(packed, which, rows)
    return rows


@compiled
def _take(packed: Bits, which: Ints, rows: Bits2) -> None:
    width = rows.shape[1]
    for k in range(which.size):
        for bit in range(width):
            at = which[k] * width + bit
            rows[k, bit] = (packed[at >> 3] >> (7 - (at & 7))) & 1


@compiled
def put_rows(packed: Bits, which: Ints, rows: Bits2) -> None:
    """Write the bits of devices ``which`` into a block's packed bits, most significant first."""
    width = rows.shape[1]
    for k in range(which.size):
        for bit in range(width):
            at = which[k] * width + bit
            mask = uint8(128) >> uint8(at & 7)
            packed[at >> 3] = (packed[at >> 3] | mask) if rows[k, bit] else (packed[at >> 3] & ~mask)
