"""Ratings told as they are, compiled: a number for each rating that a device tells, and the bits that these become."""

from __future__ import annotations

from numba import uint64

from actors.packed import as_bytes, room_for
from coordinator.protocol.arrays import Bits, Bools, Indices, Indices2, Ints, Words
from coordinator.protocol.compiled import compiled, inlined

NOTHING = -1
"""Stands where a device tells fewer ratings than another."""


@compiled
def told_ratings(starts: Ints, items: Indices, likes: Bools, tells: Bools, told: Bools, numbers: Indices2) -> None:
    """Write ``2 item``, and 1 more where it was liked, for each rating that is told, of the devices that tell."""
    for k in range(tells.size):
        found = 0
        for at in range(starts[k], starts[k + 1]):
            if tells[k] and told[at]:
                numbers[k, found] = 2 * items[at] + likes[at]
                found += 1


def told_rows(numbers: Indices2, items: int) -> Bits:
    """Return packed bits, device by device: which items were rated, then which were liked."""
    words = room_for(len(numbers), 2 * items)
    _set_bits(numbers, items, words)
    return as_bytes(words, len(numbers), 2 * items)


@inlined
def _set_bit(words: Words, place: int) -> None:
    words[place >> 6] |= uint64(1) << uint64(63 - (place & 63))


@compiled
def _set_bits(numbers: Indices2, items: int, words: Words) -> None:
    for k in range(len(numbers)):
        for number in numbers[k]:
            if number != NOTHING:
                _set_bit(words, 2 * items * k + (number >> 1))
                if number & 1:
                    _set_bit(words, 2 * items * k + items + (number >> 1))
