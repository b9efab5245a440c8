"""A device's sensing set from its public stream, compiled; see `sensing`."""

from __future__ import annotations

import numpy as np
from numba import uint32, uint64

from coordinator.protocol.arrays import Counts
from coordinator.protocol.compiled import inlined
from coordinator.protocol.hashing import draw
from coordinator.protocol.sensing import DRAWN, SensingTable

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def sense(stream: np.uint64, table: SensingTable, sensed: Counts) -> int:
    """Write the sensing set of one device, in any order.

    Parameters
    ----------
    stream : uint64
        The device's public stream, one of `coins.device_streams`.
    table : SensingTable
        `sensing_table` of the sensing probability and the number of items.
    sensed : ndarray of uint32, shape (table.room,)
        Receives the sensed items, some perhaps repeated, and ``table.items``, which is no item, wherever a word's half
        is no item's place. What lies behind them is scratch.

    Returns
    -------
    int
        How many of them there are.
    """
    word = draw(stream, uint64(0))
    entry = word & uint64(table.thresholds.size - 1)
    many = int(table.numbers[(entry << uint64(1)) + uint64(word < table.thresholds[entry])])
    if not table.spared:
        _draw_places(stream, table.items, many, sensed)
        return many
    spared = sensed[table.items + 1 :]
    _draw_places(stream, table.items, many, spared)
    for item in range(table.items + 1):
        sensed[item] = item
    for j in range(many):
        sensed[spared[j]] = table.items
    return table.items


@inlined
def _draw_places(stream: np.uint64, items: int, many: int, places: Counts) -> None:
    """Write at least ``many`` uniform places, from lane 1 on; the number ``items`` for halves that are refused."""
    count, refused = uint64(items), uint64((1 << 32) % items)
    for k in range((many + DRAWN - 1) // DRAWN * (DRAWN // 2)):
        word = draw(stream, uint64(k) + uint64(1))
        low, high = (word & _LOW) * count, (word >> _HALF) * count
        places[2 * k] = uint32(low >> _HALF) if (low & _LOW) >= refused else uint32(count)
        places[2 * k + 1] = uint32(high >> _HALF) if (high & _LOW) >= refused else uint32(count)
