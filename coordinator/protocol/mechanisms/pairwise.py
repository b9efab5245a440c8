"""Pairwise-Preference in public: whether a device agrees about a public pair of items (Banerjee et al., Figure 1)."""

from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import AGREEMENTS, OF_RATED
from coordinator.protocol.public_half import OneBit


class Pairwise(OneBit):
    """The pair is drawn among all items."""

    def __init__(self, agreement: str, suffix: str = "") -> None:
        self.name = f"pairwise-{agreement}{suffix}"

    def check(self, query: Query) -> None:
        if query.items < 2:
            raise InputError(f"{query} asks about pairs, the catalogue has {query.items} item")


class PairwiseOfRated(Pairwise):
    """The pair is drawn among the items that the device rated, and the release names it."""

    promise = "epsilon-local differential privacy of how a device rated its items; which items it rated is public"
    names_rated = True


PUBLIC = (*(Pairwise(name) for name in AGREEMENTS), *(PairwiseOfRated(name, OF_RATED) for name in AGREEMENTS))
