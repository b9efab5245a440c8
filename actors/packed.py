"""Releases of many bits, written packed: rows of 64-bit words or of short numbers, device by device; compiled.

A block's bits are one row of 64-bit words, the first bit the highest. They are never stored as one byte a bit: at
thousands of bits a device that would take longer than drawing them.
"""

from __future__ import annotations

import numpy as np
from numba import uint8, uint64

from coordinator.protocol.arrays import Bits, Words
from coordinator.protocol.compiled import compiled, inlined


def room_for(devices: int, width: int) -> Words:
    """Return zeroed words for the bits of a block, and one word more."""
    return np.zeros(devices * width // 64 + 2, np.uint64)


def as_bytes(words: Words, devices: int, width: int) -> Bits:
    """Return a block's bits as packed bytes, most significant bit first."""
    return words.byteswap().view(np.uint8)[: -(-devices * width // 8)]


@inlined
def put_row(words: Words, start: int, width: int, row: Words) -> None:
    """Write a row of ``width`` bits from bit ``start`` on; the row's bits beyond them are 0."""
    first, shift = start >> 6, uint64(start & 63)
    words[first] |= row[0] >> shift
    for k in range(1, row.size):
        words[first + k] = (row[k] >> shift) | ((row[k - 1] << (uint64(63) - shift)) << uint64(1))
    if int(shift) + width > 64 * row.size:
        words[first + row.size] = row[row.size - 1] << (uint64(64) - shift)


@inlined
def put_number(words: Words, start: int, width: int, number: int) -> None:
    """Write a whole number of ``width`` bits, at most 63, from bit ``start`` on."""
    first, shift = start >> 6, uint64(start & 63)
    aligned = uint64(number) << uint64(64 - width)
    words[first] |= aligned >> shift
    if int(shift) + width > 64:
        words[first + 1] = aligned << (uint64(64) - shift)


@compiled
def wipe(packed: Bits, width: int, answered: Bits) -> None:
    """Set the bits of devices that do not answer to 0, in packed bytes of ``width`` bits a device."""
    for k in range(answered.size):
        if not answered[k]:
            start, stop = k * width, (k + 1) * width
            before, behind = uint8((0xFF00 >> (start & 7)) & 0xFF), uint8(0xFF >> (stop & 7))
            if start >> 3 == stop >> 3:
                packed[start >> 3] &= before | behind
            else:
                packed[start >> 3] &= before
                packed[(start >> 3) + 1 : stop >> 3] = 0
                if stop & 7:
                    packed[stop >> 3] &= behind
