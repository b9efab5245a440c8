"""Optimal local hashing: a device names the bucket of its random item under a public hash of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import COIN, kary_channel, odds_within
from coordinator.protocol.coins import round_key
from coordinator.protocol.mechanisms.olh import BUCKETS, MOST_BUCKETS
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.one_item import values_of
from coordinator.server.frequency import FrequencyDesign, FrequencyHalf

if TYPE_CHECKING:
    from coordinator.server.decoding.frequencies import Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Olh(FrequencyDesign):
    """A report speaks for the values of its bucket. Source: Wang, Blocki, Li and Jha (2017)."""

    name: ClassVar[str] = "olh"

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the number of buckets with the least noise, ``e^eps + 1`` rounded, at most `MOST_BUCKETS`."""
        return {BUCKETS: MOST_BUCKETS if epsilon is None else min(round(odds_within(epsilon) + 1), MOST_BUCKETS)}

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return ``p = e^eps / (e^eps + g - 1)``, as the channel has it, and ``q = 1 / g``."""
        from coordinator.server.decoding.frequencies import Rates

        buckets = int(query.parameters[BUCKETS])
        return Rates(kary_channel(query.epsilon, values=buckets).own / COIN, 1 / buckets)


class OlhHalf(FrequencyHalf):
    """Local hashing on the server."""

    name = "olh"
    title = "local hashing"
    asking = Olh

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices told the bucket of each value, hashing all values as each of them does."""
        from coordinator.protocol.local_hash import count_supports
        from coordinator.protocol.streams import device_streams
        from coordinator.server.statistics.frequencies import reported

        buckets, answered = int(query.parameters[BUCKETS]), release.answered_mask()
        told = reported(query, release, buckets)[answered]
        streams = device_streams(round_key(query.public_seed, query.round), release.first, release.count)[answered]
        counts = np.zeros(values_of(query), np.int64)
        count_supports(streams, told, buckets, counts)
        return counts


SERVER = (OlhHalf(),)
