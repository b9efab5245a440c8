"""A device's sensing set from its public stream, compiled; see `sensing`."""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Counts, Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw
from coordinator.protocol.sensing import SensingTable

CHUNK = 32
"""Draws made at a time; a speed parameter."""


@compiled
def sense(stream: np.uint64, items: int, table: SensingTable, words: Words, sensed: Counts) -> int:
    """Write the sensing set of one device, ascending.

    Parameters
    ----------
    stream : uint64
        The device's public stream, one of `coins.device_streams`.
    items : int
        Number of items N; items are 0 to N - 1.
    table : SensingTable
        `sensing_table` of the sensing probability.
    words : ndarray of uint64, shape (CHUNK,)
        Scratch.
    sensed : ndarray of uint32, shape (N + 1,)
        Receives the sensed items; what lies behind them is scratch.

    Returns
    -------
    int
        How many items are sensed.
    """
    past, found, end, lane = uint64(0), uint64(0), uint64(items), uint64(0)
    while True:
        for k in range(CHUNK):
            words[k] = draw(stream, lane + uint64(k))
        lane += uint64(CHUNK)
        for k in range(CHUNK):
            word = words[k]
            entry = word & uint64(255)
            code = uint64(table.codes[(entry << uint64(1)) + uint64(word < table.thresholds[entry])])
            past += code >> uint64(1)
            if past > end:
                return int(found)
            sensed[found] = past - uint64(1)
            found += code & uint64(1)
