"""Optimized unary encoding in public: a bit for every value, each flipped; one of them is the device's own."""

from __future__ import annotations

from coordinator.protocol.channels import UnaryChannel, unary_channel
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import OneItem, values_of


class Oue(OneItem):
    """Questions are values: each is answered by one bit, all of them together under epsilon."""

    name = "oue"

    def questions(self, query: Query) -> range:
        """Return one for each value."""
        return range(values_of(query), values_of(query) + 1)

    def channel(self, query: Query) -> UnaryChannel:
        """Return the channel of all bits together."""
        return unary_channel(query.epsilon, values=values_of(query))


PUBLIC = (Oue(),)
