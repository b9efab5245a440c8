"""Pairwise-Preference's statistic: for every pair of items, how many devices were asked and how many agreed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query, Release
from coordinator.server.statistics.statistic import Statistic, device_counts

OF_RATED = "-of-rated"
"""Ends the name of designs whose pairs are among a device's public rated items."""
MOST_PAIRED_ITEMS = 5000
"""The statistic holds two numbers a pair: 200 MB at this many items."""


@dataclass(frozen=True, kw_only=True)
class PairStatistic(Statistic):
    """Sums over the devices that answered; sums of two blocks add up to that of both."""

    counts: ClassVar[tuple[str, ...]] = ("pairs", "agreed")

    pairs: Ints  # shape (N, N); Upper triangle: answering devices that were asked about the pair
    agreed: Ints  # shape (N, N); Upper triangle: those of them whose bit was 1

    @cached_property
    def ones(self) -> int:
        """``sum_u S_u``."""
        return int(self.agreed.sum())

    def affinity(self, centre: float) -> Floats:
        """Return ``A``: the symmetric matrix of ``sum_u (S_u - centre)`` over the devices asked about each pair."""
        upper = self.agreed - centre * self.pairs
        matrix: Floats = upper + upper.T
        return matrix


def aggregate_pairs(query: Query, release: Release) -> PairStatistic:
    """Return the statistic of one block's release; see `coordinator.server.statistics.scores.aggregate_scores`."""
    from coordinator.protocol.coins import round_key  # noqa: PLC0415 (compiled)
    from coordinator.protocol.public_draws import pairs_among  # noqa: PLC0415 (compiled)

    release.require(query)
    check_items(query.items)
    public = release.public_pairs()
    if (public is not None) != query.design.endswith(OF_RATED) and release.count:
        needed = "lacks the public pairs" if public is None else "brings public pairs, which are not those"
        raise InputError(f"release of device {release.first} on {needed} that {query} is about")
    if public is None:
        key = round_key(query.public_seed, query.round)
        low, high = pairs_among(key, release.first, np.full(release.count, query.items)).T
    else:
        low, high = public[:, 0], public[:, 1]
        heard = release.answered_mask()
        if not ((low[heard] >= 0) & (low[heard] < high[heard]) & (high[heard] < query.items)).all():
            raise InputError(f"release of device {release.first} on names pairs that are none of {query.items} items")
    place = low.astype(np.int64) * query.items + high
    answered, bits = release.answered_mask(), release.unpacked()[:, 0] & release.answered_mask() == 1
    cells, shape = query.items**2, (query.items, query.items)
    return PairStatistic(
        pairs=np.bincount(place[answered], minlength=cells).reshape(shape),
        agreed=np.bincount(place[bits], minlength=cells).reshape(shape),
        **device_counts(release),
    )


def check_items(items: int) -> None:
    """Refuse a catalogue whose pairs do not fit into memory, or that has none."""
    if not 2 <= items <= MOST_PAIRED_ITEMS:
        raise InputError(
            f"items is {items}; pairwise needs at least 2, and at most {MOST_PAIRED_ITEMS} to hold all pairs"
        )
