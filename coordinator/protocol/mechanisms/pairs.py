"""The set mechanism over pairs of liked items in public; groups that are asked earlier name single items.

Of M items that are asked about, by their places in the pool, a device keeps at most w likes. Where values are single
items, it is the set mechanism. Where they are pairs, the values are the ``M (M - 1) / 2`` pairs, in the order of an
upper triangle's rows, and ``w (w - 1) / 2`` dummies behind them: every device's set has exactly as many values.
"""

from __future__ import annotations

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.set import Set
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import asked
from coordinator.protocol.public_half import require_whole_parameter
from coordinator.protocol.subset_form import PADDED

TOGETHER = "together"
"""Parameter of queries: items that make up a value, 1 or 2."""
MOST_ITEMS = 400
"""Items whose pairs are asked about at most: 79,800 pairs."""
MOST_LIKES = 50
"""Likes that a device keeps at most for pairs: it lists 1,225 pairs then."""


def pairs_of(items: int) -> int:
    """Return the number of pairs of so many items."""
    return items * (items - 1) // 2


def together(query: Query) -> int:
    """Return how many items make up a value: 1, an item; 2, a pair of items."""
    return int(query.parameters[TOGETHER])


class Pairs(Set):
    """Questions are those of the set mechanism, over items or over pairs of them."""

    name = "pairs"
    parameters = Set.parameters | {TOGETHER}

    def check(self, query: Query) -> None:
        """Refuse pairs among too few or too many items, and what the set mechanism refuses."""
        if require_whole_parameter(query, TOGETHER, 2) == 2:
            if not 2 <= asked(query) <= MOST_ITEMS:
                raise InputError(f"{query} is about pairs of {asked(query)} items; give 2 to {MOST_ITEMS}")
            if not 2 <= query.parameters[PADDED] <= MOST_LIKES:
                raise InputError(f"{query} has {PADDED} {query.parameters[PADDED]:g}; give 2 to {MOST_LIKES} likes")
        super().check(query)

    def named(self, query: Query) -> int:
        """Return the values that are no dummies."""
        return asked(query) if together(query) == 1 else pairs_of(asked(query))

    def own(self, query: Query) -> int:
        """Return the values of every device's set."""
        kept = super().own(query)
        return kept if together(query) == 1 else pairs_of(kept)


PUBLIC = (Pairs(),)
