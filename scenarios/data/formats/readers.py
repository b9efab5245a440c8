"""Readers of rating files: one rating a line, one user a line (Jester), and Parquet."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from coordinator.protocol.errors import InputError
from scenarios.data.formats.columns import Faults, RatingColumns, from_table, need_ratings, numbers
from scenarios.data.formats.opening import RatingFile, unreadable
from scenarios.data.formats.recognise import Columns, RatingFormat, choose_fields, recognise_text
from scenarios.data.formats.text import parse_text
from scenarios.given.files import DAMAGED_ARCHIVE, require_rows

_UNRATED = 99.0  # Jester's mark of a joke that was not rated


def read_columns(
    file: RatingFile, columns: Columns | None, *, times: bool = False, skip: bool = False
) -> RatingColumns:
    """Read the ratings of ``file``, in a format recognised from its content.

    Parameters
    ----------
    file : RatingFile
        An opened file.
    columns : tuple of str or None
        See `recognise_text`; None to recognise them.
    times : bool
        Whether to read when ratings were given, where the file tells.
    skip : bool
        Whether to leave out lines that cannot be read; they are counted.

    Returns
    -------
    RatingColumns
        At least one rating, in the file's order.

    Raises
    ------
    InputError
        If the format is not known, or a row does not fit it; see `scenarios.data.datasets.read_ratings`.
    """
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
    held = np.count_nonzero(rated, axis=1)
    bad.add(
        np.flatnonzero(counts != held),
        lambda row, _: f"says {counts[row]:g} ratings in its first column and holds {held[row]}",
    )
    skipped, good = bad.dealt_with(len(cells), skip=skip), bad.good(len(cells))
    lines = np.arange(len(cells)) if good is None else np.flatnonzero(good)
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
            time = time if times else ""
            table = parquet.read(columns=[*fields, *filter(None, [time])])
    need_ratings(table.num_rows, file)
    bad = Faults(file=file, unit="row")
    encoded = {
        name: _encode(table[name], f"'{name}' of {file.name}", name, bad, rating=name in fields[2:]) for name in fields
    }
    if time:
        encoded[time] = table[time].cast(pa.string()).fill_null("").dictionary_encode()
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
    column = column.cast(pa.float64() if rating and number else pa.string())
    if column.null_count:
        bad.add(np.flatnonzero(column.is_null().to_numpy()), lambda *_: f"has no '{name}'")
        column = column.fill_null(0.0 if rating and number else "")
    return column.dictionary_encode()
