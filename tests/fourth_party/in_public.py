"""Unary encoding in public: a bit for each item and each rating of it, one of them 1 at most (Wang et al., 2017)."""

import math
from functools import lru_cache

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import COIN, IndependentBits, independent_bits
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf


@lru_cache
def channel(count: int, epsilon: Epsilon) -> IndependentBits:
    """Return the channel of so many bits: a 1 is told by a fair coin, a 0 becomes 1 once in ``e**epsilon + 1``."""
    if epsilon is None:
        return IndependentBits(count, COIN, 0, 1)
    zero = 1 / (math.exp(as_float(epsilon)) + 1)
    return independent_bits(count=count, if_one=1 / 2, if_zero=zero, epsilon=epsilon, ones=1)


class Unary(PublicHalf):
    """A bit for each of an item's two ratings."""

    name = "unary"

    def questions(self, query: Query) -> range:
        """Return the number of bits: two an item."""
        return range(2 * query.items, 2 * query.items + 1)

    def channel(self, query: Query) -> IndependentBits:
        """Return the channel of all bits together."""
        return channel(query.questions, query.epsilon)


PUBLIC = (Unary(),)
