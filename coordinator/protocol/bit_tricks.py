"""Places of ones in 64-bit words, compiled."""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.compiled import inlined


@inlined
def ones(word: np.uint64) -> int:
    """Return how many bits of a word are 1."""
    word -= (word >> uint64(1)) & uint64(0x5555555555555555)
    word = (word & uint64(0x3333333333333333)) + ((word >> uint64(2)) & uint64(0x3333333333333333))
    word = (word + (word >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * uint64(0x0101010101010101)) >> uint64(56))


@inlined
def zeros_below(word: np.uint64) -> int:
    """Return how many zeros stand below the lowest 1 of a word that is not 0."""
    return ones((word & (~word + uint64(1))) - uint64(1))
