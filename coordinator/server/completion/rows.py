"""Users' ratings in compressed sparse rows, cut as completion needs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Ratings of users in compressed sparse rows; its text form shows no rating.

    Attributes
    ----------
    starts : ndarray of int64, shape (users + 1,)
    items : ndarray of int32
    values : ndarray of float64
    count : int
        Number of items m of the catalogue.
    """

    starts: Ints = field(repr=False)
    items: Indices = field(repr=False)
    values: Floats = field(repr=False)
    count: int

    @property
    def users(self) -> int:
        """Number of users."""
        return int(self.starts.size) - 1

    @property
    def degrees(self) -> Ints:
        """Number of ratings of every user."""
        return np.diff(self.starts)

    def of(self, users: Ints) -> Rows:
        """Return the rows of some users, in the order in which they are named."""
        degrees = self.degrees[users]
        starts = np.concatenate(([0], np.cumsum(degrees))).astype(np.int64)
        places = np.arange(starts[-1]) - np.repeat(starts[:-1] - self.starts[:-1][users], degrees)
        return Rows(starts=starts, items=self.items[places], values=self.values[places], count=self.count)

    def where(self, kept: Bools) -> Rows:
        """Return the ratings that a mask keeps; users keep their numbers."""
        sums = np.concatenate(([0], np.cumsum(kept)))
        return Rows(
            starts=sums[self.starts].astype(np.int64),
            items=self.items[kept],
            values=self.values[kept],
            count=self.count,
        )

    def blocks(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield stretches ``[first, stop)`` of at most ``size`` users."""
        for first in range(0, self.users, size):
            yield first, min(first + size, self.users)

    def block(self, first: int, stop: int) -> Rows:
        """Return the rows of users ``first`` to ``stop - 1``."""
        low, high = self.starts[first], self.starts[stop]
        return Rows(
            starts=self.starts[first : stop + 1] - low,
            items=self.items[low:high],
            values=self.values[low:high],
            count=self.count,
        )
