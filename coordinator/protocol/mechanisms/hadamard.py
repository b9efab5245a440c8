"""Hadamard response in public: a device names its value's signs in a few public rows of the Hadamard matrix."""

from __future__ import annotations

from coordinator.protocol.channels import KaryChannel, kary_channel
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import OneItem
from coordinator.protocol.public_half import require_whole_parameter

ROWS = "rows"
"""Parameter of every query: rows t."""
MOST_ROWS = 10
"""Rows at most: the server adds up 2^t - 1 products of them for every device."""


class Hadamard(OneItem):
    """The t signs are released among all 2^t that they can be; see `coordinator.protocol.hadamard`."""

    name = "hadamard"
    parameters = OneItem.parameters | {ROWS}

    def check(self, query: Query) -> None:
        """Refuse a number of rows that is none, and what no oracle can be asked."""
        super().check(query)
        require_whole_parameter(query, ROWS, MOST_ROWS)

    def answer_bits(self, query: Query) -> int:
        """Return a bit a row."""
        return int(query.parameters[ROWS])

    def channel(self, query: Query) -> KaryChannel:
        """Return k-ary randomized response on the signs together."""
        return kary_channel(query.epsilon, values=1 << int(query.parameters[ROWS]))


PUBLIC = (Hadamard(),)
