"""PrivUnit, in public: ``2 v`` for the device's public candidate v, ``2 v + 1`` for its opposite, little-endian uint16.

Over the channel's length the named vector is an unbiased estimate of the ``r (r + 1) / 2`` numbers of `pack_moment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from coordinator.protocol.checked import require_whole
from coordinator.protocol.directions import unpack_moment
from coordinator.protocol.second_order_public import WHOLE, Asked, SecondOrderPublic

if TYPE_CHECKING:
    from coordinator.protocol.arrays import Floats2
    from coordinator.protocol.budget import Epsilon
    from coordinator.protocol.caps import CapChannel
    from coordinator.protocol.features import ItemFeatures


class PrivUnit(SecondOrderPublic):
    """Which of 2 m public unit vectors is near the second moment of the vector's direction."""

    name = "privunit"
    order = 60
    promise = WHOLE
    takes_epsilon = True
    moment: ClassVar[bool] = True

    def size(self, features: ItemFeatures, query: Asked) -> int:  # noqa: ARG002 (one answer)
        """Return the bytes of a release."""
        return 2

    def check(self, payload: bytes, features: ItemFeatures, query: Asked) -> None:
        """Refuse a candidate that there is not."""
        choices = self.channel(query, features).choice.choices
        require_whole("answer that names a candidate", int.from_bytes(payload, "little"), 0, choices - 1)

    def told_moment(self, payload: bytes, device: int, features: ItemFeatures, query: Asked) -> Floats2:
        """Return the unbiased estimate that a named candidate stands for."""
        from coordinator.protocol.candidates import candidate  # noqa: PLC0415 (settings load nothing compiled)

        channel, answer = self.channel(query, features), int.from_bytes(payload, "little")
        told = candidate(query.id, device, answer // 2, channel.dimension) / channel.length
        return unpack_moment(-told if answer % 2 else told, features.rank)

    def channel(self, query: Asked, features: ItemFeatures) -> CapChannel:
        """Return the channel of the whole release."""
        return channel_of(features, query.epsilon)


def channel_of(features: ItemFeatures, epsilon: Epsilon) -> CapChannel:
    """Return the channel of an r x r moment: ``r (r + 1) / 2`` dimensions."""
    from coordinator.protocol.caps import cap_channel  # noqa: PLC0415 (settings load no scipy)

    return cap_channel(epsilon, features.moments)


PUBLIC = (PrivUnit(),)
