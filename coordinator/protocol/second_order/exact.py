"""Exact releases: the completed vector itself, which is not private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.protocol.arrays import Bits2, Floats2, Ints
from coordinator.protocol.checked import require_range
from coordinator.protocol.second_order import (
    HALF,
    LARGEST_RELEASED,
    Coins,
    SecondOrderMechanism,
    SecondOrderQuery,
    as_bytes,
    as_numbers,
)

if TYPE_CHECKING:
    from coordinator.protocol.features import ItemFeatures


class Numbers(SecondOrderMechanism):
    """Releases of m numbers in the scale of the ratings, little-endian float64."""

    def size(self, query: SecondOrderQuery, features: ItemFeatures) -> int:
        return 8 * features.items

    def check(self, payloads: Bits2, query: SecondOrderQuery, features: ItemFeatures) -> None:
        """Refuse numbers that are none, or huge."""
        require_range(f"numbers of {self.name}", as_numbers(payloads), -LARGEST_RELEASED, LARGEST_RELEASED)

    def rows(self, payloads: Bits2, devices: Ints, query: SecondOrderQuery, features: ItemFeatures) -> Floats2:
        """Return the numbers less the items' means."""
        return as_numbers(payloads) - features.mean


class Exact(Numbers):
    """The completed vector r, m numbers."""

    name, order = "exact", 70
    guarantee = "none: the completed vector itself is released"
    private = False
    weight = HALF
    swept, attacked = ("",), ()

    def randomize(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> Bits2:
        return as_bytes(vectors + features.mean)


MECHANISMS = (Exact(),)
