"""One table of ratings, for devices, voters, public and private users, and what is held out: a row for each user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeAlias, TypeVar

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints
from coordinator.protocol.checked import LARGEST
from coordinator.protocol.errors import InputError

Values = TypeVar("Values", bound=Floats | Bools | None)
Others = TypeVar("Others", bound=Floats | Bools | None)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowTable(Generic[Values]):
    """What users rated, in compressed sparse rows; its text form shows no rating.

    The experimenter makes a table, and its constructor checks it. Devices check nothing later that
    depends on a rating, because their error would reveal it.
    """

    # shape (users + 1,); The ratings of user u stand at ``starts[u]`` to ``starts[u + 1] - 1``
    starts: Ints = field(repr=False)
    items: Indices = field(repr=False)  # Rated items, ascending in each row where they come from a file
    values: Values = field(repr=False)  # Ratings, or whether each item was liked; None where only the items count
    count: int  # Number of items in the catalogue

    def __post_init__(self) -> None:
        """Refuse what compiled code, which checks no bounds, would follow astray, and what is no number."""
        starts, items, values = self.starts, self.items, self.values
        whole = starts.size > 0 and starts[0] == 0 and starts[-1] == items.size
        if not whole or (np.diff(starts) < 0).any() or (values is not None and values.size != items.size):
            raise InputError(f"the rows of {self.users} users do not cover their {items.size} ratings")
        if items.size and not 0 <= items.min() <= items.max() < self.count:
            rating = int(np.argmax((items < 0) | (items >= self.count)))
            raise InputError(f"{self.describe(rating)}; the catalogue has items 0 to {self.count - 1} only")
        if values is not None and values.size and not -LARGEST <= values.min() <= values.max() <= LARGEST:
            rating = int(np.argmin(np.abs(values) <= LARGEST))
            raise InputError(f"{self.describe(rating)} with {values[rating]:g}; give finite ones, {LARGEST:g} at most")

    @property
    def users(self) -> int:
        """Number of users."""
        return int(self.starts.size) - 1

    @property
    def degrees(self) -> Ints:
        """Number of ratings of every user."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Ints:
        """User of every rating."""
        return np.repeat(np.arange(self.users), self.degrees)

    @property
    def raters(self) -> Ints:
        """Number of users who rated each item."""
        return np.bincount(self.items, minlength=self.count).astype(np.int64)

    def degrees_among(self, mask: Bools) -> Ints:
        """Return how many of every user's ratings a mask marks."""
        filled, counts = self.degrees > 0, np.zeros(self.users, np.int64)
        counts[filled] = np.add.reduceat(mask, self.starts[:-1][filled], dtype=np.int64)
        return counts

    def describe(self, rating: int) -> str:
        """Return who rated what at ``rating``, as the beginning of an error."""
        return f"user {np.searchsorted(self.starts, rating, side='right') - 1} rated item {self.items[rating]}"

    def of(self, users: Ints | Indices) -> RowTable[Values]:
        """Return the rows of some users, in the order in which they are named; a user may be named again."""
        starts = starts_of(self.degrees[users])
        shifts: Ints = self.starts[:-1][users] - starts[:-1]
        places = np.arange(starts[-1]) + np.repeat(shifts, np.diff(starts))
        return RowTable(starts=starts, items=self.items[places], values=_some(self.values, places), count=self.count)

    def where(self, mask: Bools) -> Self:
        """Return the ratings that a mask keeps; users keep their numbers, and the table everything else."""
        starts = starts_of(self.degrees_among(mask))
        return replace(self, starts=starts, items=self.items[mask], values=_some(self.values, mask))

    def valued(self, values: Others) -> RowTable[Others]:
        """Return the same rows with other values."""
        return RowTable(starts=self.starts, items=self.items, values=values, count=self.count)

    def blocks(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield stretches ``[first, stop)`` of at most ``size`` users."""
        for first in range(0, self.users, size):
            yield first, min(first + size, self.users)

    def block(self, first: int, stop: int) -> RowTable[Values]:
        """Return the rows of users ``first`` to ``stop - 1``; they share this table's memory."""
        here = slice(self.starts[first], self.starts[stop])
        starts = self.starts[first : stop + 1] - here.start
        return RowTable(starts=starts, items=self.items[here], values=_some(self.values, here), count=self.count)


Rows: TypeAlias = RowTable[Floats]  # Users and how they rated items
Likes: TypeAlias = RowTable[Bools]  # Users and which of the items that they rated they liked
Held: TypeAlias = RowTable[None]  # Users and items that are held out


def _some(values: Values, places: Ints | Bools | slice) -> Values:
    return values if values is None else values[places]  # type: ignore[return-value] # of the same kind


def starts_of(degrees: Ints | Bools) -> Ints:
    """Return where rows of so many ratings start, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(degrees))).astype(np.int64)


def stacked(parts: Sequence[Rows]) -> Rows:
    """Return the users of several tables below each other."""
    names = ("degrees", "items", "values")
    degrees, items, values = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return Rows(starts=starts_of(degrees), items=items, values=values, count=parts[0].count)
