"""Counts of a user's own mechanism: whole numbers that add up over devices, whose meaning only its class knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from coordinator.protocol.arrays import Ints
from coordinator.server.statistics.statistic import Statistic


@dataclass(frozen=True, kw_only=True)
class CountStatistic(Statistic):
    """Sums over the devices that answered; see `Statistic`.

    Attributes
    ----------
    sums : ndarray of int64, shape (any,)
        Sums of the class's ``count``; if two have different sizes, the shorter one is padded with zeros.
    told : int
        Ones among the released bits.
    pooled : int
        Devices that were asked about a pool of items, and counted only for that pool.
    """

    counts: ClassVar[tuple[str, ...]] = ("sums",)

    sums: Ints
    told: int
    pooled: int = 0

    def __add__(self, other: Self) -> Self:
        """Return the statistic of both blocks, or rounds, together."""
        sums = np.zeros(max(self.sums.size, other.sums.size), np.int64)
        sums[: self.sums.size] += self.sums
        sums[: other.sums.size] += other.sums
        return type(self)(
            sums=sums,
            **{
                name: getattr(self, name) + getattr(other, name)
                for name in ("asked", "answered", "refused", "told", "pooled")
            },
        )

    @property
    def ones(self) -> int:
        """Ones among the answered bits."""
        return self.told

    def shape(self) -> tuple[object, ...]:
        """Return the kind; see `Statistic.shape`. Sizes may differ, since rounds may be about pools of other sizes."""
        return super().shape()[0], self.sums.ndim
