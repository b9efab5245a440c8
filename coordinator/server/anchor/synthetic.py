"""Synthetic devices of the server's own model: how often a guess is right, and how often a rating decides a sum."""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from coordinator.protocol.arrays import Floats, Floats2, Indices, Indices2, Ints2, Words
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw
from coordinator.protocol.mechanisms.anchor import COUNTS, GUESS, LEVELS, SENSED
from coordinator.protocol.messages import Query
from coordinator.protocol.signs import UNIT
from coordinator.protocol.streams import device_streams
from coordinator.protocol.uniform import LOW

DEVICES = 1 << 12
_FAR = np.uint64(1 << 40)
_SENSES, _COIN = np.uint64(0x7FF), 2.0**-20


@compiled
def _simulate(
    streams: Words, rated: int, guess: Indices2, counts: Indices2, sensed: Indices, levels: int, likes: Floats
) -> Ints2:
    """Return devices by whether their guess is right (row 1), and by the size of their sum up to 2 `UNIT` and more."""
    many, most = sensed.size, 2 * UNIT + 1
    found, items = np.zeros((2, most + 1), np.int64), np.arange(many)
    kept = np.empty(rated, np.int64)
    for k in range(streams.size):
        score, held = 0, 0
        for step in range(rated):
            word = draw(streams[k], uint64(step))  # its halves choose an item, and what becomes of that
            other, coin = step + int((word & LOW) * uint64(many - step) >> uint64(32)), word >> uint64(32)
            items[step], items[other] = items[other], items[step]
            item = items[step]
            row = int(int64(coin >> uint64(12)) * _COIN < likes[item])
            if ((coin >> uint64(1)) & _SENSES) * uint64(levels) >> uint64(11) < uint64(sensed[item]):
                kept[held] = 2 * item + row + 1 if coin & uint64(1) else -(2 * item + row + 1)
                held += 1
            else:
                score += guess[row, item] - guess[2 + row, item]
        coin = draw(streams[k], _FAR - uint64(1))
        right = score > 0 or (score == 0 and coin >> uint64(63) == uint64(1))
        total = 0
        for at in range(held):
            code = abs(kept[at]) - 1
            value = counts[(code & 1) + (0 if right else 2), code >> 1]
            total += value if kept[at] > 0 else -value
        found[int(right), min(abs(total), most)] += 1
    return found


def simulated(query: Query, expected: Floats, *, rated: int, devices: int = DEVICES) -> Floats2:
    """Return shares of synthetic devices by whether their guess is right, and by the size of their sum.

    Coins are public, so that everybody finds the same, and each round has its own, so that their errors average out.

    Parameters
    ----------
    query : Query
        About turned signs of two mirrored classes.
    expected : ndarray of float64, shape (N,)
        Mean rating of each item in the first class, in [-1, 1]; the second class has the opposite.
    rated : int
        Items that each of them rated, from 0 on.
    devices : int
        How many there are.

    Returns
    -------
    ndarray of float64, shape (2, 2 UNIT + 2)
        Row 0 of wrong guesses and row 1 of right ones; sizes 0 to ``2 UNIT``, and larger ones together.
    """
    key = as_words(derive(query.public_seed, f"synthetic devices of round {query.round}"))
    streams = device_streams(key, 0, devices)
    told, likes = query.arrays, (1 + expected) / 2
    found = _simulate(streams, rated, told[GUESS], told[COUNTS], told[SENSED], int(query.parameters[LEVELS]), likes)
    return np.asarray(found / devices)
