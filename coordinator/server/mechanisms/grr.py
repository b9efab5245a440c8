"""k-ary randomized response: a device names its random item, or, less often, another value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coordinator.protocol.arrays import Ints
from coordinator.protocol.channels import COIN, kary_channel
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.one_item import values_of
from coordinator.server.frequency import FrequencyDesign, FrequencyHalf

if TYPE_CHECKING:
    from coordinator.server.decoding.frequencies import Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Grr(FrequencyDesign):
    """A report speaks for the value that it names. Source: Kairouz, Bonawitz and Ramage (2016)."""

    name: ClassVar[str] = "grr"

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return ``p = e^eps / (e^eps + K - 1)`` and ``q = 1 / (e^eps + K - 1)``, as the channel has them."""
        from coordinator.server.decoding.frequencies import Rates

        channel = kary_channel(query.epsilon, values=values_of(query))
        return Rates(channel.own / COIN, channel.other / COIN, both=0.0)


class GrrHalf(FrequencyHalf):
    """k-ary randomized response on the server."""

    name = "grr"
    title = "k-ary randomized response"
    asking = Grr

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices named each value."""
        from coordinator.server.statistics.frequencies import reported

        values = values_of(query)
        named = reported(query, release, values)[release.answered_mask()]
        return np.bincount(named, minlength=values).astype(np.int64)


SERVER = (GrrHalf(),)
