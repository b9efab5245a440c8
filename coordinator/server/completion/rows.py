"""Users' ratings in compressed sparse rows, cut and drawn from as the two-tier experiments need them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints, Words
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw, siphash1


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


def draw_ratings(rows: Rows, takes: Ints, seed: int | bytes, purpose: str) -> Bools:
    """Draw some ratings of every user, uniformly without replacement.

    Parameters
    ----------
    rows : Rows
    takes : ndarray of int64, shape (users,)
        How many of each.
    seed : int or bytes
        With the purpose, the user's number and the number of its ratings it settles which.
    purpose : str

    Returns
    -------
    ndarray of bool, shape (ratings,)
    """
    return _draw(as_words(derive(seed, purpose)), rows.starts, takes)


@compiled
def _draw(key: Words, starts: Ints, takes: Ints) -> Bools:
    """Draw by Knuth's Algorithm S: a rating is taken with probability (still to take) / (ratings left)."""
    drawn = np.zeros(starts[-1], np.bool_)
    for user in range(starts.size - 1):
        stream, missing = siphash1(key[0], key[1], np.uint64(user)), takes[user]
        for place in range(starts[user], starts[user + 1]):
            coin = (draw(stream, np.uint64(place - starts[user])) >> np.uint64(11)) * 2.0**-53
            if (starts[user + 1] - place) * coin < missing:
                drawn[place] = True
                missing -= 1
    return drawn
