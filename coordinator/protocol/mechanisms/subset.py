"""Subset selection in public: a device names several values, and its own among them more often than not."""

from __future__ import annotations

from coordinator.protocol.channels import SubsetChannel, subset_channel
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import OneItem, values_of
from coordinator.protocol.public_half import require_whole_parameter
from coordinator.protocol.subset_form import CHOSEN, subset_form


class Subset(OneItem):
    """Questions are the values of a subset, by their numbers; or all values, a bit each, where that is shorter."""

    name = "subset"
    parameters = OneItem.parameters | {CHOSEN}

    def check(self, query: Query) -> None:
        """Refuse a subset that is none, or holds every value."""
        super().check(query)
        require_whole_parameter(query, CHOSEN, values_of(query) - 1)

    def questions(self, query: Query) -> range:
        """Return the parts of a subset."""
        parts, _ = subset_form(values_of(query), int(query.parameters[CHOSEN]))
        return range(parts, parts + 1)

    def answer_bits(self, query: Query) -> int:
        """Return the bits of each part."""
        return subset_form(values_of(query), int(query.parameters[CHOSEN]))[1]

    def channel(self, query: Query) -> SubsetChannel:
        """Return the channel of the subset as a whole."""
        return subset_channel(query.epsilon, values=values_of(query), padded=1, chosen=int(query.parameters[CHOSEN]))


PUBLIC = (Subset(),)
