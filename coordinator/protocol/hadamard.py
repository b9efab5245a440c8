"""Rows of the Hadamard matrix of a device's own, from its public stream; the same code on both sides.

Row r has the sign ``(-1)^(number of ones of r & v)`` in column v. A device's rows are uniform among all 2^m of them,
the constant one included, so that its signs in two columns agree in all t rows with probability 2^-t exactly.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from coordinator.protocol.arrays import Indices, Ints, Words
from coordinator.protocol.compiled import compiled, inlined
from coordinator.protocol.hashing import draw


@inlined
def odd(word: np.uint64) -> int:
    """Return 1 where a word of at most 32 bits has an odd number of ones, else 0."""
    word ^= word >> uint64(16)
    word ^= word >> uint64(8)
    word ^= word >> uint64(4)
    word ^= word >> uint64(2)
    return int((word ^ (word >> uint64(1))) & uint64(1))


@compiled
def signs_of(streams: Words, values: Indices, rows: int, columns: int, told: Indices) -> None:
    """Write the signs of each device's value in its rows as a number: bit j is 1 where row j has a -1 there.

    ``columns`` is the size of the matrix, a power of two.
    """
    mask = uint64(columns - 1)
    for k in range(streams.size):
        told[k] = 0
        for row in range(rows):
            told[k] |= odd(draw(streams[k], uint64(row)) & mask & uint64(values[k])) << row


@compiled
def gather(streams: Words, told: Indices, rows: int, counts: Ints) -> None:
    """Add every device's signs, and the products of any of them, to the counts of the rows that these belong to.

    A product of rows is the row of their numbers' exclusive or. Signs are told as `signs_of` writes them.
    """
    mask, mine = uint64(counts.size - 1), np.empty(rows, np.uint64)
    counts[0] += streams.size
    for k in range(streams.size):
        for row in range(rows):
            mine[row] = draw(streams[k], uint64(row)) & mask
        product, sign = uint64(0), int64(1)
        for step in range(1, 1 << rows):  # Gray code: one row comes or goes
            row = 0
            while not (step >> row) & 1:
                row += 1
            product ^= mine[row]
            if (told[k] >> row) & 1:
                sign = -sign
            counts[product] += sign


@compiled
def transform(counts: Ints) -> None:
    """Multiply counts by the Hadamard matrix, in place: the fast Walsh-Hadamard transform of 2^m numbers."""
    half = 1
    while half < counts.size:
        for begin in range(0, counts.size, 2 * half):
            for place in range(begin, begin + half):
                one, other = counts[place], counts[place + half]
                counts[place], counts[place + half] = one + other, one - other
        half *= 2
