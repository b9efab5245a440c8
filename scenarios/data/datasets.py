"""Rating tables: a user's own copy of MovieLens, Jester or any table of ratings, read into CSR."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.rating_table import RowTable, starts_of
from scenarios.config.frames import frame_at
from scenarios.config.settings import TIMED, BadLines, Duplicates
from scenarios.data.formats import PAIRS, Columns
from scenarios.data.packed_files import open_data
from scenarios.data.readers import RatingColumns, read_columns
from scenarios.log import step, write_line

if TYPE_CHECKING:
    from rich.console import Console

_INTEGER = r"^-?[0-9]{1,18}$"


@dataclass(frozen=True, kw_only=True, eq=False)
class RatingTable(RowTable[Floats]):
    """Ratings in a file's own scale, with the file's names of users and items; its text form shows none of them."""

    user_labels: NDArray[np.object_]  # The file's own ids, as str; the position is the user's or item's number
    item_labels: NDArray[np.object_]
    source: str  # The format's name
    skipped: int = 0  # Bad lines of the file that were left out
    unrated: int = 0  # Lines without a rating that were left out
    notes: tuple[str, ...] = ()  # What is strange about the file, warnings among it
    times: Floats | None = None  # shape (ratings,); When each was given, in seconds of any origin; None where not read

    @property
    def remarks(self) -> list[str]:
        """Notes for whoever reads the file, a line each."""
        counts = {"bad lines": self.skipped, "lines without a rating": self.unrated}
        return [*(f"{what} of the file that were left out: {n:,}" for what, n in counts.items() if n), *self.notes]

    @property
    def ratings(self) -> int:
        """The number of ratings."""
        return len(self.values)

    @property
    def density(self) -> float:
        """The share of (user, item) pairs that were rated, 0 to 1."""
        return self.ratings / (self.users * self.count)

    def where(self, mask: Bools) -> Self:
        """Return the ratings that a mask keeps, with their times; see `RowTable.where`."""
        return replace(super().where(mask), times=None if self.times is None else self.times[mask])

    def describe(self, index: int) -> str:
        """Return who rated what at ``index``, by the file's own names; see `RowTable.describe`."""
        user = np.searchsorted(self.starts, index, side="right") - 1
        return f"user {self.user_labels[user]!r} rated item {self.item_labels[self.items[index]]!r}"

    def __repr__(self) -> str:
        return f"RatingTable(users={self.users}, items={self.count}, ratings={self.ratings}, source={self.source!r})"


class FileSettings(Protocol):
    """Settings of whatever reads a file of ratings."""

    @property
    def ratings(self) -> Path | None:
        """The file, if there is one."""

    @property
    def columns(self) -> Columns | None:
        """Names of its columns; see `read_ratings`."""

    @property
    def duplicates(self) -> Duplicates:
        """Which rating counts where an item was rated again."""

    @property
    def bad_lines(self) -> BadLines:
        """What becomes of lines that cannot be read."""

    @property
    def unrated(self) -> float | None:
        """The rating that stands for no rating, if one does."""


def read_for(settings: FileSettings, **how: Any) -> RatingTable:
    """Return the ratings of a scenario's file, with times where they are needed; the last file is cached."""
    path = settings.ratings
    assert path is not None  # callers check that there is a file
    timed = settings.duplicates is not None or len(settings.columns or ()) == TIMED
    choices = {name: getattr(settings, name) for name in ("columns", "duplicates", "bad_lines", "unrated")}
    return _read_once(path.absolute(), version_of(path), **choices, **{"min_ratings": 1, "times": timed, **how})


def lines_skipped(settings: FileSettings, table: RatingTable) -> dict[str, int]:
    """Return how many lines were left out, as records have it; nothing where such lines are an error."""
    if settings.ratings is None:
        return {}
    skipped = {"lines_skipped": table.skipped} if settings.bad_lines == "skip" else {}
    return skipped | ({"lines_unrated": table.unrated} if table.unrated else {})


def tell_remarks(table: RatingTable, console: Console) -> None:
    """Print the notes for whoever reads the file."""
    tell(table.remarks, console)


def tell(remarks: Iterable[str], console: Console) -> None:
    """Print notes, a line each."""
    for line in remarks:
        write_line(console, line)


def version_of(path: Path | None) -> tuple[int, ...]:
    """Return numbers that change when somebody writes to a file; none where there is no file."""
    if path is None or not path.exists():
        return ()
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@lru_cache(maxsize=1)
def _read_once(path: Path, _: tuple[int, ...], **how: Any) -> RatingTable:
    return read_ratings(path, **how)


def read_ratings(
    path: Path,
    *,
    columns: Columns | None = None,
    duplicates: Duplicates = None,
    bad_lines: BadLines = "refuse",
    unrated: float | None = None,
    min_ratings: int = 0,
    times: bool = False,
) -> RatingTable:
    """Read a file of ratings, or the only one in a zip archive, in any format of `scenarios.data.formats`."""
    file = open_data(Path(path))
    raw = read_columns(file, columns, times=times, skip=bad_lines == "skip", unrated=unrated)
    with step("numbering people and items"):
        table = _assemble(raw, duplicates)
    frequent = table.degrees >= min_ratings
    if frequent.all():
        return table
    if not frequent.any():
        raise InputError(f"no user of {path} has {min_ratings} ratings; lower --min-ratings")
    rows = table.where(np.repeat(frequent, table.degrees))
    return replace(rows, starts=starts_of(rows.degrees[frequent]), user_labels=table.user_labels[frequent])


def marked_pairs(path: Path, table: RatingTable, columns: Columns | None, bad_lines: BadLines) -> Bools:
    """Mark the ratings of a table whose (user, item) pairs a file holds; a pair that is not rated is refused."""
    pairs = columns[:2] if columns else PAIRS
    split = read_ratings(path, columns=pairs, duplicates="last", bad_lines=bad_lines)
    users, items = _places(split.user_labels, table.user_labels), _places(split.item_labels, table.item_labels)
    keys = np.repeat(np.arange(table.users, dtype=np.int64), table.degrees) * table.count + table.items
    user, item = users[np.repeat(np.arange(split.users), split.degrees)], items[split.items]
    pair = user * table.count + item
    nearest = np.minimum(np.searchsorted(keys, pair), keys.size - 1)
    unrated = np.flatnonzero((user < 0) | (item < 0) | (keys[nearest] != pair))
    if unrated.size:
        name = "the DataFrame" if frame_at(path) else f"'{path}'"
        more = f", and {unrated.size - 1:,} more pairs" if unrated.size > 1 else ""
        first = split.describe(int(unrated[0])).replace(" rated ", ", ", 1)
        raise InputError(
            f"held_out: {name} holds {first}{more}, which the ratings file does not contain; every held-out pair must "
            "be rated there: leave the others out"
        )
    marks = np.zeros(table.ratings, np.bool_)
    marks[nearest] = True
    return marks


def _places(labels: NDArray[np.object_], among: NDArray[np.object_]) -> Ints:
    """Return where each label is among others, -1 where it is not."""
    places = pc.index_in(pa.array(labels, pa.string()), value_set=pa.array(among, pa.string()))
    return np.asarray(places.fill_null(-1).to_numpy(), np.int64)


def _assemble(raw: RatingColumns, duplicates: Duplicates) -> RatingTable:
    """Return the ratings by user and item."""
    users, user_labels = _renumber(raw.users, raw.user_labels)
    items, item_labels = _renumber(raw.items, raw.item_labels)
    pair, values, times = users.astype(np.int64) * len(item_labels) + items, raw.values, raw.times
    if not (pair[1:] > pair[:-1]).all():  # most files are in order, and sorting takes long and much memory
        order = np.argsort(pair, kind="stable") if times is None else np.lexsort((times, pair))
        users, items, pair, values = users[order], items[order], pair[order], values[order]
        times = None if times is None else times[order]
    repeats = np.flatnonzero(pair[1:] == pair[:-1])
    if repeats.size:
        if duplicates is None:
            pair = _renumber(raw.users, raw.user_labels)[0].astype(np.int64) * len(item_labels)
            pair += _renumber(raw.items, raw.item_labels)[0]
            raise _duplicated(raw, np.argsort(pair, kind="stable"), repeats)
        first = np.concatenate(([True], pair[1:] != pair[:-1]))
        if duplicates in ("mean", "sum"):
            places = np.flatnonzero(first)
            lengths = np.diff(places, append=first.size)
            sums = np.add.reduceat(values, places)
            values = np.repeat(sums / lengths if duplicates == "mean" else sums, lengths)
        survivors = first if duplicates == "first" else np.roll(first, -1)  # the last stands before another's first
        users, items, values = users[survivors], items[survivors], values[survivors]
        times = None if times is None else times[survivors]
    return RatingTable(
        starts=starts_of(np.bincount(users, minlength=len(user_labels))),
        items=items,
        values=values,
        count=len(item_labels),
        user_labels=user_labels,
        item_labels=item_labels,
        source=raw.source,
        skipped=raw.skipped,
        unrated=raw.unrated,
        notes=raw.remarks,
        times=times,
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


def _duplicated(raw: RatingColumns, order: Ints, repeats: Ints) -> InputError:
    """Name the first rating in the file whose user had rated its item before."""
    first = repeats[np.argmin(order[repeats + 1])]
    earlier, later = int(order[first]), int(order[first + 1])
    user, item = str(raw.user_labels[raw.users[later]]), str(raw.item_labels[raw.items[later]])
    return InputError(
        f"user {user!r} rated item {item!r} twice, on {raw.location(earlier)} and {raw.location(later)}, and "
        f"{repeats.size} ratings in all repeat an earlier pair: keep one rating of each "
        "(user, item) pair, or let --duplicates choose: last, first, mean or sum"
    )
