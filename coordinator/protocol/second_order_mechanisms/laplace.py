"""Laplace noise on every coordinate, in public: m numbers on a grid of the range of ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from coordinator.protocol import grid_noise
from coordinator.protocol.payloads import Numbers
from coordinator.protocol.second_order_public import A_COORDINATE, Asked

if TYPE_CHECKING:
    from coordinator.protocol.features import ItemFeatures


class Laplace(Numbers):
    """The completed vector with noise; every coordinate goes through `coordinator.protocol.grid_noise`."""

    name = "laplace"
    order = 40
    promise = "epsilon for one coordinate of the completed vector, m times epsilon for the whole; none a rating"
    takes_epsilon = True
    epsilon_of = A_COORDINATE
    smallest = grid_noise.SMALLEST_EPSILON
    largest = grid_noise.LARGEST_EPSILON
    needs_range: ClassVar[bool] = True

    def channel(self, query: Asked, features: ItemFeatures) -> grid_noise.GridLaplace:  # noqa: ARG002 (a coordinate is one in all models)
        """Return the channel of one coordinate."""
        return grid_noise.grid_laplace(query.epsilon)


PUBLIC = (Laplace(),)
