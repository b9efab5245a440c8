"""Counting many columns at once with bit slices: 64 columns share a word, at some six operations a word and row.

A plane of level b holds one bit of weight 2^b a column. Two rows are added to the plane of level 0 by a carry-save
adder, five operations a word; its carries, two of them at a time, are added to the plane of level 1, and so on: one
adder a row in all, whatever the number of rows.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Ints, Words, Words2
from coordinator.protocol.compiled import borrowing, inlined


def planes_for(rows: int, columns: int) -> tuple[Words2, Words2]:
    """Return zeroed planes for the counts of so many rows, and as many rows of carries.

    The first row of carries is of pairs of rows that are odd, counted from 0. Carries of others wait in the second, and
    those of each further level in the next.
    """
    planes = np.zeros((max(rows, 2).bit_length() + 1, -(-columns // 64)), np.uint64)
    return planes, np.zeros_like(planes)


@borrowing
def carry_on(pair: int, planes: Words2, waiting: Words2) -> None:
    """Add the carries of an odd pair of rows, counted from 0; those of an even pair wait."""
    carry, level, ends = waiting[0], 0, not pair & 1
    while not ends:
        level += 1
        ends = not (pair >> level) & 1
        _add_carries(waiting[level], carry, planes[level], waiting[level + 1] if ends else carry)


@inlined
def _add_carries(waiting: Words, carry: Words, plane: Words, out: Words) -> None:
    """Add two carries to the plane of their level; write its carries, possibly over ``carry``."""
    for w in range(plane.size):
        a, b, one = waiting[w], carry[w], plane[w]
        out[w] = (a & b) | ((a ^ b) & one)
        plane[w] = a ^ b ^ one


@borrowing
def read_out(pairs: int, planes: Words2, waiting: Words2, counts: Ints) -> None:
    """Add the counts of so many pairs of rows: column j is bit ``j mod 64`` of word ``j // 64``, the lowest first."""
    for level in range(planes.shape[0]):
        waits = uint64(level > 0 and (pairs >> (level - 1)) & 1)
        for place in range(counts.size):
            word, bit = place >> 6, uint64(place & 63)
            both = ((planes[level, word] >> bit) & uint64(1)) + ((waiting[level, word] >> bit) & waits)
            counts[place] += int(both) << level
