"""SSLP, in public: a corner of the cube as m signs (Duchi, Jordan and Wainwright, 2013)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import BitChannel, bit_channel
from coordinator.protocol.payloads import Signs
from coordinator.protocol.second_order_public import WHOLE, Asked

if TYPE_CHECKING:
    from coordinator.protocol.features import ItemFeatures


class Sslp(Signs):
    """A random corner on the side of the private vector, or on the other side; which one goes through one bit."""

    name = "sslp"
    order = 50
    promise = WHOLE
    takes_epsilon = True
    needs_range: ClassVar[bool] = True

    def height(self, payload: bytes, features: ItemFeatures, query: Asked) -> float:  # noqa: ARG002 (public)
        """Return B of `sslp_bound`."""
        return sslp_bound(features, query.epsilon)

    def channel(self, query: Asked, features: ItemFeatures) -> BitChannel:  # noqa: ARG002 (a side is one in all models)
        """Return the channel of the side, which is the whole release's."""
        return bit_channel(query.epsilon)


def sslp_clip(features: ItemFeatures) -> float:
    """Return M, half the width of the range of ratings: SSLP clips residuals to ``[-M, M]``."""
    return (features.highest - features.lowest) / 2


def sslp_bound(features: ItemFeatures, epsilon: Epsilon) -> float:
    """Return B, the size of SSLP's coordinates that makes the release unbiased (Duchi, Jordan and Wainwright, 2013).

    ``B = M (e^eps + 1) / (e^eps - 1) 2^(m - 1) / binom(m - 1, floor(m / 2))``, M of `sslp_clip`; what is estimated is
    the clipped vector.
    """
    count, half = features.items, features.items // 2
    log_central = (count - 1) * math.log(2) - (math.lgamma(count) - math.lgamma(half + 1) - math.lgamma(count - half))
    return sslp_clip(features) / math.tanh(as_float(epsilon) / 2) * math.exp(log_central)


PUBLIC = (Sslp(),)
