"""Two-tier rivals in public: exact vectors, Laplace noise, PrivUnit and SSLP."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from coordinator.protocol import second_order_channels
from coordinator.protocol.budget import REPLACE, Epsilon, as_float
from coordinator.protocol.channels import BitChannel, bit_channel
from coordinator.protocol.checked import require_whole
from coordinator.protocol.public_draws import candidate
from coordinator.protocol.second_order_channels import unpack_moment
from coordinator.protocol.second_order_mechanisms import (
    A_COORDINATE,
    WHOLE,
    Numbers,
    QueryView,
    SecondOrderPublic,
    Signs,
)

if TYPE_CHECKING:
    from coordinator.protocol.arrays import Floats2
    from coordinator.protocol.features import ItemFeatures
    from coordinator.protocol.second_order_channels import CapChannel


class Exact(Numbers):
    """The completed vector r, m numbers."""

    name = "exact"
    order = 70
    guarantee = "none: the completed vector itself is released"
    private: ClassVar[bool] = False


class Laplace(Numbers):
    """The completed vector with noise on every coordinate; see `second_order_channels.grid_laplace`."""

    name = "laplace"
    order = 40
    guarantee = "epsilon for one coordinate of the completed vector, m times epsilon for the whole; none a rating"
    neighbours: ClassVar[str | None] = REPLACE
    takes_epsilon = True
    epsilon_of = A_COORDINATE
    smallest = second_order_channels.SMALLEST_GRID_EPSILON
    largest = second_order_channels.LARGEST_GRID_EPSILON
    needs_range: ClassVar[bool] = True

    def channel(self, query: QueryView, features: ItemFeatures) -> second_order_channels.GridLaplace:
        return second_order_channels.grid_laplace(query.epsilon)


class PrivUnit(SecondOrderPublic):
    """Which of 2 m public unit vectors is near the second moment of the vector's direction."""

    name = "privunit"
    order = 60
    guarantee = WHOLE
    neighbours: ClassVar[str | None] = REPLACE
    takes_epsilon = True
    moment: ClassVar[bool] = True

    def size(self, features: ItemFeatures, query: QueryView) -> int:
        return 2

    def check(self, payload: bytes, features: ItemFeatures, query: QueryView) -> None:
        choices = self.channel(query, features).choice.choices
        require_whole("answer that names a candidate", int.from_bytes(payload, "little"), 0, choices - 1)

    def released_moment(self, payload: bytes, device: int, features: ItemFeatures, query: QueryView) -> Floats2:
        """Return the unbiased estimate that a named candidate stands for."""
        channel, answer = self.channel(query, features), int.from_bytes(payload, "little")
        direction = candidate(query.id, device, answer // 2, channel.dimension) / channel.length
        return unpack_moment(-direction if answer % 2 else direction, features.rank)

    def channel(self, query: QueryView, features: ItemFeatures) -> CapChannel:
        return channel_of(features, query.epsilon)


def channel_of(features: ItemFeatures, epsilon: Epsilon) -> CapChannel:
    """Return the channel of an r x r moment: ``r (r + 1) / 2`` dimensions."""
    from coordinator.protocol.second_order_channels import cap_channel  # noqa: PLC0415 (settings load no scipy)

    return cap_channel(epsilon, features.moments)


class Sslp(Signs):
    """A random corner on the side of the private vector, or on the other side; one randomized bit says which."""

    name = "sslp"
    order = 50
    guarantee = WHOLE
    neighbours: ClassVar[str | None] = REPLACE
    takes_epsilon = True
    needs_range: ClassVar[bool] = True

    def height(self, payload: bytes, features: ItemFeatures, query: QueryView) -> float:
        return sslp_bound(features, query.epsilon)

    def channel(self, query: QueryView, features: ItemFeatures) -> BitChannel:
        return bit_channel(query.epsilon)


def sslp_clip(features: ItemFeatures) -> float:
    """Return M, half the width of the range of ratings: SSLP clips residuals to ``[-M, M]``."""
    return (features.highest - features.lowest) / 2


def sslp_bound(features: ItemFeatures, epsilon: Epsilon) -> float:
    """Return B, the size of SSLP's coordinates that makes the release unbiased (Duchi, Jordan and Wainwright, 2013)."""
    # ``B = M (e^eps + 1) / (e^eps - 1) 2^(m - 1) / binom(m - 1, floor(m / 2))``, M of `sslp_clip`; what is estimated is
    # the clipped vector.
    count, middle = features.items, features.items // 2
    log_central = (count - 1) * math.log(2) - (
        math.lgamma(count) - math.lgamma(middle + 1) - math.lgamma(count - middle)
    )
    return sslp_clip(features) / math.tanh(as_float(epsilon) / 2) * math.exp(log_central)


PUBLIC = (Exact(), Laplace(), PrivUnit(), Sslp())
