"""Sign sensing in public: a device names one of the signed sign vectors that suit its ratings best."""

from __future__ import annotations

from coordinator.protocol.channels import ChoiceChannel, choice_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.public_draws import MOST_VECTORS, answer_bits
from coordinator.protocol.public_half import PublicHalf


class Sign(PublicHalf):
    """Signs are those of a pool's items; ratings may be counted from centres."""

    name = "sign"
    parameters = frozenset({"vectors", "kept"})
    pooled = True
    centred = True

    def check(self, query: Query) -> None:
        """Refuse a number of sign vectors, and of the best among them, that is none."""
        vectors, best_count = query.parameters["vectors"], query.parameters["kept"]
        if vectors not in {1 << power for power in range(MOST_VECTORS.bit_length())}:
            raise InputError(f"{query} has {vectors:g} sign vectors; give a power of two, 1 to {MOST_VECTORS}")
        if not (1 <= best_count <= vectors and float(best_count).is_integer()):
            raise InputError(f"{query} keeps {best_count:g} signed vectors; give a whole number, 1 to {vectors:g}")

    def answer_bits(self, query: Query) -> int:
        """Return the bits that name a signed vector."""
        return answer_bits(int(query.parameters["vectors"]))

    def channel(self, query: Query) -> ChoiceChannel:
        """Return the choice among the signed vectors."""
        vectors, best_count = int(query.parameters["vectors"]), int(query.parameters["kept"])
        return choice_channel(query.epsilon, choices=2 * vectors, best_count=best_count)


PUBLIC = (Sign(),)
