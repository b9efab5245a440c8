"""The sampler of k-ary randomized response, and values as bits, compiled."""

from __future__ import annotations

import numpy as np
from numba import uint8, uint64

from coordinator.protocol.arrays import Bits2, Indices, Words
from coordinator.protocol.compiled import compiled


@compiled
def release_values(value: Indices, coins: Words, other: np.uint64, values: int, bits: Bits2) -> None:
    """Write what each device releases as bits, most significant first: uint8, shape (devices, bits).

    Coins below ``(values - 1) * other`` release the other values in their order, ``other`` coins each; all further
    ones release the value itself.
    """
    miss, width = uint64(values - 1) * other, bits.shape[1]
    for k in range(value.size):
        answer = uint64(value[k])
        if coins[k] < miss:
            place = coins[k] // other
            answer = place + uint64(place >= answer)
        for bit in range(width):
            bits[k, bit] = uint8((answer >> uint64(width - 1 - bit)) & uint64(1))


@compiled
def values_of(bits: Bits2, values: Indices) -> None:
    """Write the whole numbers that rows of bits name, most significant first."""
    for k in range(len(bits)):
        number = 0
        for bit in range(bits.shape[1]):
            number = 2 * number + bits[k, bit]
        values[k] = number
