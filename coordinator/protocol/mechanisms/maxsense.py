"""MaxSense in public: one bit, whether a device liked some item of its public sensing set."""

from __future__ import annotations

from coordinator.protocol.channels import IndependentBits, flipped_bits
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf
from coordinator.protocol.sensing import sensing_of


class MaxSense(PublicHalf):
    """One bit, flipped (Banerjee et al., Figure 2); sets are drawn among the catalogue, or among a pool's items."""

    name = "maxsense"
    parameters = frozenset({"sensing"})
    pooled = None

    def check(self, query: Query) -> None:
        """Refuse a sensing probability that is none."""
        sensing_of(query)

    def channel(self, query: Query) -> IndependentBits:
        """Return the flip of the one bit."""
        return flipped_bits(1, query.epsilon)


PUBLIC = (MaxSense(),)
