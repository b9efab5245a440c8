"""The paper's two-tier mechanisms in public: PMC with its randomized form, and PMD."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coordinator.protocol.channels import BitChannel, bit_channel
from coordinator.protocol.checked import require_range
from coordinator.protocol.second_order_mechanisms import (
    A_BIT,
    ELEMENT,
    LARGEST_RELEASED,
    QueryView,
    SecondOrderPublic,
    Signs,
    packed_size,
)

if TYPE_CHECKING:
    from coordinator.protocol.arrays import Floats
    from coordinator.protocol.features import ItemFeatures


OWN_H = "none: a device's own h in full precision tells its ratings to whoever can try them out"


class Pmc(Signs):
    """The sign vector or its opposite, each sign of the size h: common h, or the device's own, float64, after them."""

    name = "pmc"
    order = 20
    guarantee = ELEMENT
    releases_own_h: ClassVar[bool] = True

    def promised(self, query: QueryView) -> str:
        """Return the promise; there is none where the device releases its own h."""
        return OWN_H if query.own_h else self.guarantee

    def size(self, features: ItemFeatures, query: QueryView) -> int:
        return packed_size(features) + 8 * query.own_h

    def check(self, payload: bytes, features: ItemFeatures, query: QueryView) -> None:
        if query.own_h:
            heights = np.frombuffer(payload[packed_size(features) :], "<f8")
            require_range("the device's own h", heights, 0, LARGEST_RELEASED)

    def height(self, payload: bytes, features: ItemFeatures, query: QueryView) -> float:
        return float(np.frombuffer(payload[-8:], "<f8")[0]) if query.own_h else features.common_h


class PmcRr(Pmc):
    """PMC with every sign flipped now and then."""

    name = "pmc-rr"
    order = 30
    guarantee = f"{ELEMENT}; each bit flipped as under epsilon a bit, m times that for all bits"
    takes_epsilon = True
    epsilon_of = A_BIT

    def channel(self, query: QueryView, features: ItemFeatures) -> BitChannel:
        return bit_channel(query.epsilon)


class Pmd(SecondOrderPublic):
    """One of K candidate vectors that together are uniform at every item."""

    name = "pmd"
    order = 10
    guarantee = ELEMENT
    needs_scale: ClassVar[bool] = True

    def size(self, features: ItemFeatures, query: QueryView) -> int:
        return features.items

    def check(self, payload: bytes, features: ItemFeatures, query: QueryView) -> None:
        require_range("places in the scale", np.frombuffer(payload, np.uint8), 0, len(features.scale or ()) - 1)

    def row(self, payload: bytes, features: ItemFeatures, query: QueryView, *, rescale: bool) -> Floats:
        """Return the ratings less the items' means, at public users' energy; without ``rescale`` the paper's x - mu."""
        levels = np.array(features.scale, np.float64)
        row: Floats = levels[np.frombuffer(payload, np.uint8)] - features.mean
        return row * pmd_factors(features) if rescale else row


def pmd_factors(features: ItemFeatures) -> Floats:
    """Return what brings PMD's coordinates to public energy: common h over ``(E (x - mu)^2)^(1/2)``, x uniform on S."""
    scale = np.array(features.scale, np.float64)
    energy = scale.var() + np.square(scale.mean() - features.mean)
    factors: Floats = features.common_h / np.sqrt(energy)
    return factors


PUBLIC = (Pmc(), PmcRr(), Pmd())
