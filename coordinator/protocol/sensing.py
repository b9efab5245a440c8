"""Sensing sets: every item independently with probability p, drawn by `sensing_sets` on both sides.

An item's inclusion is not drawn item by item: the gaps between sensed items are geometric, so a set costs one draw
for each sensed item. A gap comes from an alias table of 256 symbols: 0 to 254 unsensed items and then a sensed one,
or an escape, 255 unsensed items and no end of the gap yet (the geometric law has no memory). The table is made in
whole numbers, so that every machine makes the same one; each symbol's probability is exact to 2**-64.

A draw's low 8 bits choose an entry, its high 56 bits are held against the entry's threshold: below it the entry's own
symbol counts, else its alias's. A symbol's code is ``2 * step + sensed``.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Halves, Words
from coordinator.protocol.errors import InputError

SYMBOLS = 256
ESCAPE = SYMBOLS - 1
_FULL = 1 << 56


class SensingTable(NamedTuple):
    """Alias table of the gaps between sensed items."""

    thresholds: Words
    """Thresholds, shape (256,), in units of 2**-64."""
    codes: Halves
    """Codes, shape (512,): of entry i's alias at 2 i, of its own symbol at 2 i + 1."""


def _weights(probability: Fraction) -> list[int]:
    """Return whole weights of the symbols that sum to SYMBOLS * _FULL, each within one of its exact share."""
    total = SYMBOLS * _FULL
    unsensed = 1 - probability
    tail, cut, weights = Fraction(1), 0, []
    for _ in range(ESCAPE):
        tail = Fraction(round(tail * unsensed * (1 << 120)), 1 << 120)
        mark = round((1 - tail) * total)
        weights.append(mark - cut)
        cut = mark
    return [*weights, total - cut]


def _code(symbol: int) -> int:
    return 2 * ESCAPE if symbol == ESCAPE else 2 * (symbol + 1) + 1


@lru_cache(maxsize=16)
def sensing_table(probability: float) -> SensingTable:
    """Return the alias table of the gaps between sensed items.

    Parameters
    ----------
    probability : float
        Sensing probability p of each item, in (0, 1].

    Returns
    -------
    SensingTable

    Raises
    ------
    InputError
        If ``probability`` is outside (0, 1].
    """
    if not 0 < probability <= 1:
        raise InputError(f"sensing probability is {probability}; it must lie in (0, 1]: lower theta")
    left = _weights(Fraction(probability))
    alias, threshold = list(range(SYMBOLS)), [_FULL] * SYMBOLS
    small = [symbol for symbol in range(SYMBOLS) if left[symbol] < _FULL]
    large = [symbol for symbol in range(SYMBOLS) if left[symbol] > _FULL]
    while small:
        low, high = small.pop(), large[-1]
        alias[low], threshold[low] = high, left[low]
        left[high] -= _FULL - left[low]
        if left[high] <= _FULL:
            large.pop()
            if left[high] < _FULL:
                small.append(high)
    table = SensingTable(
        thresholds=np.array([min(part, _FULL - 1) << 8 for part in threshold], np.uint64),
        codes=np.array([_code(place) for own in range(SYMBOLS) for place in (alias[own], own)], np.uint16),
    )
    for part in table:
        part.setflags(write=False)
    return table
