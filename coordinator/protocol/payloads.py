"""The two common formats of a second-order release: a sign an item, or a number an item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.checked import require_range
from coordinator.protocol.second_order_public import LARGEST_TOLD, Asked, SecondOrderPublic

if TYPE_CHECKING:
    from coordinator.protocol.arrays import Floats
    from coordinator.protocol.features import ItemFeatures


class Signs(SecondOrderPublic):
    """Releases of m signs, packed, 1 for plus, most significant bit first; what follows them is the mechanism's own."""

    def size(self, features: ItemFeatures, query: Asked) -> int:  # noqa: ARG002 (others look at it)
        """Return the bytes of a release."""
        return packed_size(features)

    def row(self, payload: bytes, features: ItemFeatures, query: Asked, *, rescale: bool) -> Floats:  # noqa: ARG002 (signs have one energy)
        """Return the signs, each as large as `height` says."""
        bits = np.unpackbits(np.frombuffer(payload, np.uint8), count=features.items)
        signs: Floats = bits.astype(np.float64) * 2.0 - 1.0
        return signs * self.height(payload, features, query)

    def height(self, payload: bytes, features: ItemFeatures, query: Asked) -> float:
        """Return the absolute value that every sign stands for."""
        raise NotImplementedError


class Numbers(SecondOrderPublic):
    """Releases of m numbers in the scale of the ratings, little-endian float64."""

    def size(self, features: ItemFeatures, query: Asked) -> int:  # noqa: ARG002 (others look at it)
        """Return the bytes of a release."""
        return 8 * features.items

    def check(self, payload: bytes, features: ItemFeatures, query: Asked) -> None:  # noqa: ARG002 (bounds are all models')
        """Refuse numbers that are none, or huge."""
        require_range(f"numbers of {self.name}", np.frombuffer(payload, "<f8"), -LARGEST_TOLD, LARGEST_TOLD)

    def row(self, payload: bytes, features: ItemFeatures, query: Asked, *, rescale: bool) -> Floats:  # noqa: ARG002 (numbers stand for themselves)
        """Return the numbers less the items' means."""
        told: Floats = np.frombuffer(payload, "<f8") - features.mean
        return told


def packed_size(features: ItemFeatures) -> int:
    """Return the bytes of a sign an item."""
    return -(-features.items // 8)
