"""Frequency oracles in public: k-ary, unary, hashed, Hadamard and subset reports of one private value, a random item.

Of M items that are asked about, by their places in the pool: a device that reports what it liked has the value j if the
j-th item is a random one of those that it liked, and M if it liked none. One that reports what it rated has j if the
random item was liked, M + j if it was disliked, and 2 M if it rated none.
"""

from coordinator.protocol import amplification
from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import UnaryChannel, unary_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import SIDES, pool_size, sides
from coordinator.protocol.public_half import PublicHalf, require_whole_parameter
from coordinator.protocol.value_channels import (
    CHOSEN,
    KaryChannel,
    SubsetChannel,
    kary_channel,
    subset_channel,
    subset_form,
)


def values_of(query: Query) -> int:
    """Return the number of private values K, "none" among them."""
    return sides(query) * pool_size(query) + 1


def columns(query: Query) -> int:
    """Return the smallest power of two that is not below the number of private values: columns of a Hadamard matrix."""
    return 1 << (values_of(query) - 1).bit_length()


class OneItem(PublicHalf):
    """A query about one random item a device; what is released of it is the oracle's own affair."""

    parameters = frozenset({SIDES})
    pooled = None

    def check(self, query: Query) -> None:
        if query.parameters[SIDES] not in (1, 2):
            raise InputError(f"{query} has {SIDES} {query.parameters[SIDES]:g}; give 1, or 2 where dislikes count")


class Grr(OneItem):
    """The value is released among all K of them."""

    name = "grr"

    def answer_bits(self, query: Query) -> int:
        return (values_of(query) - 1).bit_length()

    def channel(self, query: Query) -> KaryChannel:
        return kary_channel(query.epsilon, values=values_of(query))

    def levels(self, query: Query) -> amplification.TwoLevels:
        return amplification.kary_levels(values_of(query))


class Oue(OneItem):
    """Questions are values: each is answered by one bit, all of them together under epsilon."""

    name = "oue"

    def questions(self, query: Query) -> range:
        return range(values_of(query), values_of(query) + 1)

    def channel(self, query: Query) -> UnaryChannel:
        return unary_channel(query.epsilon, values=values_of(query))

    def levels(self, query: Query) -> amplification.TwoLevels:
        return amplification.unary_levels(as_float(query.epsilon))


BUCKETS = "buckets"  # Parameter of every query: buckets g
MOST_BUCKETS = 1 << 10  # Buckets at most


class Olh(OneItem):
    """The bucket is released among all g of them; see `public_draws`."""

    name = "olh"
    parameters = OneItem.parameters | {BUCKETS}
    by_address = True

    def check(self, query: Query) -> None:
        super().check(query)
        if require_whole_parameter(query, BUCKETS, MOST_BUCKETS) < 2:
            raise InputError(f"{query} has 1 bucket, which reveals nothing; give 2 to {MOST_BUCKETS}")

    def answer_bits(self, query: Query) -> int:
        return (int(query.parameters[BUCKETS]) - 1).bit_length()

    def channel(self, query: Query) -> KaryChannel:
        return kary_channel(query.epsilon, values=int(query.parameters[BUCKETS]))

    def levels(self, query: Query) -> amplification.TwoLevels | None:
        return amplification.hash_levels(int(query.parameters[BUCKETS])) if query.own_questions else None


ROWS = "rows"  # Parameter of every query: rows t
MOST_ROWS = 10  # Rows at most: the server adds up 2^t - 1 products of them for every device


class Hadamard(OneItem):
    """The t signs are released among all 2^t that they can be; see `public_draws`."""

    name = "hadamard"
    parameters = OneItem.parameters | {ROWS}
    by_address = True

    def check(self, query: Query) -> None:
        super().check(query)
        require_whole_parameter(query, ROWS, MOST_ROWS)

    def answer_bits(self, query: Query) -> int:
        return int(query.parameters[ROWS])

    def channel(self, query: Query) -> KaryChannel:
        return kary_channel(query.epsilon, values=1 << int(query.parameters[ROWS]))

    def levels(self, query: Query) -> amplification.TwoLevels | None:
        return amplification.hadamard_levels(int(query.parameters[ROWS])) if query.own_questions else None


class Subset(OneItem):
    """Questions are the values of a subset, by their numbers; or all values, a bit each, where that is shorter."""

    name = "subset"
    parameters = OneItem.parameters | {CHOSEN}

    def check(self, query: Query) -> None:
        super().check(query)
        require_whole_parameter(query, CHOSEN, values_of(query) - 1)

    def own(self, query: Query) -> int:
        """Return the values of every device's set."""
        return 1

    def values(self, query: Query) -> int:
        """Return the number of values, dummies among them."""
        return values_of(query)

    def questions(self, query: Query) -> range:
        parts, _ = subset_form(self.values(query), int(query.parameters[CHOSEN]))
        return range(parts, parts + 1)

    def answer_bits(self, query: Query) -> int:
        return subset_form(self.values(query), int(query.parameters[CHOSEN]))[1]

    def channel(self, query: Query) -> SubsetChannel:
        subset_size = int(query.parameters[CHOSEN])
        return subset_channel(query.epsilon, values=self.values(query), padded=self.own(query), subset_size=subset_size)

    def levels(self, query: Query) -> amplification.TwoLevels:
        return amplification.subset_levels(self.values(query), self.own(query), int(query.parameters[CHOSEN]))


PUBLIC = (Grr(), Oue(), Olh(), Hadamard(), Subset())
