"""Sensing sets: every item independently with probability p, drawn by `sensing_sets` on both sides.

An item's inclusion is not drawn item by item, nor item after item: a device draws how many places it looks at, by a
Poisson law, and each place uniformly; an item that some place hits is sensed, once, however many hit it. How often each
item is hit is then an independent Poisson number, which is 0 with probability ``1 - p`` if there are ``-N ln(1 - p)``
places in the mean. Above p = 1/2 the places are those of the items that are not sensed, with ``1 - p`` for p.

The number of places comes from an alias table of 2**k entries that is made in whole numbers, so that every machine
makes the same one; each number's probability is exact to 2**-64. A word's low k bits choose an entry; where its other
bits are below the entry's threshold the entry's own number counts, else its alias's. Half a word is a place by
multiplication (Lemire, 2019). Halves that would make it uneven are no item's place; as many more are drawn in the mean.
"""

from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Counts, Indices, Words
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query

DRAWN = 16  # Places that are drawn together; a speed parameter
_HALF = 1 << 32
_COINS = 1 << 64
_FEWEST = 256
_DIGITS, _NEVER = 60, Decimal(2) ** -80


class SensingTable(NamedTuple):
    """How to draw a sensing set: an alias table of the number of places, and among how many items these lie."""

    thresholds: Words  # Thresholds, shape (2**k,), in units of 2**-64
    numbers: Counts  # Numbers of places, shape (2 * 2**k,): of entry i's alias at 2 i, of its own at 2 i + 1
    items: int  # Number N of items, or of those of a pool; N itself stands for no item
    spared: bool  # Whether the places are those of the items that are not sensed
    room: int  # Size of an array that holds any device's places


@lru_cache(maxsize=16)
def sensing_table(probability: float, items: int) -> SensingTable:
    """Return how sets among ``items`` items are drawn."""
    if not 0 < probability <= 1:
        raise InputError(f"sensing probability is {probability}; it must lie in (0, 1]: lower theta")
    spared = 2 * probability > 1
    lowest, weights = _law(_mean(1 - probability if spared else probability, items))
    size = max(_FEWEST, 1 << (len(weights) - 1).bit_length())
    thresholds, aliases = _aliases(weights + [0] * (size - len(weights)))
    numbers = np.array([lowest + offset for column in range(size) for offset in (aliases[column], column)], np.uint32)
    room = lowest + len(weights) + DRAWN + (items + 1 if spared else 0)
    table = SensingTable(np.array(thresholds, np.uint64), numbers, items, spared, room)
    for part in table[:2]:
        part.setflags(write=False)
    return table


def sensing_of(query: Query) -> SensingTable:
    """Return how the sets of a query are drawn: among the places of its pool, if it has one."""
    return sensing_table(query.parameters["sensing"], query.items if query.pool is None else query.pool.size)


def items_of(query: Query) -> Indices:
    """Return the item at each place of a query's pool, and no item, N, behind them; empty where places are items."""
    return np.empty(0, np.int32) if query.pool is None else np.append(query.pool, np.int32(query.items))


def _mean(probability: float, items: int) -> Decimal:
    """Return the mean number of places, those that are no item's among them."""
    # Let K be Poisson with mean mu, and let each of K places hit item i with probability q, independently. Splitting a
    # Poisson number gives independent Poisson numbers: item i is hit Poisson(mu q) times, whatever happens to the
    # others and to the places that are no item's. So each item is missed with probability e^(-mu q), independently, and
    # that is 1 - p if mu = -ln(1 - p) / q. Half a word, h, is the place floor(h N / 2^32), and `_draw_places` refuses
    # the 2^32 mod N of its values that would make places uneven: each place keeps floor(2^32 / N) values of 2^32. That
    # share is q. A refused half is a place of no item, which changes nothing for the items.
    with localcontext(prec=_DIGITS):
        return -(1 - Decimal(probability)).ln() * _HALF / (_HALF // items)


def _law(mean: Decimal) -> tuple[int, list[int]]:
    """Return the smallest number of places, and whole weights of it and those above it, which sum to 2**64."""
    # Each is within one of its exact share; numbers less probable than the most probable one by 2**-80 never come.
    with localcontext(prec=_DIGITS):
        mode, share, above = int(mean), Decimal(1), [Decimal(1)]
        while share > _NEVER:
            share *= mean / (mode + len(above))
            above.append(share)
        share, below = Decimal(1), list[Decimal]()
        while share > _NEVER and len(below) < mode:
            share *= (mode - len(below)) / mean
            below.append(share)
        shares = [*reversed(below), *above]
        total, past, marks = sum(shares), Decimal(0), [0]
        for share in shares:
            past += share
            # Weights are differences of rounded cumulative shares: no rounding adds up, and they sum to 2^64 exactly,
            # since at the last share ``past`` is the result of the same additions as ``total``, so that their ratio is
            # 1.
            marks.append(int((past / total * _COINS).to_integral_value()))
    return mode - len(below), [high - low for low, high in pairwise(marks)]


def _aliases(left: list[int]) -> tuple[list[int], list[int]]:
    """Return each entry's threshold, in units of 2**-64, and its alias, of weights that sum to 2**64 (Walker, 1977)."""
    # An entry has ``full = 2^64 / size`` coins. One that has fewer of its own, ``low``, is filled up with coins of one
    # that has more, ``high``, its alias. What is left always sums to ``full`` times the entries that are not filled
    # yet, in whole numbers, so that there is a high one as long as there is a low one, and in the end none is left
    # over.
    size = len(left)
    full, bits = _COINS // size, size.bit_length() - 1
    aliases, parts = list(range(size)), [full] * size
    small = [index for index in range(size) if left[index] < full]
    large = [index for index in range(size) if left[index] > full]
    while small:
        low, high = small.pop(), large[-1]
        aliases[low], parts[low] = high, left[low]
        left[high] -= full - left[low]
        if left[high] <= full:
            large.pop()
            if left[high] < full:
                small.append(high)
    # A word whose low bits name the entry is below ``part << bits`` if and only if its other bits are below ``part``:
    # ``part`` of the entry's ``full`` words. A full entry's threshold would be 2^64, which no word holds; one word less
    # goes to its alias, which is the entry itself, so that this is exact, too.
    return [min(part, full - 1) << bits for part in parts], aliases
