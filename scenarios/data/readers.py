"""Readers of rating files: columns in the file's own order, from lines of text, JSON lines or Parquet."""

import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints
from coordinator.protocol.errors import InputError
from scenarios.config.files import require_rows
from scenarios.data.formats import DOTS, Columns, RatingFormat, choose_fields, first_object, head_of, recognise_text
from scenarios.data.packed_files import UNREADABLE, DataFile, unreadable
from scenarios.data.text_records import BLOCK, NO_UTF8, SEPARATOR, TORN, Records, line_numbers, text_of, whole_records
from scenarios.data.values import day_or_month_first, perhaps_unrated, stand_apart, to_floats, to_seconds
from scenarios.log import counted_step, step

Location = Callable[[int], str]
Reason = Callable[[int, int], str]
"""From a row, and how many characters of its text may be repeated, to what is wrong with it."""
MOST_LINES = 10  # Bad lines that an error names
BATCH = 256  # Rows of Parquet that are read at a time where texts have no dictionary
LONGEST_ID = 1000  # Characters of an id; a longer text is none
_LONG, _SHORT = 60, 12
_NUMERIC = r"^\s*-?[0-9]{1,18}(\.0+)?\s*$"
_INTEGER = r"^-?[0-9]+$"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingColumns:
    """Ratings in the file's own order."""

    users: Indices  # int32[ratings], positions in the labels
    items: Indices
    values: Floats  # float64[ratings], finite and in the format's range
    user_labels: pa.StringArray  # The file's own ids, each once, in no special order
    item_labels: pa.StringArray
    location: Location  # From a rating, from 0, to where it stands in the file, in words
    source: str  # The format's name
    # float64[ratings], when each was given, in seconds of any origin; None where that was not read
    times: Floats | None = None
    skipped: int = 0  # Bad lines that were left out
    unrated: int = 0  # Lines without a rating that were left out
    remarks: tuple[str, ...] = ()  # What is strange about the file, warnings among it

    def __repr__(self) -> str:
        return f"RatingColumns({len(self.values)} ratings, {self.source})"


@dataclass(slots=True, kw_only=True)
class Faults:
    """The lines of a file that cannot be read, and why."""

    file: DataFile
    form: RatingFormat | None = None  # Of text in records; other files have a row or a line of their own each
    unit: str = "line"  # What a row is called, a line of text or a row of Parquet
    # Numbers of rows that the parser left out, ascending, and why; they are no rows of its table
    torn: list[tuple[int, Reason]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    _rows: list[tuple[Ints, Reason]] = field(default_factory=list)
    _empty: tuple[Ints, str] = (np.zeros(0, np.int64), "")

    def add(self, rows: Ints, reason: Reason) -> None:
        """Count rows of the table as bad; each is reported with the first reason that was added."""
        if rows.size:
            self._rows.append((rows, reason))

    def leave_empty(self, rows: Ints, name: str) -> None:
        """Count rows of the table whose column of this name holds nothing; they are told apart from bad ones."""
        self._empty = rows, name

    def numbers(self, rows: Sequence[int]) -> list[int]:
        """Return the numbers of rows of the table among the file's records, from 1."""
        torn, numbers = np.array([number for number, _ in self.torn], np.int64), np.asarray(rows, np.int64) + 1
        ordered: list[int] = (numbers + np.searchsorted(torn - np.arange(torn.size), numbers, side="right")).tolist()
        return ordered

    def describe_torn(self) -> str:
        """Return where the first line is that the parser left out, and why."""
        number, reason = self.torn[0]
        return f"{self._where([number])[0]} {reason(number, _LONG)}"

    def location(self, row: int) -> str:
        """Return where a row of the table stands, in words."""
        return self._where(self.numbers([row]))[0] + f" of {self.file.name}"

    def usable(self, rows: int, *, skip: bool) -> tuple[int, int, Ints | None]:
        """Return how many lines are bad, how many hold no rating, and the rows that can be used; None for all."""
        bad = np.unique(np.concatenate([bad for bad, _ in self._rows])) if self._rows else np.zeros(0, np.int64)
        empty, name = np.setdiff1d(self._empty[0], bad), self._empty[1]
        count = len(self.torn) + bad.size
        if (count or empty.size) and not skip:
            parts = [self._fault_list(count)] if count else []
            if empty.size == 1 and not count:
                parts = [f"{self.location(int(empty[0]))} has no '{name}'"]
            elif empty.size:
                besides = f"{empty.size:,} {self.unit}s of {self.file.name}" if not count else f"{empty.size:,} others"
                first = self._where(self.numbers([int(empty[0])]))[0]
                parts.append(f"{besides} have no '{name}', {first} the first")
            those = "them" if count + empty.size > 1 else "it"
            raise InputError(f"{'; '.join(parts)}: correct or drop {those}, or leave {those} out by --bad-lines skip")
        gone = np.concatenate([bad, empty])
        return count, empty.size, np.delete(np.arange(rows), gone) if gone.size else None

    def _fault_list(self, count: int) -> str:
        reasons: dict[int, tuple[int, Reason]] = {}
        for number, reason in self.torn[:MOST_LINES]:
            reasons[number] = (number, reason)
        for rows, reason in self._rows:
            first = [int(row) for row in np.sort(rows)[:MOST_LINES]]
            for number, row in zip(self.numbers(first), first, strict=True):
                reasons.setdefault(number, (row, reason))
        numbers = sorted(reasons)[:MOST_LINES]
        places = self._where(numbers)
        if count == 1:
            row, reason = reasons[numbers[0]]
            return f"{places[0]} of {self.file.name} {reason(row, _LONG)}"
        lines = [
            f"{location} {reasons[n][1](reasons[n][0], _SHORT)}" for n, location in zip(numbers, places, strict=True)
        ]
        more = [f"and {count - len(lines):,} more"] if count > len(lines) else []
        return f"{count:,} {self.unit}s of {self.file.name} cannot be read: {'; '.join([*lines, *more])}"

    def _where(self, numbers: Sequence[int]) -> list[str]:
        lines = {} if self.form is None else line_numbers(self.file, self.form, numbers)
        return [f"{self.unit} {lines.get(number, number)}" for number in numbers]


def from_table(
    table: pa.Table, form: RatingFormat, bad: Faults, *, skip: bool, unrated: float | None = None
) -> RatingColumns:
    """Take the ratings out of a table whose columns are encoded as dictionaries; seen is 1 where no column rates."""
    user, item, *rating = form.fields
    users, user_labels = _identities(table[user], user, bad)
    items, item_labels = _identities(table[item], item, bad)
    marked = np.zeros(table.num_rows, np.bool_)
    if rating:
        values = _ratings(table[rating[0]], rating[0], form, bad, unrated)
        marked = values == unrated if unrated is not None else marked
    else:
        values = np.ones(table.num_rows)
    times = _times(table[form.time], form.time, bad) if form.time in table.column_names else None
    skipped, empty, rows = bad.usable(table.num_rows, skip=skip)
    if marked.any():
        there = np.arange(table.num_rows) if rows is None else rows
        rows = there[~marked[there]]
        empty += there.size - rows.size
    location: Location = bad.location
    if rows is not None:
        users, user_labels = _used(users[rows], user_labels)
        items, item_labels = _used(items[rows], item_labels)
        values, times = values[rows], None if times is None else times[rows]
        location = lambda rating: bad.location(int(rows[rating]))  # noqa: E731 (a function of rows that are left)
    need_ratings(values.size, bad.file, skipped, empty)
    warnings = [] if form.stated else [stand_apart(values), perhaps_unrated(values)]
    return RatingColumns(
        users=users,
        items=items,
        values=values,
        user_labels=user_labels,
        item_labels=item_labels,
        location=location,
        source=form.name,
        times=times,
        skipped=skipped,
        unrated=empty,
        remarks=(*bad.remarks, *(f"warning: {line}" for line in warnings if line)),
    )


def need_ratings(count: int, file: DataFile, skipped: int = 0, unrated: int = 0) -> None:
    """Refuse a file that holds no rating."""
    if count == 0:
        parts = [f"{skipped:,} bad lines"] if skipped else []
        parts += [f"{unrated:,} lines without one"] if unrated else []
        besides = f" besides {' and '.join(parts)}" if parts else ""
        raise InputError(f"{file.name} holds no rating{besides}: give a file with at least one")


def _ratings(column: pa.ChunkedArray, name: str, form: RatingFormat, bad: Faults, unrated: float | None) -> Floats:
    """Read ratings, some possibly empty; if none is a number, report the common reason once."""
    codes, texts = _decode(column)
    if pa.types.is_string(texts.type):
        nothing = pc.equal(pc.utf8_trim_whitespace(texts), "").to_numpy(zero_copy_only=False)
    else:
        nothing = np.zeros(len(texts), np.bool_)
    empty = nothing[codes]
    values, way = to_floats(texts)
    if not np.isfinite(values).any() and not empty.all():
        row = int(np.flatnonzero(~empty)[0])
        shown = _text_of_column(texts, codes[row], _LONG)
        raise InputError(
            f"{bad.file.name} has no finite number in its column '{name}': {bad.location(row).partition(' of ')[0]} "
            f"holds {shown}; write numbers there, or name the column of ratings by --columns"
        )
    if way:
        bad.remarks.append(f"ratings are written {way}, and read so")
    if empty.any():  # of numbers the reader has said so
        bad.leave_empty(np.flatnonzero(empty), name)
    return _in_range(
        codes, texts, values, bad, low=form.low, high=form.high, what="the rating", also=unrated, but=nothing
    )


def _times(column: pa.ChunkedArray, name: str, bad: Faults) -> Floats:
    """Read times: numbers, or dates as text."""
    codes, texts = _decode(column)
    values = to_seconds(texts)
    if not np.isfinite(values).all():

        def reason(row: int, most: int) -> str:
            text = _text_of_column(texts, codes[row], most)
            open_order = day_or_month_first(str(texts[int(codes[row])]))
            order = ", and days or months may come first: write the year first" if open_order else ""
            return f"has the {name} {text}, which is neither a number nor a date such as 2024-05-31{order}"

        if not np.isfinite(values).any():
            raise InputError(f"{bad.file.name} has no times: {bad.location(0).partition(' of ')[0]} {reason(0, _LONG)}")
        bad.add(np.flatnonzero(~np.isfinite(values)[codes]), reason)
    return values[codes]


def numbers(
    column: pa.ChunkedArray, bad: Faults, *, low: float, high: float, what: str, mark: float | None = None
) -> Floats:
    """Return an encoded column as float64[rows]; what is no number from `low` to `high`, and no `mark`, is bad."""
    codes, texts = _decode(column)
    values, _ = to_floats(texts)
    return _in_range(codes, texts, values, bad, low=low, high=high, what=what, also=mark)


def _in_range(
    codes: Indices,
    texts: pa.Array,
    values: Floats,
    bad: Faults,
    *,
    low: float,
    high: float,
    what: str,
    also: float | None,
    but: Bools | None = None,
) -> Floats:
    allowed: Bools = (values >= low) & (values <= high)
    if also is not None:
        allowed |= values == also
    if but is not None:
        allowed |= but
    if not allowed.all():
        or_mark = "" if also is None else f" ({also:g} means not rated)"

        def reason(row: int, most: int) -> str:
            fault = f"is outside {low:g} to {high:g}" if np.isfinite(values[codes[row]]) else "is no finite number"
            return f"has {what} {_text_of_column(texts, codes[row], most)}, which {fault}{or_mark}"

        bad.add(np.flatnonzero(~allowed[codes]), reason)
    return values[codes]


def _identities(column: pa.ChunkedArray, name: str, bad: Faults) -> tuple[Indices, pa.StringArray]:
    """Return the user or item of each row as an index into unique labels."""
    codes, labels = _decode(column)
    empty = pc.index(labels, "").as_py()
    if empty >= 0:
        bad.add(np.flatnonzero(codes == empty), lambda *_: f"has no '{name}'")
    lengths = pc.utf8_length(labels).to_numpy()
    if (long := lengths > LONGEST_ID).any():

        def reason(row: int, _: int) -> str:
            return f"has a '{name}' of {lengths[codes[row]]:,} characters, and an id has at most {LONGEST_ID:,}"

        bad.add(np.flatnonzero(long[codes]), reason)
        labels = pc.if_else(pa.array(long), pa.array([f"{number}" for number in range(len(labels))]), labels)
    labels = plain_ids(labels)
    once = labels.dictionary_encode()
    if len(once.dictionary) < len(labels):
        codes, labels = once.indices.to_numpy()[codes].astype(np.int32), once.dictionary
    return codes, labels


def plain_ids(labels: pa.StringArray) -> pa.StringArray:
    """Return ids as they are; where all are whole numbers without spaces and zeros after a point, as programs write.

    >>> plain_ids(pa.array([" 7.0", "12"])).to_pylist(), plain_ids(pa.array([" 7.0", "b"])).to_pylist()
    (['7', '12'], [' 7.0', 'b'])
    """
    if not _all_match(labels, _NUMERIC) or _all_match(labels, _INTEGER):
        return labels
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(labels), r"\.0+$", "")


def _all_match(labels: pa.StringArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(labels, pattern)).as_py())


def _used(codes: Indices, labels: pa.StringArray) -> tuple[Indices, pa.StringArray]:
    """Return renumbered codes, and only the labels that they use."""
    used = np.bincount(codes, minlength=len(labels)) > 0
    return (np.cumsum(used) - 1).astype(np.int32)[codes], labels.filter(pa.array(used))


def _text_of_column(texts: pa.Array, code: int, most: int) -> str:
    """Return a text as an error repeats it, without its end if it is long."""
    return repr(str(texts[int(code)])[:most])


def _decode(column: pa.ChunkedArray) -> tuple[Indices, pa.Array]:
    array = column.combine_chunks()
    return array.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False), array.dictionary


_TEXT = pa.dictionary(pa.int32(), pa.string())


def parse_text(file: DataFile, form: RatingFormat, used: Sequence[str]) -> tuple[pa.Table, Faults]:
    """Parse some columns of the text of ``file`` into dictionary-encoded texts."""
    bad, records = Faults(file=file, form=form), Records(file, form)
    quoted = iter(records.torn)  # grows while the parser reads

    def torn(row: Any) -> str:
        begin = next(quoted) if row.text == TORN.decode() else None
        bad.torn.append((row.number, _torn(row, form) if begin is None else _quoted(begin)))
        return "skip"

    places = [str(number) for number, _ in enumerate(form.names)]  # names may be there twice
    numbers = [form.names.index(name) for name in used]
    reading = pyarrow.csv.ReadOptions(use_threads=False, column_names=places, block_size=BLOCK)
    parsing = pyarrow.csv.ParseOptions(
        delimiter=SEPARATOR if form.delimiter == DOTS else form.delimiter,
        quote_char='"' if form.quoted else False,
        newlines_in_values=form.quoted,
        invalid_row_handler=torn,
    )
    converting = pyarrow.csv.ConvertOptions(
        include_columns=[places[number] for number in numbers],
        column_types=dict.fromkeys(places, _TEXT),
        null_values=[""],
        strings_can_be_null=False,
        check_utf8=False,
    )
    try:
        with records, step(f"reading {file.name}", lambda: 1.0 if records.closed else records.tell() / file.size):
            table = pyarrow.csv.read_csv(
                records, read_options=reading, parse_options=parsing, convert_options=converting
            )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # one line of names, and nothing below
            need_ratings(0, file)
        raise unreadable(file.name, error) from error
    need_ratings(table.num_rows + len(bad.torn), file)
    if not table.num_rows and len(bad.torn) > 1:
        raise InputError(
            f"no line of {file.name} is as its names say: {bad.describe_torn()}; correct the line of names"
        )
    if records.over_lines:
        first, last = records.first_over_lines
        several = f"{records.over_lines:,} records of {file.name} go" if records.over_lines > 1 else "a record goes"
        bad.remarks.append(
            f"{several} over several lines, lines {first} to {last} {'the first' if records.over_lines > 1 else 'of '}"
            f"{'' if records.over_lines > 1 else file.name}: where a quote is missing, lines are lost so"
        )
    table = table.rename_columns(list(used))
    return _in_utf8(table, bad), bad


def _torn(row: Any, form: RatingFormat) -> Reason:
    """Return what is wrong with a row that has too many columns or too few."""
    text, expected, actual = text_of(row.text[:60].encode()), row.expected_columns, row.actual_columns
    return lambda _, most: f"does not fit {form.name} ({actual} columns instead of {expected}: {text[:most]!r})"


def _quoted(begin: str) -> Reason:
    return lambda _, most: f"has a quote that nothing closes, or text after a closing one ({begin[:most]!r})"


def _in_utf8(table: pa.Table, bad: Faults) -> pa.Table:
    """Return the columns, and count rows as bad with bytes that were no UTF-8."""
    for name in table.column_names:
        codes, texts = _decode(table[name])
        wrong = pc.match_substring(texts, NO_UTF8).to_numpy(zero_copy_only=False)
        if wrong.any():
            bad.add(np.flatnonzero(wrong[codes]), lambda *_, name=name: f"has a '{name}' that is no UTF8")
    return table


_UNRATED = 99.0  # Jester's mark of a joke that was not rated


def read_columns(
    file: DataFile,
    columns: Columns | None,
    *,
    times: bool = False,
    skip: bool = False,
    unrated: float | None = None,
) -> RatingColumns:
    """Read the ratings of ``file``, in a format recognised from its content."""
    how: dict[str, Any] = {"skip": skip, "unrated": unrated}
    try:
        if file.parquet:
            return _read_parquet(file, columns, times=times, **how)
        head = head_of(file)
        if first_object(file, head) is not None:
            return _read_json_lines(file, head.number - 1, columns, times=times, **how)
        form = recognise_text(file, head, columns)
        if form.wide:
            return _read_wide(file, form, skip=skip)
        table, bad = parse_text(file, form, [*form.fields, *filter(None, [form.time if times else ""])])
        return from_table(table, form, bad, **how)
    except InputError:
        raise
    except UNREADABLE as error:
        raise unreadable(file.name, error) from error


def _read_wide(file: DataFile, form: RatingFormat, *, skip: bool) -> RatingColumns:
    table, bad = parse_text(file, form, form.names)
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
    skipped, _, good = bad.usable(len(cells), skip=skip)
    lines = np.arange(len(cells)) if good is None else good
    users, items = np.nonzero(rated[lines])
    need_ratings(users.size, file, skipped)
    return RatingColumns(
        users=users.astype(np.int32),
        items=items.astype(np.int32),
        values=cells[lines][rated[lines]],
        user_labels=pa.array([str(number) for number in bad.numbers(lines.tolist())]),
        item_labels=pa.array(jokes),
        location=lambda rating: bad.location(int(lines[users[rating]])),
        source=form.name,
        skipped=skipped,
    )


def _read_json_lines(
    file: DataFile, above: int, columns: Columns | None, *, times: bool, skip: bool, unrated: float | None
) -> RatingColumns:
    objects = [json_object for line in file.head.splitlines()[:100] if (json_object := _object(line))]
    header = list(dict.fromkeys(name for json_object in objects for name in json_object))
    fields, time = choose_fields(header, columns, file.name)
    form = RatingFormat(name="JSON lines", fields=fields, time=time if times else "", names=("line",), above=above)
    table, bad = json_columns(file, form, [*form.fields, *filter(None, [form.time])])
    return from_table(table, form, bad, skip=skip, unrated=unrated)


def json_columns(file: DataFile, form: RatingFormat, used: Sequence[str]) -> tuple[pa.Table, Faults]:
    """Return some values of JSON lines as columns of dictionary-encoded texts."""
    bad, row, broken = Faults(file=file, form=form), 0, dict[int, str]()
    codes = [array("i") for _ in used]
    places: list[dict[str, int]] = [{} for _ in used]
    with (
        file.open() as opened,
        step(f"reading {file.name}", lambda: 1.0 if opened.closed else opened.tell() / file.size),
    ):
        for block, _, _ in whole_records(opened, form, file.name):
            for line in filter(None, block.split(b"\n")):
                json_object = _object(line)
                if json_object is None:
                    broken[row] = text_of(line[:_LONG])
                for name, column, index in zip(used, codes, places, strict=True):
                    text = _json_text((json_object or {}).get(name))
                    if text is None:
                        broken[row], text = text_of(line[:_LONG]), ""
                    column.append(index.setdefault(text, len(index)))
                row += 1
    need_ratings(row, file)
    rows = np.array(list(broken), np.int64)
    bad.add(rows, lambda row, most: f"is no object of JSON with {' and '.join(used)} ({broken[row][:most]!r})")
    columns = [
        pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(np.frombuffer(code, np.int32)), pa.array([*index]))])
        for code, index in zip(codes, places, strict=True)
    ]
    return _in_utf8(pa.table(columns, names=list(used)), bad), bad


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _json_text(value: Any) -> str | None:
    """Return a value of JSON as text, nothing for null; None for a list or an object."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value) if isinstance(value, (bool, int, float)) else None


def _read_parquet(
    file: DataFile, columns: Columns | None, *, times: bool, skip: bool, unrated: float | None
) -> RatingColumns:
    with file.seekable() as opened, pyarrow.parquet.ParquetFile(opened) as parquet:
        schema = parquet.schema_arrow
        fields, time = choose_fields(schema.names, columns, file.name)
        changes = _changes(parquet)
    time = time if times else ""
    names, bad = [*fields, *filter(None, [time])], Faults(file=file, unit="row")
    encoded = dict[str, pa.ChunkedArray]()
    # Texts stay as the file has them, each once: a few kilobytes may repeat one of megabytes in every row
    texts = [name for name in names if any(check(schema.field(name).type) for check in _TEXTS[1:])]
    changes = changes.intersection(texts)
    texts = [name for name in texts if name not in changes]
    with file.seekable() as opened, pyarrow.parquet.ParquetFile(opened, read_dictionary=texts) as parquet:
        require_rows(parquet, file.name)
        need_ratings(parquet.metadata.num_rows, file)
        with counted_step(f"reading {file.name}", len(names)) as on_progress:
            for name in names:  # as they are and encoded, all columns at once would take twice the memory
                column = _in_batches(parquet, name) if name in changes else parquet.read(columns=[name])[name]
                where = f"'{name}' of {file.name}"
                encoded[name] = _encode(column, where, name, bad, rating=name in fields[2:], time=name == time)
                del column
                on_progress()
    form = RatingFormat(name="Parquet", fields=fields, time=time)
    return from_table(pa.table(encoded), form, bad, skip=skip, unrated=unrated)


def _changes(parquet: Any) -> set[str]:
    """Return the Parquet columns of texts in delta encoding, which has no dictionary."""
    groups = [parquet.metadata.row_group(group) for group in range(parquet.metadata.num_row_groups)]
    columns = [group.column(column) for group in groups for column in range(group.num_columns)]
    return {column.path_in_schema for column in columns if any(name.startswith("DELTA") for name in column.encodings)}


def _in_batches(parquet: Any, name: str) -> pa.ChunkedArray:
    """Return a column as a dictionary that is made a few rows at a time: each may be a text of megabytes."""
    batches = parquet.iter_batches(batch_size=BATCH, columns=[name])
    return pa.chunked_array([batch.column(0).dictionary_encode() for batch in batches])


_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_TEXTS = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def _encode(
    column: pa.ChunkedArray, where: str, name: str, bad: Faults, *, rating: bool, time: bool
) -> pa.ChunkedArray:
    """Encode a Parquet column as a dictionary: of texts, or of numbers if it holds ratings."""
    if pa.types.is_nested(column.type):
        raise InputError(
            f"column {where} holds {column.type}: save it as {'numbers' if rating else 'integers or text'}"
        )
    array = (column if pa.types.is_dictionary(column.type) else column.dictionary_encode()).combine_chunks()
    kind, values = array.type.value_type, array.dictionary
    if time:
        values = values.cast(pa.string()).fill_null("")
    elif rating and any(check(kind) for check in _NUMBERS):
        values = values.cast(pa.float64())
    elif rating and pa.types.is_boolean(kind):
        values = values.cast(pa.int8()).cast(pa.float64())
    elif pa.types.is_floating(kind) and pc.all(pc.equal(pc.floor(values), values), min_count=0).as_py():
        values = values.cast(pa.int64(), safe=False).cast(pa.string())  # as pandas keeps whole numbers with gaps
    elif any(check(kind) for check in _TEXTS):
        values = values.cast(pa.string())
    else:
        remedy = "numbers" if rating else "integers or text"
        raise InputError(f"column {where} holds {kind}: save it as {remedy}")
    missing = array.is_null()
    indices = array.indices.cast(pa.int32())
    if pc.any(missing).as_py():
        if rating:
            bad.leave_empty(np.flatnonzero(missing.to_numpy(zero_copy_only=False)), name)
        filler = pa.array([0.0 if pa.types.is_floating(values.type) else ""], values.type)
        indices = pc.fill_null(pc.if_else(missing, None, indices), len(values))
        values = pa.concat_arrays([values, filler])
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, values)])
