"""PMD, in public: m places in the scale S, uint8.

Source: Xin and Jaakkola (2014), section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coordinator.protocol.checked import require_range
from coordinator.protocol.second_order_public import ELEMENT, Asked, SecondOrderPublic

if TYPE_CHECKING:
    from coordinator.protocol.arrays import Floats
    from coordinator.protocol.features import ItemFeatures


class Pmd(SecondOrderPublic):
    """One of K candidate vectors that together are uniform at every item."""

    name = "pmd"
    order = 10
    promise = ELEMENT
    needs_scale: ClassVar[bool] = True

    def size(self, features: ItemFeatures, query: Asked) -> int:  # noqa: ARG002 (a byte an item)
        """Return the bytes of a release."""
        return features.items

    def check(self, payload: bytes, features: ItemFeatures, query: Asked) -> None:  # noqa: ARG002 (places are all queries')
        """Refuse places that the scale does not have."""
        require_range("places in the scale", np.frombuffer(payload, np.uint8), 0, len(features.scale or ()) - 1)

    def row(self, payload: bytes, features: ItemFeatures, query: Asked, *, rescale: bool) -> Floats:  # noqa: ARG002 (likewise)
        """Return the ratings less the items' means, at public users' energy; without ``rescale`` the paper's x - mu."""
        levels = np.array(features.scale, np.float64)
        row: Floats = levels[np.frombuffer(payload, np.uint8)] - features.mean
        return row * pmd_factors(features) if rescale else row


def pmd_factors(features: ItemFeatures) -> Floats:
    """Return what brings PMD's coordinates to public energy: common h over ``(E (x - mu)^2)^(1/2)``, x uniform on S.

    Returns
    -------
    ndarray of float64, shape (m,)
    """
    scale = np.array(features.scale, np.float64)
    energy = scale.var() + np.square(scale.mean() - features.mean)
    factors: Floats = features.common_h / np.sqrt(energy)
    return factors


PUBLIC = (Pmd(),)
