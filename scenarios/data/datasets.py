"""Rating tables: a user's own copy of MovieLens, Jester or any table of ratings, read into CSR."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.rows import RowTable, starts_of
from scenarios.data.formats.columns import RatingColumns
from scenarios.data.formats.opening import open_ratings
from scenarios.data.formats.readers import read_columns

_INTEGER = r"^-?[0-9]{1,18}$"


@dataclass(frozen=True, kw_only=True, eq=False)
class RatingTable(RowTable[Floats]):
    """Ratings in a file's own scale, with the file's names of users and items; its text form shows none of them.

    Attributes
    ----------
    starts, items, values, count
        See `coordinator.protocol.rows.RowTable`.
    user_labels, item_labels : ndarray of object
        The file's own ids, as str; the position is the user's or item's number.
    source : str
        The format's name.
    """

    user_labels: NDArray[np.object_]
    item_labels: NDArray[np.object_]
    source: str

    @property
    def ratings(self) -> int:
        """The number of ratings."""
        return len(self.values)

    @property
    def density(self) -> float:
        """The share of (user, item) pairs that were rated, 0 to 1."""
        return self.ratings / (self.users * self.count)

    def told(self, place: int) -> str:
        """Return who rated what at ``place``, by the file's own names; see `RowTable.told`."""
        user = np.searchsorted(self.starts, place, side="right") - 1
        return f"user {self.user_labels[user]!r} rated item {self.item_labels[self.items[place]]!r}"

    def __repr__(self) -> str:
        return f"RatingTable(users={self.users}, items={self.count}, ratings={self.ratings}, source={self.source!r})"


def read_ratings(path: Path, *, columns: tuple[str, str, str] | None = None) -> RatingTable:
    """Read a file of ratings.

    Known are MovieLens' ``ratings.csv`` (0.5 to 5), ``ratings.dat`` (``::`` between columns, 0.5 to 5) and
    ``u.data`` (1 to 5); Jester (one user a line: the number of ratings, then 100 ratings from -10 to 10, 99 for a
    joke that was not rated); comma-, tab- or semicolon-separated text in UTF-8 with a line of column names, and
    Parquet (-10^9 to 10^9); each also as the only such file of a zip archive.

    Parameters
    ----------
    path : Path
        The file.
    columns : tuple of str or None
        The names of the user, item and rating columns; None to recognise usual ones (``userId``, ``item_id``,
        ``score``, ...).

    Returns
    -------
    RatingTable
        Users and items are numbered in the order of their ids: by number where all ids are integers of at most 18
        digits, else by their text's code points. The same ratings in another order give the same table. Jester's
        users are called by their line among those that are not empty, and its items by their column, both from
        "1"; users and jokes without a rating keep their number.

    Raises
    ------
    InputError
        One line that names the file, the line or row, the value and the remedy: the file is missing, a directory,
        empty, damaged or in no known format; columns are missing or ambiguous; a row has too many or too few
        columns; an id is empty; a rating is no finite number or out of range; a user rated an item twice; a
        Jester line's count disagrees with its ratings; an archive holds no or several files that may be meant.

    References
    ----------
    Harper and Konstan, *The MovieLens Datasets*, ACM TiiS 5(4), 2015. Goldberg, Roeder, Gupta and Perkins,
    *Eigentaste*, Information Retrieval 4(2), 2001.
    """
    return _assemble(read_columns(open_ratings(Path(path)), columns))


def _assemble(found: RatingColumns) -> RatingTable:
    users, user_labels = _renumber(found.users, found.user_labels)
    items, item_labels = _renumber(found.items, found.item_labels)
    pair: Ints = users.astype(np.int64) * len(item_labels) + items
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    repeats = np.flatnonzero(pair[1:] == pair[:-1])
    if repeats.size:
        raise _duplicated(found, order, repeats)
    return RatingTable(
        starts=starts_of(np.bincount(users, minlength=len(user_labels))),
        items=items[order],
        values=found.values[order],
        count=len(item_labels),
        user_labels=user_labels,
        item_labels=item_labels,
        source=found.source,
    )


def _renumber(codes: Indices, labels: pa.StringArray) -> tuple[Indices, NDArray[np.object_]]:
    """Give labels numbers, by integer value where all are integers (equal ones by text), else by text."""
    order = pc.sort_indices(labels).to_numpy()
    if pc.all(pc.match_substring_regex(labels, _INTEGER)).as_py():
        integers = labels.cast(pa.int64()).to_numpy()
        order = order[np.argsort(integers[order], kind="stable")]
    number = np.empty(len(order), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number[codes], np.array(labels.take(order).to_pylist(), dtype=np.object_)


def _duplicated(found: RatingColumns, order: Ints, repeats: Ints) -> InputError:
    """Name the first rating in the file whose user had rated its item before."""
    first = repeats[np.argmin(order[repeats + 1])]
    earlier, later = int(order[first]), int(order[first + 1])
    user, item = str(found.user_labels[found.users[later]]), str(found.item_labels[found.items[later]])
    return InputError(
        f"user {user!r} rated item {item!r} twice, on {found.place(earlier)} and {found.place(later)}, and "
        f"{repeats.size} ratings in all repeat an earlier pair: keep one rating of each (user, item) pair"
    )
