"""Local hashing in public: a device's public hash puts its value into a bucket, and that is what it names."""

from __future__ import annotations

from coordinator.protocol.channels import KaryChannel, kary_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import OneItem
from coordinator.protocol.public_half import require_whole_parameter

BUCKETS = "buckets"
"""Parameter of every query: buckets g."""
MOST_BUCKETS = 1 << 10
"""Buckets at most."""


class Olh(OneItem):
    """The bucket is released among all g of them; see `coordinator.protocol.local_hash`."""

    name = "olh"
    parameters = OneItem.parameters | {BUCKETS}

    def check(self, query: Query) -> None:
        """Refuse a number of buckets that is none, and what no oracle can be asked."""
        super().check(query)
        if require_whole_parameter(query, BUCKETS, MOST_BUCKETS) < 2:
            raise InputError(f"{query} has 1 bucket, which tells nothing; give 2 to {MOST_BUCKETS}")

    def answer_bits(self, query: Query) -> int:
        """Return the bits that name a bucket."""
        return (int(query.parameters[BUCKETS]) - 1).bit_length()

    def channel(self, query: Query) -> KaryChannel:
        """Return k-ary randomized response on the bucket."""
        return kary_channel(query.epsilon, values=int(query.parameters[BUCKETS]))


PUBLIC = (Olh(),)
