"""Columns of ratings in a file's own order: every text once, a code for it on every row, and the lines that are bad."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints
from coordinator.protocol.errors import InputError
from scenarios.data.formats.opening import RatingFile
from scenarios.data.formats.recognise import RatingFormat

Place = Callable[[int], str]
Reason = Callable[[int, int], str]
"""From a row, and how many characters of its text may be repeated, to what is wrong with it."""
MOST_LINES = 10
"""Bad lines that an error names."""
APART = 3
"""Ratings stand apart if the gap before them is so many times as wide as the range of all others."""
_LONG, _SHORT = 60, 12
_THIN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingColumns:
    """Ratings in the file's own order.

    Attributes
    ----------
    users, items : Indices
        int32[ratings], positions in the labels.
    values : Floats
        float64[ratings], finite and in the format's range.
    user_labels, item_labels : pyarrow.StringArray
        The file's own ids, each once, in no special order.
    place : callable
        From a rating, from 0, to where it stands in the file, in words.
    source : str
        The format's name.
    times : Floats or None
        float64[ratings], when each was given, in seconds of any origin; None where that was not read.
    skipped : int
        Bad lines that were left out.
    apart : str
        Which ratings stand apart from all others, as a warning; empty where none do.
    """

    users: Indices
    items: Indices
    values: Floats
    user_labels: pa.StringArray
    item_labels: pa.StringArray
    place: Place
    source: str
    times: Floats | None = None
    skipped: int = 0
    apart: str = ""

    def __repr__(self) -> str:
        return f"RatingColumns({len(self.values)} ratings, {self.source})"


@dataclass(slots=True, kw_only=True)
class Faults:
    """The lines of a file that cannot be read, and why.

    Attributes
    ----------
    file : RatingFile
    unit : str
        What a row is called, a line of text or a row of Parquet.
    first : int
        Number of the first row, among those that are not empty, from 1.
    torn : list of (int, callable)
        Numbers of rows that the parser left out, ascending, and why; they are no rows of its table.
    """

    file: RatingFile
    unit: str = "line"
    first: int = 1
    torn: list[tuple[int, Reason]] = field(default_factory=list)
    _rows: list[tuple[Ints, Reason]] = field(default_factory=list)

    def add(self, rows: Ints, reason: Reason) -> None:
        """Count rows of the table as bad; each is told with the first reason that was added."""
        if rows.size:
            self._rows.append((rows, reason))

    def number(self, row: int) -> int:
        """Return the number of a row of the table among the file's rows that are not empty, from 1."""
        torn = np.array([number for number, _ in self.torn], np.int64)
        return row + self.first + int(np.searchsorted(torn - np.arange(torn.size), row + self.first, side="right"))

    def place(self, row: int) -> str:
        """Return where a row of the table stands, in words."""
        return f"{self._where(self.number(row))} of {self.file.name}"

    def good(self, rows: int) -> Bools | None:
        """Return which rows of the table can be used; None for all."""
        if not self._rows:
            return None
        good = np.ones(rows, np.bool_)
        for bad, _ in self._rows:
            good[bad] = False
        return good

    def dealt_with(self, rows: int, *, skip: bool) -> int:
        """Return how many lines are bad, of the torn ones and ``rows`` rows of the table.

        Raises
        ------
        InputError
            If there are some, and they are not to be skipped: it names ten at most.
        """
        good = self.good(rows)
        count = len(self.torn) + (0 if good is None else int(np.count_nonzero(~good)))
        if count and not skip:
            raise InputError(self._told(count))
        return count

    def _told(self, count: int) -> str:
        reasons: dict[int, tuple[int, Reason]] = {}
        for number, reason in self.torn[:MOST_LINES]:
            reasons[number] = (number, reason)
        for rows, reason in self._rows:
            for row in map(int, np.sort(rows)[:MOST_LINES]):
                reasons.setdefault(self.number(row), (row, reason))
        if count == 1:
            [(number, (row, reason))] = reasons.items()
            where = f"{self._where(number)} of {self.file.name}"
            return f"{where} {reason(row, _LONG)}: correct or drop it, or leave it out by --bad-lines skip"
        first = sorted(reasons)[:MOST_LINES]
        lines = [f"{self._where(number)} {reasons[number][1](reasons[number][0], _SHORT)}" for number in first]
        more = [f"and {count - len(first):,} more"] if count > len(first) else []
        return (
            f"{count:,} {self.unit}s of {self.file.name} cannot be read: {'; '.join([*lines, *more])}: correct or drop "
            "them, or leave them out by --bad-lines skip"
        )

    def _where(self, number: int) -> str:
        return f"{self.unit} {self.file.line_number(number) if self.unit == 'line' else number}"


def from_table(table: pa.Table, form: RatingFormat, bad: Faults, *, skip: bool) -> RatingColumns:
    """Take the ratings out of a table whose columns are encoded as dictionaries; seen is 1 where no column rates.

    Raises
    ------
    InputError
        If rows are bad, and these are not to be skipped: an id is empty, or a rating is no finite number in the range
        of `form`. If no row is left.
    """
    user, item, *rating = form.fields
    users, user_labels = _identities(table[user], user, bad)
    items, item_labels = _identities(table[item], item, bad)
    values: Floats = np.ones(table.num_rows)
    if rating:
        values = numbers(table[rating[0]], bad, low=form.low, high=form.high, what="the rating")
    times = _times(table[form.time], form.time, bad) if form.time in table.column_names else None
    skipped, good = bad.dealt_with(table.num_rows, skip=skip), bad.good(table.num_rows)
    place: Place = bad.place
    if good is not None:
        rows = np.flatnonzero(good)
        users, user_labels = _used(users[rows], user_labels)
        items, item_labels = _used(items[rows], item_labels)
        values, times = values[rows], None if times is None else times[rows]
        place = lambda rating: bad.place(int(rows[rating]))  # noqa: E731 (a function of rows that are left)
    need_ratings(values.size, bad.file, skipped)
    return RatingColumns(
        users=users,
        items=items,
        values=values,
        user_labels=user_labels,
        item_labels=item_labels,
        place=place,
        source=form.name,
        times=times,
        skipped=skipped,
        apart="" if form.stated else stand_apart(values),
    )


def need_ratings(count: int, file: RatingFile, skipped: int = 0) -> None:
    """Refuse a file that holds no rating."""
    if count == 0:
        besides = f" besides {skipped:,} bad lines" if skipped else ""
        raise InputError(f"{file.name} holds no rating{besides}: give a file with at least one")


def stand_apart(values: Floats) -> str:
    """Say which ratings stand apart from all others, as a mark of what is missing does, or a slip; empty for none.

    They lie beyond a gap that is wider than `APART` times the range of all others. The others are more than half of the
    ratings, and do not thin out towards the gap, as counts do: a thousandth of all ratings, and ten, lie in the last
    tenth of their range.

    Examples
    --------
    >>> stand_apart(np.repeat([0.5, 3.0, 5.0, 99.0], [20, 50, 30, 2]))
    '2 ratings of 99 stand apart from all others, which lie from 0.5 to 5: if they are no ratings, drop their lines'
    >>> stand_apart(np.array([1, 1, 1, 1, 2, 2, 3, 40])), stand_apart(np.repeat([1.0, 5.0], 50))
    ('', '')
    """
    counted = pc.value_counts(pa.array(values))
    order = np.argsort(levels := np.asarray(counted.field("values"), np.float64))
    levels, counts = levels[order], np.asarray(counted.field("counts"), np.int64)[order]
    for sign in (1, -1):  # what stands above all others, then what stands below
        ends, many = (levels, counts) if sign == 1 else (-levels[::-1], counts[::-1])
        below, width, gap = np.cumsum(many), ends[:-1] - ends[0], np.diff(ends)
        tenth = np.searchsorted(ends, ends[:-1] - width / 10)
        last = below[:-1] - np.where(tenth > 0, below[tenth - 1], 0)
        wide = (gap > APART * width) & (width > 0) & (2 * below[:-1] > values.size)
        if (found := np.flatnonzero(wide & (last >= max(10, values.size / _THIN)))).size:
            others, beyond = np.sort(sign * ends[[0, found[0]]]), np.sort(sign * ends[[found[0] + 1, -1]])
            count = int(values.size - below[found[0]])
            which = f"of {beyond[0]:g}" if beyond[0] == beyond[1] else f"from {beyond[0]:g} to {beyond[1]:g}"
            stand = "rating {} stands" if count == 1 else "ratings {} stand"
            return (
                f"{count:,} {stand.format(which)} apart from all others, which lie from "
                f"{others[0]:g} to {others[1]:g}: if they are no ratings, drop their lines"
            )
    return ""


def _times(column: pa.ChunkedArray, name: str, bad: Faults) -> Floats:
    """Read times: numbers, or dates as text."""
    codes, texts = _decode(column)
    values = _to_float(texts)
    if np.isnan(values).all():
        import pandas as pd  # noqa: PLC0415 (only where dates are text)

        dates = pd.to_datetime(pd.Series(texts.to_pylist()), errors="coerce", utc=True, format="ISO8601")
        values = np.asarray((dates - pd.Timestamp(0, tz="UTC")).dt.total_seconds(), np.float64)
    if not np.isfinite(values).all():

        def reason(row: int, most: int) -> str:
            return f"has the {name} {_text(texts, codes[row], most)}, which is neither a number nor a date"

        bad.add(np.flatnonzero(~np.isfinite(values)[codes]), reason)
    return values[codes]


def numbers(
    column: pa.ChunkedArray, bad: Faults, *, low: float, high: float, what: str, mark: float | None = None
) -> Floats:
    """Return a column encoded as a dictionary as float64[rows]; what is no number from `low` to `high` is bad.

    Both ends are allowed, and `mark`, one more value outside of them; `what` is what the number is, for the message.
    """
    codes, texts = _decode(column)
    values = _to_float(texts)
    allowed: Bools = (values >= low) & (values <= high)
    if mark is not None:
        allowed |= values == mark
    if not allowed.all():
        or_mark = "" if mark is None else f" ({mark:g} means not rated)"

        def reason(row: int, most: int) -> str:
            fault = f"is outside {low:g} to {high:g}" if np.isfinite(values[codes[row]]) else "is no finite number"
            return f"has {what} {_text(texts, codes[row], most)}, which {fault}{or_mark}"

        bad.add(np.flatnonzero(~allowed[codes]), reason)
    return values[codes]


def _identities(column: pa.ChunkedArray, name: str, bad: Faults) -> tuple[Indices, pa.StringArray]:
    codes, labels = _decode(column)
    empty = pc.index(labels, "").as_py()
    if empty >= 0:
        bad.add(np.flatnonzero(codes == empty), lambda *_: f"has no '{name}'")
    return codes, labels


def _used(codes: Indices, labels: pa.StringArray) -> tuple[Indices, pa.StringArray]:
    """Return codes anew, and the labels that they name alone."""
    used = np.bincount(codes, minlength=len(labels)) > 0
    return (np.cumsum(used) - 1).astype(np.int32)[codes], labels.filter(pa.array(used))


def _text(texts: pa.Array, code: int, most: int) -> str:
    """Return a text as an error repeats it, without its end if it is long."""
    return repr(str(texts[int(code)])[:most])


def _decode(column: pa.ChunkedArray) -> tuple[Indices, pa.Array]:
    array = column.combine_chunks()
    return array.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False), array.dictionary


def _to_float(texts: pa.Array) -> Floats:
    """Return texts or numbers as float64, with NaN for what is no number."""
    try:
        trimmed = pc.utf8_trim_whitespace(texts) if pa.types.is_string(texts.type) else texts
        return np.asarray(trimmed.cast(pa.float64()), dtype=np.float64)
    except pa.ArrowInvalid:
        return np.array([_one_float(str(text)) for text in texts], dtype=np.float64)


def _one_float(text: str) -> float:
    try:
        return float(text) if "_" not in text else np.nan
    except ValueError:
        return np.nan
