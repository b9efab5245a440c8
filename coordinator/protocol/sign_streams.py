"""One public sign, compiled; see `signs`."""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.compiled import inlined
from coordinator.protocol.hashing import draw


@inlined
def sign_bit(stream: np.uint64, lane: int, place: int) -> np.uint64:
    """Return the sign of the item at ``place`` of the pool, 1 for +1 and 0 for -1; its vector starts at ``lane``."""
    word = draw(stream, uint64(lane) + (uint64(place) >> uint64(6)))
    return (word >> (uint64(place) & uint64(63))) & uint64(1)
