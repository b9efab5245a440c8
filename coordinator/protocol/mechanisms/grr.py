"""k-ary randomized response in public: a device names its value, or, less often, another one."""

from __future__ import annotations

from coordinator.protocol.channels import KaryChannel, kary_channel
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import OneItem, values_of


class Grr(OneItem):
    """The value is released among all K of them."""

    name = "grr"

    def answer_bits(self, query: Query) -> int:
        """Return the bits that name a value."""
        return (values_of(query) - 1).bit_length()

    def channel(self, query: Query) -> KaryChannel:
        """Return k-ary randomized response on the value."""
        return kary_channel(query.epsilon, values=values_of(query))


PUBLIC = (Grr(),)
