"""Readers of rating files: one rating a line, one user a line (Jester), and Parquet."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from coordinator.protocol.errors import InputError
from scenarios.data.formats.columns import Place, RatingColumns, from_table, numbers
from scenarios.data.formats.opening import RatingFile, unreadable
from scenarios.data.formats.recognise import Columns, RatingFormat, choose_fields, recognise_text
from scenarios.data.formats.text import need_ratings, parse_text, text_place
from scenarios.given.files import DAMAGED_ARCHIVE, require_rows

_UNRATED = 99.0  # Jester's mark of a joke that was not rated


def read_columns(file: RatingFile, columns: Columns | None, *, times: bool = False) -> RatingColumns:
    """Read the ratings of ``file``, in a format recognised from its content.

    Parameters
    ----------
    file : RatingFile
        An opened file.
    columns : tuple of str or None
        See `recognise_text`; None to recognise them.
    times : bool
        Whether to read when ratings were given, where the file tells.

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
            return _read_parquet(file, columns, times=times)
        form = recognise_text(file, columns)
        return _read_wide(file, form) if form.wide else _read_long(file, form, times=times)
    except InputError:
        raise
    except (*DAMAGED_ARCHIVE, pa.ArrowException) as error:
        raise unreadable(file.name, error) from error


def _read_long(file: RatingFile, form: RatingFormat, *, times: bool) -> RatingColumns:
    table = parse_text(file, form, times=times)
    return from_table(table, form, text_place(file, form))


def _read_wide(file: RatingFile, form: RatingFormat) -> RatingColumns:
    table = parse_text(file, form)
    place = text_place(file, form)
    count_name, *jokes = table.column_names
    counts = numbers(table[count_name], place, low=0, high=len(jokes), what=f"the {count_name}")
    cells = np.empty((table.num_rows, len(jokes)))
    for column, joke in enumerate(jokes):
        cells[:, column] = numbers(
            table[joke], place, low=form.low, high=form.high, what=f"for joke {joke} the rating", mark=_UNRATED
        )
    rated = cells != _UNRATED
    held = np.count_nonzero(rated, axis=1)
    wrong = np.flatnonzero(counts != held)
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            f"{place(row)} says {counts[row]:g} ratings in its first column and holds {held[row]}: correct one of them"
        )
    need_ratings(int(held.sum()), file)
    users, items = np.nonzero(rated)
    return RatingColumns(
        users=users.astype(np.int32),
        items=items.astype(np.int32),
        values=cells[rated],
        user_labels=pa.array([str(user) for user in range(1, len(cells) + 1)]),
        item_labels=pa.array(jokes),
        place=lambda rating: place(int(users[rating])),
        source=form.name,
    )


def _read_parquet(file: RatingFile, columns: Columns | None, *, times: bool) -> RatingColumns:
    def place(row: int) -> str:
        return f"row {row + 1} of {file.name}"

    with file.open() as opened:
        source = opened if file.member is None else io.BytesIO(opened.read())
        with pyarrow.parquet.ParquetFile(source) as parquet:
            require_rows(parquet, file.name)
            fields, time = choose_fields(parquet.schema_arrow.names, columns, file.name)
            time = time if times else ""
            table = parquet.read(columns=[*fields, *filter(None, [time])])
    need_ratings(table.num_rows, file)
    encoded = {
        name: _encode(table[name], f"'{name}' of {file.name}", name, place, rating=name in fields[2:])
        for name in fields
    }
    if time:
        encoded[time] = table[time].cast(pa.string()).dictionary_encode()
    return from_table(pa.table(encoded), RatingFormat(name="Parquet", fields=fields, time=time), place)


def _encode(column: pa.ChunkedArray, where: str, name: str, place: Place, *, rating: bool) -> pa.ChunkedArray:
    """Encode a Parquet column as a dictionary: of texts, or of numbers if it holds ratings."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    number = pa.types.is_integer(kind) or (rating and (pa.types.is_floating(kind) or pa.types.is_decimal(kind)))
    if not (text or number):
        raise InputError(f"column {where} holds {kind}: save it as {'numbers' if rating else 'integers or text'}")
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise InputError(f"{place(row)} has no '{name}': correct or drop it")
    return column.cast(pa.float64() if rating and number else pa.string()).dictionary_encode()
