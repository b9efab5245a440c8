"""Optimized unary encoding: a bit for every value, each flipped; one of them is the device's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coordinator.protocol.arrays import Ints
from coordinator.protocol.channels import unary_channel
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.one_item import values_of
from coordinator.server.frequency import FrequencyDesign, FrequencyHalf

if TYPE_CHECKING:
    from coordinator.server.decoding.frequencies import Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Oue(FrequencyDesign):
    """A report speaks for the values whose bits are 1. Source: Wang, Blocki, Li and Jha (2017), section 4.2."""

    name: ClassVar[str] = "oue"

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return ``p = 1/2`` and ``q = 1 / (e^eps + 1)``, as the channel has them."""
        from coordinator.server.decoding.frequencies import Rates

        own, other = unary_channel(query.epsilon, values=values_of(query)).rates
        return Rates(float(own), float(other))


class OueHalf(FrequencyHalf):
    """Optimized unary encoding on the server."""

    name = "oue"
    title = "unary encoding"
    asking = Oue

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices have a 1 for each value."""
        from coordinator.server.statistics.columns import column_counts

        release.require(query)
        return column_counts(release)


SERVER = (OueHalf(),)
