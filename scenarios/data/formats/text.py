"""Parsing the text of a rating file into columns, with what is wrong with its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from scenarios.data.formats.columns import Faults, need_ratings
from scenarios.data.formats.opening import RatingFile, unreadable
from scenarios.data.formats.recognise import RatingFormat

_TEXT = pa.dictionary(pa.int32(), pa.string())
_BLOCK = 1 << 24  # bytes parsed at a time
_GAP = "gap "


def parse_text(file: RatingFile, form: RatingFormat, *, times: bool = False) -> tuple[pa.Table, Faults]:
    """Parse the text of ``file`` into columns of dictionary-encoded texts.

    Returns
    -------
    pyarrow.Table
        The columns of user, item and rating, that of times where ``times`` asks for it and there is one, or all columns
        of a wide format. Empty lines are passed over; an empty value is an empty text.
    Faults
        Rows that have more or fewer columns than are due, which the table leaves out, and those that are not UTF-8.

    Raises
    ------
    InputError
        If there is no row at all, or the file cannot be read.
    """
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
    try:
        with file.open() as opened:
            table = pyarrow.csv.read_csv(
                opened, read_options=reading, parse_options=parsing, convert_options=converting
            )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # one line of names, without a line end
            need_ratings(0, file)
        raise unreadable(file.name, error) from error
    need_ratings(table.num_rows + len(bad.torn), file)
    return _in_utf8(table, form, bad), bad


def _torn(row: Any, form: RatingFormat) -> Any:
    """Return what is wrong with a row that has too many columns or too few."""
    text, expected, actual = row.text[:60], row.expected_columns, row.actual_columns

    def reason(_: int, most: int) -> str:
        start = repr(text[:most])
        told = start if form.delimiter == ":" else f"{actual} columns instead of {expected}: {start}"
        return f"does not fit {form.name} ({told})"

    return reason


def _in_utf8(table: pa.Table, form: RatingFormat, bad: Faults) -> pa.Table:
    """Return the columns without gaps, their texts in UTF-8; other rows, and those with something in a gap, are bad."""
    columns = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        codes, texts = column.indices.to_numpy(zero_copy_only=False), column.dictionary
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            whole = [_text(one) for one in texts.cast(pa.binary()).to_pylist()]
            wrong = np.array([one is None for one in whole])
            bad.add(np.flatnonzero(wrong[codes]), lambda *_, name=name: f"has a '{name}' that is no UTF8")
            texts = pa.array(["?" if one is None else one for one in whole], pa.string())
            column = pa.DictionaryArray.from_arrays(column.indices, texts)
        if name.startswith(_GAP):
            filled = np.flatnonzero(np.array([bool(one) for one in texts.to_pylist()], np.bool_)[codes])

            def reason(row: int, most: int, codes: Any = codes, texts: Any = texts) -> str:
                return f"does not fit {form.name} ({str(texts[int(codes[row])])[:most]!r} stands between its columns)"

            bad.add(filled, reason)
        else:
            columns[name] = pa.chunked_array([column])
    return pa.table(columns)


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
