"""Readers of rating files: columns in the file's own order, from lines of text or from Parquet."""

import io
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints
from coordinator.protocol.errors import InputError
from scenarios.config.files import DAMAGED_ARCHIVE, require_rows
from scenarios.data.formats import Columns, RatingFile, RatingFormat, choose_fields, recognise_text, unreadable
from scenarios.log import counted_step, step

Place = Callable[[int], str]
Reason = Callable[[int, int], str]
"""From a row, and how many characters of its text may be repeated, to what is wrong with it."""
MOST_LINES = 10  # Bad lines that an error names
APART = 3  # Ratings stand apart if the gap before them is so many times as wide as the range of all others
_MONTHS = 12
_DATE = re.compile(r"\s*(\d{1,2})([./-])(\d{1,2})\2(\d{4})((?:\s.*)?)")
_LONG, _SHORT = 60, 12
_THIN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingColumns:
    """Ratings in the file's own order."""

    users: Indices  # int32[ratings], positions in the labels
    items: Indices
    values: Floats  # float64[ratings], finite and in the format's range
    user_labels: pa.StringArray  # The file's own ids, each once, in no special order
    item_labels: pa.StringArray
    place: Place  # From a rating, from 0, to where it stands in the file, in words
    source: str  # The format's name
    # float64[ratings], when each was given, in seconds of any origin; None where that was not read
    times: Floats | None = None
    skipped: int = 0  # Bad lines that were left out
    apart: str = ""  # Which ratings stand apart from all others, as a warning; empty where none do

    def __repr__(self) -> str:
        return f"RatingColumns({len(self.values)} ratings, {self.source})"


@dataclass(slots=True, kw_only=True)
class Faults:
    """The lines of a file that cannot be read, and why."""

    file: RatingFile
    unit: str = "line"  # What a row is called, a line of text or a row of Parquet
    first: int = 1  # Number of the first row, among those that are not empty, from 1
    # Numbers of rows that the parser left out, ascending, and why; they are no rows of its table
    torn: list[tuple[int, Reason]] = field(default_factory=list)
    _rows: list[tuple[Ints, Reason]] = field(default_factory=list)

    def add(self, rows: Ints, reason: Reason) -> None:
        """Count rows of the table as bad; each is reported with the first reason that was added."""
        if rows.size:
            self._rows.append((rows, reason))

    def number(self, row: int) -> int:
        """Return the number of a row of the table among the file's rows that are not empty, from 1."""
        torn = np.array([number for number, _ in self.torn], np.int64)
        return row + self.first + int(np.searchsorted(torn - np.arange(torn.size), row + self.first, side="right"))

    def place(self, row: int) -> str:
        """Return where a row of the table stands, in words."""
        return f"{self._where(self.number(row))} of {self.file.name}"

    def usable(self, rows: int, *, skip: bool) -> tuple[int, Ints | None]:
        """Return how many lines are left out, and which of the table's rows can be used; None for all of them."""
        good = np.delete(np.arange(rows), np.concatenate([bad for bad, _ in self._rows])) if self._rows else None
        count = len(self.torn) + (0 if good is None else rows - good.size)
        if count and not skip:
            raise InputError(self._told(count))
        return count, good

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
    """Take the ratings out of a table whose columns are encoded as dictionaries; seen is 1 where no column rates."""
    user, item, *rating = form.fields
    users, user_labels = _identities(table[user], user, bad)
    items, item_labels = _identities(table[item], item, bad)
    if rating:
        values = numbers(table[rating[0]], bad, low=form.low, high=form.high, what="the rating")
    else:
        values = np.ones(table.num_rows)
    times = _times(table[form.time], form.time, bad) if form.time in table.column_names else None
    place: Place = bad.place
    skipped, rows = bad.usable(table.num_rows, skip=skip)
    if rows is not None:
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

    >>> stand_apart(np.repeat([0.5, 3.0, 5.0, 99.0], [20, 50, 30, 2]))
    '2 ratings of 99 stand apart from all others, which lie from 0.5 to 5: if they are no ratings, drop their lines'
    >>> stand_apart(np.array([1, 1, 1, 1, 2, 2, 3, 40])), stand_apart(np.repeat([1.0, 5.0], 50))
    ('', '')
    """
    counted = pc.value_counts(pa.array(values))
    order = np.argsort(levels := np.asarray(counted.field("values"), np.float64))
    levels, counts = levels[order], np.asarray(counted.field("counts"), np.int64)[order]
    for sign in (1, -1):  # what stands above all others, then what stands below
        ends, multiplicities = (levels, counts) if sign == 1 else (-levels[::-1], counts[::-1])
        below, width, gap = np.cumsum(multiplicities), ends[:-1] - ends[0], np.diff(ends)
        tenth = np.searchsorted(ends, ends[:-1] - width / 10)
        last = below[:-1] - np.where(tenth > 0, below[tenth - 1], 0)
        wide = (gap > APART * width) & (width > 0) & (2 * below[:-1] > values.size)
        if (gaps := np.flatnonzero(wide & (last >= max(10, values.size / _THIN)))).size:
            others, beyond = np.sort(sign * ends[[0, gaps[0]]]), np.sort(sign * ends[[gaps[0] + 1, -1]])
            count = int(values.size - below[gaps[0]])
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

        dates = pd.to_datetime(pd.Series(_year_first(texts.to_pylist())), errors="coerce", utc=True, format="ISO8601")
        values = np.asarray((dates - pd.Timestamp(0, tz="UTC")).dt.total_seconds(), np.float64)
    if not np.isfinite(values).all():

        def reason(row: int, most: int) -> str:
            text = _text_of_column(texts, codes[row], most)
            open_order = _DATE.fullmatch(str(texts[int(codes[row])]))
            order = ", and days or months may come first: write the year first" if open_order else ""
            return f"has the {name} {text}, which is neither a number nor a date such as 2024-05-31{order}"

        bad.add(np.flatnonzero(~np.isfinite(values)[codes]), reason)
    return values[codes]


def _year_first(texts: list[str]) -> list[str]:
    """Return dates with day or month first as ISO 8601 has them; as they are where the file leaves open which it is.

    >>> _year_first(["31/12/2019", "1/2/2020 09:30"]), _year_first(["12/31/2019"]), _year_first(["01/02/2020"])
    (['2019-12-31', '2020-02-01 09:30'], ['2019-12-31'], ['01/02/2020'])
    """
    matches = [_DATE.fullmatch(str(text)) for text in texts]
    over = np.array([[int(one[1]), int(one[3])] for one in matches if one] or [[0, 0]]).max(axis=0) > _MONTHS
    if over[0] == over[1]:
        return texts
    day, month = (1, 3) if over[0] else (3, 1)
    return [
        f"{one[4]}-{one[month]:0>2}-{one[day]:0>2}{one[5]}" if one else text
        for one, text in zip(matches, texts, strict=True)
    ]


def numbers(
    column: pa.ChunkedArray, bad: Faults, *, low: float, high: float, what: str, mark: float | None = None
) -> Floats:
    """Return an encoded column as float64[rows]; what is no number from `low` to `high`, and no `mark`, is bad."""
    codes, texts = _decode(column)
    values = _to_float(texts)
    allowed: Bools = (values >= low) & (values <= high)
    if mark is not None:
        allowed |= values == mark
    if not allowed.all():
        or_mark = "" if mark is None else f" ({mark:g} means not rated)"

        def reason(row: int, most: int) -> str:
            fault = f"is outside {low:g} to {high:g}" if np.isfinite(values[codes[row]]) else "is no finite number"
            return f"has {what} {_text_of_column(texts, codes[row], most)}, which {fault}{or_mark}"

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


def _text_of_column(texts: pa.Array, code: int, most: int) -> str:
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


_TEXT = pa.dictionary(pa.int32(), pa.string())
_BLOCK = 1 << 24  # bytes parsed at a time
_GAP = "gap "
_ROW = re.compile(r"Row #(\d+): ")


def parse_text(file: RatingFile, form: RatingFormat, *, times: bool = False) -> tuple[pa.Table, Faults]:
    """Parse the text of ``file`` into columns of dictionary-encoded texts."""
    names = None if form.names is None else [name or f"{_GAP}{k}" for k, name in enumerate(form.names)]
    used = list(names) if names and form.wide else [*form.fields, *filter(None, [form.time if times else ""])]
    used += [name for name in names or () if name.startswith(_GAP)]  # nothing may stand there
    bad = Faults(file=file, first=1 if names else 2)

    def torn(row: Any) -> str:
        bad.torn.append((row.number, _torn(row, form)))
        return "skip"

    reading = pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=_BLOCK)
    parsing = pyarrow.csv.ParseOptions(
        delimiter=form.delimiter, quote_char='"' if form.quoted else False, invalid_row_handler=torn
    )
    converting = pyarrow.csv.ConvertOptions(
        include_columns=used,
        column_types=dict.fromkeys(used, _TEXT),
        null_values=[""],
        strings_can_be_null=False,
        check_utf8=False,
    )
    # Nothing is said of a torn row that is no UTF-8: the parser fails to decode it before it hands it on, and ends
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with (
            file.open() as opened,
            step(f"reading {file.name}", lambda: 1.0 if opened.closed else opened.tell() / file.size),
        ):
            table = pyarrow.csv.read_csv(
                opened, read_options=reading, parse_options=parsing, convert_options=converting
            )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # one line of names, without a line end
            need_ratings(0, file)
        if row := _ROW.search(str(error)):  # torn and not UTF-8: the parser cannot hand on what is in it
            line = file.line_number(int(row[1]))
            raise InputError(f"line {line} of {file.name} does not fit {form.name}: correct or drop it") from error
        raise unreadable(file.name, error) from error
    finally:
        sys.unraisablehook = hook
    need_ratings(table.num_rows + len(bad.torn), file)
    return _in_utf8(table, form, bad), bad


def _torn(row: Any, form: RatingFormat) -> Any:
    """Return what is wrong with a row that has too many columns or too few."""
    text, expected, actual = row.text[:60], row.expected_columns, row.actual_columns

    def reason(_: int, most: int) -> str:
        start = repr(text[:most])
        detail = start if form.delimiter == ":" else f"{actual} columns instead of {expected}: {start}"
        return f"does not fit {form.name} ({detail})"

    return reason


def _in_utf8(table: pa.Table, form: RatingFormat, bad: Faults) -> pa.Table:
    """Return the columns without gaps, their texts in UTF-8; other rows, and those with something in a gap, are bad."""
    columns = {}
    for name in table.column_names:
        codes, texts = _decode(table[name])
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            whole = [_text(one) for one in texts.cast(pa.binary()).to_pylist()]
            wrong = np.array([one is None for one in whole])
            bad.add(np.flatnonzero(wrong[codes]), lambda *_, name=name: f"has a '{name}' that is no UTF8")
            texts = pa.array(["?" if one is None else one for one in whole], pa.string())
        if name.startswith(_GAP):
            filled = np.flatnonzero(np.array([bool(one) for one in texts.to_pylist()], np.bool_)[codes])

            def reason(row: int, most: int, codes: Any = codes, texts: Any = texts) -> str:
                return f"does not fit {form.name} ({str(texts[int(codes[row])])[:most]!r} stands between its columns)"

            bad.add(filled, reason)
        else:
            columns[name] = pa.chunked_array([pa.DictionaryArray.from_arrays(codes, texts)])
    return pa.table(columns)


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


_UNRATED = 99.0  # Jester's mark of a joke that was not rated


def read_columns(
    file: RatingFile, columns: Columns | None, *, times: bool = False, skip: bool = False
) -> RatingColumns:
    """Read the ratings of ``file``, in a format recognised from its content."""
    try:
        if file.parquet:
            return _read_parquet(file, columns, times=times, skip=skip)
        form = recognise_text(file, columns)
        if form.wide:
            return _read_wide(file, form, skip=skip)
        table, bad = parse_text(file, form, times=times)
        return from_table(table, form, bad, skip=skip)
    except InputError:
        raise
    except (*DAMAGED_ARCHIVE, pa.ArrowException) as error:
        raise unreadable(file.name, error) from error


def _read_wide(file: RatingFile, form: RatingFormat, *, skip: bool) -> RatingColumns:
    table, bad = parse_text(file, form)
    count_name, *jokes = table.column_names
    counts = numbers(table[count_name], bad, low=0, high=len(jokes), what=f"the {count_name}")
    cells = np.empty((table.num_rows, len(jokes)))
    for column, joke in enumerate(jokes):
        cells[:, column] = numbers(
            table[joke], bad, low=form.low, high=form.high, what=f"for joke {joke} the rating", mark=_UNRATED
        )
    rated = cells != _UNRATED
    present = np.count_nonzero(rated, axis=1)
    bad.add(
        np.flatnonzero(counts != present),
        lambda row, _: f"says {counts[row]:g} ratings in its first column and holds {present[row]}",
    )
    skipped, good = bad.usable(len(cells), skip=skip)
    lines = np.arange(len(cells)) if good is None else good
    users, items = np.nonzero(rated[lines])
    need_ratings(users.size, file, skipped)
    return RatingColumns(
        users=users.astype(np.int32),
        items=items.astype(np.int32),
        values=cells[lines][rated[lines]],
        user_labels=pa.array([str(bad.number(int(line))) for line in lines]),
        item_labels=pa.array(jokes),
        place=lambda rating: bad.place(int(lines[users[rating]])),
        source=form.name,
        skipped=skipped,
    )


def _read_parquet(file: RatingFile, columns: Columns | None, *, times: bool, skip: bool) -> RatingColumns:
    with file.open() as opened:
        source = opened if file.member is None else io.BytesIO(opened.read())
        with pyarrow.parquet.ParquetFile(source) as parquet:
            require_rows(parquet, file.name)
            fields, time = choose_fields(parquet.schema_arrow.names, columns, file.name)
            time, bad = time if times else "", Faults(file=file, unit="row")
            need_ratings(parquet.metadata.num_rows, file)
            names, encoded = [*fields, *filter(None, [time])], dict[str, pa.ChunkedArray]()
            with counted_step(f"reading {file.name}", len(names)) as over:
                for name in names:  # as they are and encoded, all columns at once would take twice the memory
                    column = parquet.read(columns=[name])[name]
                    if name == time:
                        encoded[name] = column.cast(pa.string()).fill_null("").dictionary_encode()
                    else:
                        where = f"'{name}' of {file.name}"
                        encoded[name] = _encode(column, where, name, bad, rating=name in fields[2:])
                    del column
                    over()
    return from_table(pa.table(encoded), RatingFormat(name="Parquet", fields=fields, time=time), bad, skip=skip)


def _encode(column: pa.ChunkedArray, where: str, name: str, bad: Faults, *, rating: bool) -> pa.ChunkedArray:
    """Encode a Parquet column as a dictionary: of texts, or of numbers if it holds ratings."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    number = pa.types.is_integer(kind) or (rating and (pa.types.is_floating(kind) or pa.types.is_decimal(kind)))
    if not (text or number):
        raise InputError(f"column {where} holds {kind}: save it as {'numbers' if rating else 'integers or text'}")
    target = pa.float64() if rating and number else pa.string()
    if number and not column.null_count:  # the few numbers that there are become text, not every row's
        codes, values = _decode(column.dictionary_encode())
        return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, values.cast(target))])
    column = column.cast(target)
    if column.null_count:
        bad.add(np.flatnonzero(column.is_null().to_numpy()), lambda *_: f"has no '{name}'")
        column = column.fill_null(0.0 if rating and number else "")
    return column.dictionary_encode()
