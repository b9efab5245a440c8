"""Parsing the text of a rating file into columns, and saying where a row of it stands."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.csv

from coordinator.protocol.errors import InputError
from scenarios.data.formats.columns import Place
from scenarios.data.formats.opening import RatingFile, unreadable
from scenarios.data.formats.recognise import RatingFormat

_TEXT = pa.dictionary(pa.int32(), pa.string())
_BLOCK = 1 << 24  # bytes parsed at a time
_GAP = "gap "
_ROW = re.compile(r"Row #(\d+): (?:Expected (\d+) columns, got (\d+): )?(.*)")
"""What the parser says of a row that is wrong."""


def parse_text(file: RatingFile, form: RatingFormat, *, times: bool = False) -> pa.Table:
    """Parse the text of ``file`` into columns of dictionary-encoded texts.

    Returns
    -------
    pyarrow.Table
        At least one row. The columns of user, item and rating, that of times where ``times`` asks for it and there is
        one, or all columns of a wide format. Empty lines are passed over; an empty value is an empty text.

    Raises
    ------
    InputError
        If a row has more or fewer columns than are due, is not UTF-8, or there is no row.
    """
    names = None if form.names is None else [name or f"{_GAP}{k}" for k, name in enumerate(form.names)]
    used = list(names) if names and form.wide else [*form.fields, *filter(None, [form.time if times else ""])]
    used += [name for name in names or () if name.startswith(_GAP)]  # nothing may stand there
    types = {name: pa.null() if names and name.startswith(_GAP) else _TEXT for name in used}
    reading = pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=_BLOCK)
    parsing = pyarrow.csv.ParseOptions(delimiter=form.delimiter, quote_char='"' if form.quoted else False)
    converting = pyarrow.csv.ConvertOptions(
        include_columns=used, column_types=types, null_values=[""], strings_can_be_null=False
    )
    try:
        with file.open() as opened:
            table = pyarrow.csv.read_csv(
                opened, read_options=reading, parse_options=parsing, convert_options=converting
            )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # one line of names, without a line end
            need_ratings(0, file)
        raise _malformed(file, form, error) from error
    need_ratings(table.num_rows, file)
    return table


def text_place(file: RatingFile, form: RatingFormat) -> Place:
    """Return a function from a row of ratings, from 0, to the line of ``file`` it stands on, in words."""
    first = 1 if form.names is not None else 2
    return lambda row: f"line {file.line_number(row + first)} of {file.name}"


def need_ratings(count: int, file: RatingFile) -> None:
    """Refuse a file that holds no rating."""
    if count == 0:
        raise InputError(f"{file.name} holds no rating: give a file with at least one")


def _malformed(file: RatingFile, form: RatingFormat, error: Exception) -> InputError:
    """Name the line at which parsing failed."""
    found = _ROW.search(str(error))
    if found is None:
        return unreadable(file.name, error)
    number, due, held, reason = found.groups()
    if due is not None:
        reason = repr(reason[:60])
        if form.delimiter != ":":
            reason = f"{held} columns instead of {due}: {reason}"
    line = file.line_number(int(number))
    return InputError(f"line {line} of {file.name} does not fit {form.name} ({reason}): correct or drop it")
