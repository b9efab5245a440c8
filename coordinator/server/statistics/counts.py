"""Counts that add up: of private values, of frequency oracles' reports, of a custom mechanism, and group by group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.messages import Query, Release
from coordinator.server.statistics.statistic import Statistic, device_counts, no_answer


@dataclass(frozen=True, kw_only=True)
class CountStatistic(Statistic):
    """Sums over the devices that answered; see `Statistic`."""

    counts: ClassVar[tuple[str, ...]] = ("sums",)

    # shape (any,); Sums of the class's ``count``; if two have different sizes, the shorter one is padded with zeros
    sums: Ints
    ones: int  # Ones among the released bits
    pooled: int = 0  # Devices that were asked about a pool of items, and counted only for that pool

    def __add__(self, other: Self) -> Self:
        """Return the statistic of both blocks, or rounds, together."""
        sums = np.zeros(max(self.sums.size, other.sums.size), np.int64)
        sums[: self.sums.size] += self.sums
        sums[: other.sums.size] += other.sums
        return type(self)(
            sums=sums,
            **{
                name: getattr(self, name) + getattr(other, name)
                for name in ("devices", "answered", "refused", "ones", "pooled")
            },
        )

    def shape(self) -> tuple[object, ...]:
        """Return the kind; see `Statistic.shape`. Sizes may differ, since rounds may be about pools of other sizes."""
        return super().shape()[0], self.sums.ndim


GROUPS = RANKED, SHARED, PAIRED, SIZED, SIZED_TOP = ("ranked", "shared", "paired", "sized", "sized_top")
"""The groups; those that tell numbers of likes are asked before those whose sets follow from these."""


@dataclass(frozen=True, kw_only=True)
class GroupStatistic(Statistic):
    """Sums over the devices that answered; see `Statistic`. Counts of a group that was not asked are empty."""

    counts: ClassVar[tuple[str, ...]] = (*GROUPS, "heard")

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

    def __add__(self, other: Self) -> Self:
        """Return the statistic of both blocks, or rounds, together."""
        sizes = {name: max(getattr(self, name).size, getattr(other, name).size) for name in GROUPS}
        return Statistic.__add__(self._padded(sizes), other._padded(sizes))

    def shape(self) -> tuple[object, ...]:
        """Return the kind; see `Statistic.shape`. Sizes may differ, since each round is about one of the groups."""
        return super().shape()[0], self.heard.size

    def _padded(self, sizes: dict[str, int]) -> Self:
        wider: dict[str, Any] = {name: np.zeros(size, np.int64) for name, size in sizes.items()}
        for name, counts in wider.items():
            counts[: getattr(self, name).size] = getattr(self, name)
        return replace(self, **wider)


def of_group(group: str, one: CountStatistic) -> GroupStatistic:
    """Return the statistic of a round that asked one group, from its counts."""
    return GroupStatistic(
        **{name: one.sums if name == group else np.zeros(0, np.int64) for name in GROUPS},
        heard=np.array([one.answered if name == group else 0 for name in GROUPS], np.int64),
        ones=one.ones,
        devices=one.devices,
        answered=one.answered,
        refused=one.refused,
    )


def reported(query: Query, release: Release, outputs: int) -> Indices:
    """Return the whole number that each device of a block reports, int32, shape (devices,); 0 where it is silent."""
    from coordinator.protocol.public_draws import values_of  # noqa: PLC0415 (compiled)

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
        sums=supports,
        ones=_ones(release),
        **device_counts(release),
        pooled=0 if query.pool is None else release.count,
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

    def spread(self, share: Floats) -> Floats:
        """Return the variance of one device's estimate of values of such shares: ``a (1 - a) / (p - q)^2``."""
        rate = self.others + self.contrast * share
        return rate * (1 - rate) / self.contrast**2

    def spread_between(self, liked: Floats, disliked: Floats) -> Floats:
        """Return the variance of one device's estimate of the difference of two values' shares."""
        product = (self.others + self.contrast * liked) * (self.others + self.contrast * disliked)
        alone = 2 * (1 - self.both) * product / self.contrast**2
        return self.spread(liked) + self.spread(disliked) + alone + 2 * self.both * liked * disliked
