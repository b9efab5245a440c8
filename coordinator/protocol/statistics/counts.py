"""Counts that add up: of reported values, of the answers of groups, and of agreements about pairs of items."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.pools import OF_RATED
from coordinator.protocol.public_draws import pairs_among, streams_of, values_of
from coordinator.protocol.statistics.statistic import Statistic, device_counts, no_answer


@dataclass(frozen=True, kw_only=True)
class CountStatistic(Statistic):
    """Sums over the devices that answered; see `Statistic`."""

    counts: ClassVar[tuple[str, ...]] = ("sums",)
    padded: ClassVar[tuple[str, ...]] = ("sums",)

    sums: Ints  # shape (any,); Sums of the class's ``count``; rounds may be about pools of other sizes
    ones: int  # Ones among the released bits
    pooled: int = 0  # Devices that were asked about a pool of items, and counted only for that pool


GROUPS = RANKED, SHARED, PAIRED, SIZED, SIZED_TOP = ("ranked", "shared", "paired", "sized", "sized_top")
"""The groups; those that report numbers of likes are asked before those whose sets follow from these."""


@dataclass(frozen=True, kw_only=True)
class GroupStatistic(Statistic):
    """Sums over the devices that answered; see `Statistic`. Counts of a group that was not asked are empty."""

    counts: ClassVar[tuple[str, ...]] = (*GROUPS, "heard")
    padded: ClassVar[tuple[str, ...]] = GROUPS

    ranked: Ints  # Devices of the first group whose subset held each value: all items, and dummies
    shared: Ints  # The same of the second group: the most liked items, and dummies
    paired: Ints  # The same of the third group: pairs of these items, and dummies
    sized: Ints  # Devices that released each range of how many items they like, of all and of the most liked
    sized_top: Ints
    heard: Ints  # shape (5,); Devices that answered, by groups
    ones: int  # Ones among the released bits

    def of(self, group: str) -> CountStatistic:
        """Return a group's counts."""
        heard = int(self.heard[GROUPS.index(group)])
        return CountStatistic(sums=getattr(self, group), ones=0, devices=heard, answered=heard, refused=0)


def of_group(group: str, counts: CountStatistic) -> GroupStatistic:
    """Return the statistic of a round that asked one group, from its counts."""
    return GroupStatistic(
        **{name: counts.sums if name == group else np.zeros(0, np.int64) for name in GROUPS},
        heard=np.array([counts.answered if name == group else 0 for name in GROUPS], np.int64),
        ones=counts.ones,
        devices=counts.devices,
        answered=counts.answered,
        refused=counts.refused,
    )


def reported(query: Query, release: Release, outputs: int) -> Indices:
    """Return the whole number that each device of a block reports, int32, shape (devices,); 0 where it is silent."""
    release.require(query)
    values = np.empty(release.count, np.int32)
    values_of(release.unpacked(), values)
    values[~release.answered_mask()] = 0
    if values.size and values.max() >= outputs:
        raise no_answer(query, release, f"it reports {values.max()}, numbers end at {outputs - 1}")
    return values


def counted(query: Query, release: Release, supports: Ints) -> CountStatistic:
    """Return the statistic of one block's release. Shapes: ``supports`` (K,)."""
    return CountStatistic(
        sums=supports, ones=_ones(release), **device_counts(release), pooled=0 if query.pool is None else release.count
    )


def _ones(release: Release) -> int:
    """Return how many of the answering devices' bits are 1; where all answer, none is unpacked."""
    if release.answered is None:
        bits = np.frombuffer(release.bits, np.uint8)
        whole = bits.size // 8 * 8
        return sum(
            int(np.bitwise_count(part).sum(dtype=np.int64)) for part in (bits[:whole].view(np.uint64), bits[whole:])
        )
    return int(release.unpacked()[release.answered_mask()].sum(dtype=np.int64))


class Rates(NamedTuple):
    """How often a report speaks for a value."""

    mine: float  # P(the report speaks for v), where v is the device's value (p), and where it is another one (q)
    others: float
    # P(it speaks for two values that are both not the device's), as a share of q^2; 0 if it speaks for one value only
    both: float = 1.0

    @property
    def contrast(self) -> float:
        """``p - q``."""
        return self.mine - self.others

    def spread(self, liked: Floats, disliked: Floats | None = None) -> Floats:
        """Return the variance of one device's estimate of values of such shares, or of the difference of two values'.

        Of a value alone it is ``a (1 - a) / (p - q)^2``.
        """
        rate = self.others + self.contrast * liked
        if disliked is None:
            return rate * (1 - rate) / self.contrast**2
        alone = 2 * (1 - self.both) * rate * (self.others + self.contrast * disliked) / self.contrast**2
        return self.spread(liked) + self.spread(disliked) + alone + 2 * self.both * liked * disliked


MOST_PAIRED_ITEMS = 5000  # The statistic holds two numbers a pair: 200 MB at this many items


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
        return upper + upper.T


def aggregate_pairs(query: Query, release: Release) -> PairStatistic:
    """Return the statistic of one block's release; see `coordinator.protocol.statistics.scores.aggregate_scores`."""
    release.require(query)
    check_items(query.items)
    public = release.public_pairs()
    if (public is not None) != query.design.endswith(OF_RATED) and release.count:
        needed = "lacks the public pairs" if public is None else "brings public pairs, which are not those"
        raise InputError(f"release of device {release.first} on {needed} that {query} is about")
    if public is None:
        low, high = pairs_among(streams_of(query, release), np.full(release.count, query.items)).T
    else:
        low, high = public[:, 0], public[:, 1]
        heard = release.answered_mask()
        if not ((low[heard] >= 0) & (low[heard] < high[heard]) & (high[heard] < query.items)).all():
            raise InputError(f"release of device {release.first} on names pairs that are none of {query.items} items")
    cell = low.astype(np.int64) * query.items + high
    answered, bits = release.answered_mask(), release.unpacked()[:, 0] & release.answered_mask() == 1
    cells, shape = query.items**2, (query.items, query.items)
    return PairStatistic(
        pairs=np.bincount(cell[answered], minlength=cells).reshape(shape),
        agreed=np.bincount(cell[bits], minlength=cells).reshape(shape),
        **device_counts(release),
    )


def check_items(items: int) -> None:
    """Refuse a catalogue without pairs, or with too many for the memory."""
    if not 2 <= items <= MOST_PAIRED_ITEMS:
        raise InputError(
            f"items is {items}; pairwise needs at least 2, and at most {MOST_PAIRED_ITEMS} to hold all pairs"
        )
