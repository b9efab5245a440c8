"""Uniform whole numbers from a stream of words, exact, without a division in the common case."""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw

LOW = np.uint64(0xFFFFFFFF)
"""Mask of a word's low half."""


@compiled
def below(stream: np.uint64, lane: int, bound: int) -> int:
    """Return a uniform whole number below ``bound`` (at most 2**32): multiplication with rejection (Lemire, 2019)."""
    many, step = uint64(bound), uint64(0)
    while True:
        word = draw(stream, uint64(lane) + (step << uint64(32)))
        for half in (word & LOW, word >> uint64(32)):
            product = half * many
            rest = product & LOW
            if rest >= many or rest >= uint64((1 << 32) % bound):
                return int(product >> uint64(32))
        step += uint64(1)
