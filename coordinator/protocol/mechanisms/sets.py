"""The set mechanism in public: all that a device liked, or pairs of it, padded, and a subset."""

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.oracles import OneItem, Subset
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import SIDES, pairs_of, pool_size
from coordinator.protocol.public_half import require_whole_parameter
from coordinator.protocol.value_channels import CHOSEN, PADDED


class Set(Subset):
    """A subset as the oracle releases it, of sets of several values; items that are asked about, and dummies."""

    name = "set"
    parameters = Subset.parameters | {PADDED}

    def check(self, query: Query) -> None:
        OneItem.check(self, query)
        if query.parameters[SIDES] != 1:
            raise InputError(f"{query} has {SIDES} {query.parameters[SIDES]:g}; give 1, sets are of liked items")
        require_whole_parameter(query, PADDED, pool_size(query))
        require_whole_parameter(query, CHOSEN, self.named(query))

    def named(self, query: Query) -> int:
        """Return the values that are no dummies: items that are asked about."""
        return pool_size(query)

    def own(self, query: Query) -> int:
        return int(query.parameters[PADDED])

    def values(self, query: Query) -> int:
        return self.named(query) + self.own(query)


TOGETHER = "together"
"""Parameter of queries: items that make up a value, 1 or 2; 0 where values are ranges of how many are liked."""
MOST_RANGES = 10  # Ranges of numbers of likes at most: 0, 1, 2 to 3, 4 to 7 and so on, and 256 or more
MOST_ITEMS = 400  # Items whose pairs are asked about at most: 79,800 pairs
MOST_LIKES = 50  # Likes that a device keeps at most for pairs: it lists 1,225 pairs then


def ranges_of(items: int) -> int:
    """Return the number of ranges of how many of so many items are liked; the i-th ends before ``2**i``.

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
        if query.parameters[TOGETHER] == 0:
            require_whole_parameter(query, PADDED, 1)
        elif require_whole_parameter(query, TOGETHER, 2) == 2:
            if not 2 <= pool_size(query) <= MOST_ITEMS:
                raise InputError(f"{query} is about pairs of {pool_size(query)} items; give 2 to {MOST_ITEMS}")
            if not 2 <= query.parameters[PADDED] <= MOST_LIKES:
                raise InputError(f"{query} has {PADDED} {query.parameters[PADDED]:g}; give 2 to {MOST_LIKES} likes")
        super().check(query)

    def named(self, query: Query) -> int:
        """Return the values that are no dummies."""
        return (ranges_of, int, pairs_of)[together(query)](pool_size(query))

    def own(self, query: Query) -> int:
        """Return the values of every device's set."""
        likes = super().own(query)
        return pairs_of(likes) if together(query) == 2 else likes

    def values(self, query: Query) -> int:
        """Return the number of values, with dummies where devices may have fewer of their own."""
        return super().values(query) if together(query) else self.named(query)


PUBLIC = (Set(), Pairs())
