"""Multi-MaxSense in public: a bit for each of some sets of a random partition (Banerjee et al., Figure 3)."""

from __future__ import annotations

from coordinator.protocol.channels import IndependentBits, flipped_bits
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf, require_whole_parameter


def partition_size(items: int, set_size: int) -> int:
    """Return into how many sets of ``set_size`` items a partition cuts them; the last one may be smaller."""
    return -(-items // set_size)


class MultiMaxSense(PublicHalf):
    """Questions are sets, each bit under an equal share of epsilon."""

    name = "multi-maxsense"
    parameters = frozenset({"set_size"})

    def check(self, query: Query) -> None:
        """Refuse a size of sets that is none."""
        require_whole_parameter(query, "set_size", query.items)

    def questions(self, query: Query) -> range:
        """Return 1 to the number of sets."""
        return range(1, partition_size(query.items, int(query.parameters["set_size"])) + 1)

    def channel(self, query: Query) -> IndependentBits:
        """Return the flips of all bits."""
        return flipped_bits(query.questions, query.epsilon_per_question)


PUBLIC = (MultiMaxSense(),)
