"""The set mechanism over pairs of liked items in public; groups that are asked earlier name single items.

Of M items that are asked about, by their places in the pool, a device keeps at most w likes. Where values are single
items, it is the set mechanism. Where they are pairs, the values are the ``M (M - 1) / 2`` pairs, in the order of an
upper triangle's rows, and ``w (w - 1) / 2`` dummies behind them: every device's set has exactly as many values.
Where values are numbers of likes, a device's set is the one range that its own number of likes among the M items is
in, and there are no dummies: with one value in a release, this is k-ary randomized response.
"""

from __future__ import annotations

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.set import Set
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import asked
from coordinator.protocol.public_half import require_whole_parameter
from coordinator.protocol.subset_form import PADDED

TOGETHER = "together"
"""Parameter of queries: items that make up a value, 1 or 2; 0 where values are ranges of how many are liked."""
MOST_RANGES = 10
"""Ranges of numbers of likes at most: 0, 1, 2 to 3, 4 to 7 and so on, and 256 or more."""
MOST_ITEMS = 400
"""Items whose pairs are asked about at most: 79,800 pairs."""
MOST_LIKES = 50
"""Likes that a device keeps at most for pairs: it lists 1,225 pairs then."""


def pairs_of(items: int) -> int:
    """Return the number of pairs of so many items."""
    return items * (items - 1) // 2


def ranges_of(items: int) -> int:
    """Return the ranges that tell how many of so many items are liked; the i-th ends before ``2**i``.

    >>> ranges_of(5), ranges_of(9724)
    (4, 10)
    """
    return min(items.bit_length() + 1, MOST_RANGES)


def together(query: Query) -> int:
    """Return how many items make up a value: 1, an item; 2, a pair of items; 0, values are numbers of likes."""
    return int(query.parameters[TOGETHER])


class Pairs(Set):
    """Questions are those of the set mechanism, over items, over pairs of them, or over numbers of likes."""

    name = "pairs"
    parameters = Set.parameters | {TOGETHER}

    def check(self, query: Query) -> None:
        """Refuse pairs among too few or too many items, and what the set mechanism refuses."""
        if query.parameters[TOGETHER] == 0:
            require_whole_parameter(query, PADDED, 1)
        elif require_whole_parameter(query, TOGETHER, 2) == 2:
            if not 2 <= asked(query) <= MOST_ITEMS:
                raise InputError(f"{query} is about pairs of {asked(query)} items; give 2 to {MOST_ITEMS}")
            if not 2 <= query.parameters[PADDED] <= MOST_LIKES:
                raise InputError(f"{query} has {PADDED} {query.parameters[PADDED]:g}; give 2 to {MOST_LIKES} likes")
        super().check(query)

    def named(self, query: Query) -> int:
        """Return the values that are no dummies."""
        return (ranges_of, int, pairs_of)[together(query)](asked(query))

    def own(self, query: Query) -> int:
        """Return the values of every device's set."""
        kept = super().own(query)
        return pairs_of(kept) if together(query) == 2 else kept

    def values(self, query: Query) -> int:
        """Return the number of values, with dummies where devices may have fewer of their own."""
        return super().values(query) if together(query) else self.named(query)


PUBLIC = (Pairs(),)
