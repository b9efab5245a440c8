"""The set mechanism in public: all that a device liked, padded to exactly as many values, and a subset that meets it.

Values are the items that are asked about, by their places in the pool, and as many dummies behind them as a device's
set has values: whoever liked fewer items adds dummies, and whoever liked more keeps some of them at random.
"""

from __future__ import annotations

from coordinator.protocol.channels import SubsetChannel, subset_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import SIDES, OneItem, asked
from coordinator.protocol.public_half import require_whole_parameter
from coordinator.protocol.subset_form import CHOSEN, PADDED, subset_form


def padded_values(query: Query) -> int:
    """Return the number of values: items that are asked about, and dummies."""
    return asked(query) + int(query.parameters[PADDED])


class Set(OneItem):
    """Questions are the values of a subset, by their numbers; or all values, a bit each, where that is shorter."""

    name = "set"
    parameters = OneItem.parameters | {PADDED, CHOSEN}

    def check(self, query: Query) -> None:
        """Refuse sets and subsets that are none, or larger than what is asked about; sets are of likes alone."""
        super().check(query)
        if query.parameters[SIDES] != 1:
            raise InputError(f"{query} has {SIDES} {query.parameters[SIDES]:g}; give 1, sets are of liked items")
        require_whole_parameter(query, PADDED, asked(query))
        require_whole_parameter(query, CHOSEN, self.named(query))

    def named(self, query: Query) -> int:
        """Return the values that are no dummies: items that are asked about."""
        return asked(query)

    def own(self, query: Query) -> int:
        """Return the values of every device's set."""
        return int(query.parameters[PADDED])

    def values(self, query: Query) -> int:
        """Return the number of values, dummies among them."""
        return self.named(query) + self.own(query)

    def questions(self, query: Query) -> range:
        """Return the parts of a subset."""
        parts, _ = subset_form(self.values(query), int(query.parameters[CHOSEN]))
        return range(parts, parts + 1)

    def answer_bits(self, query: Query) -> int:
        """Return the bits of each part."""
        return subset_form(self.values(query), int(query.parameters[CHOSEN]))[1]

    def channel(self, query: Query) -> SubsetChannel:
        """Return the channel of the subset as a whole."""
        chosen = int(query.parameters[CHOSEN])
        return subset_channel(query.epsilon, values=self.values(query), padded=self.own(query), chosen=chosen)


PUBLIC = (Set(),)
