"""MaxSense in public, and Multi-MaxSense: a bit for a sensing set, or for each set of a random partition."""

from coordinator.protocol.amplification import TwoLevels, one_bit_levels
from coordinator.protocol.channels import IndependentBits, flipped_bits
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import OneBit, PublicHalf, require_whole_parameter
from coordinator.protocol.sensing import sensing_of


class MaxSense(OneBit):
    """One bit, flipped (Banerjee et al., Figure 2); sets are drawn among the catalogue, or among a pool's items."""

    name = "maxsense"
    parameters = frozenset({"sensing"})
    pooled = None

    def check(self, query: Query) -> None:
        sensing_of(query)


def partition_size(items: int, set_size: int) -> int:
    """Return into how many sets of ``set_size`` items a partition cuts them; the last one may be smaller."""
    return -(-items // set_size)


class MultiMaxSense(PublicHalf):
    """Questions are sets, each bit under an equal share of epsilon."""

    name = "multi-maxsense"
    parameters = frozenset({"set_size"})
    by_address = True

    def check(self, query: Query) -> None:
        require_whole_parameter(query, "set_size", query.items)

    def questions(self, query: Query) -> range:
        return range(1, partition_size(query.items, int(query.parameters["set_size"])) + 1)

    def channel(self, query: Query) -> IndependentBits:
        return flipped_bits(query.questions, query.epsilon_per_question)

    def levels(self, query: Query) -> TwoLevels | None:
        """Return the levels of one set's bit; the chances of several bits have more than two."""
        return one_bit_levels() if query.own_questions and query.questions == 1 else None


PUBLIC = (MaxSense(), MultiMaxSense())
