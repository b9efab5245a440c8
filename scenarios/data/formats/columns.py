"""Columns of ratings in a file's own order: every text once, and a code for it on every row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator.protocol.arrays import Bools, Floats, Indices
from coordinator.protocol.errors import InputError
from scenarios.data.formats.recognise import RatingFormat

Place = Callable[[int], str]


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
        From a row, from 0, to where it stands in the file, in words.
    source : str
        The format's name.
    times : Floats or None
        float64[ratings], when each was given, in seconds of any origin; None where that was not read.
    """

    users: Indices
    items: Indices
    values: Floats
    user_labels: pa.StringArray
    item_labels: pa.StringArray
    place: Place
    source: str
    times: Floats | None = None

    def __repr__(self) -> str:
        return f"RatingColumns({len(self.values)} ratings, {self.source})"


def from_table(table: pa.Table, form: RatingFormat, place: Place) -> RatingColumns:
    """Take the ratings out of a table whose columns are encoded as dictionaries; seen is 1 where no column rates.

    Raises
    ------
    InputError
        If an id is empty, or a rating is no finite number in the range of `form`.
    """
    user, item, *rating = form.fields
    users, user_labels = _identities(table[user], user, place)
    items, item_labels = _identities(table[item], item, place)
    return RatingColumns(
        users=users,
        items=items,
        values=numbers(table[rating[0]], place, low=form.low, high=form.high, what="the rating")
        if rating
        else np.ones(table.num_rows),
        user_labels=user_labels,
        item_labels=item_labels,
        place=place,
        source=form.name,
        times=_times(table[form.time], form.time, place) if form.time in table.column_names else None,
    )


def _times(column: pa.ChunkedArray, name: str, place: Place) -> Floats:
    """Read times: numbers, or dates as text."""
    codes, texts = _decode(column)
    values = _to_float(texts)
    if np.isnan(values).all():
        import pandas as pd  # noqa: PLC0415 (only where dates are text)

        dates = pd.to_datetime(pd.Series(texts.to_pylist()), errors="coerce", utc=True, format="ISO8601")
        values = np.asarray((dates - pd.Timestamp(0, tz="UTC")).dt.total_seconds(), np.float64)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values)[codes])[0])
        text = str(texts[int(codes[row])])[:40]
        raise InputError(
            f"{place(row)} has the {name} {text!r}, which is neither a number nor a date: correct or drop it"
        )
    return values[codes]


def numbers(
    column: pa.ChunkedArray, place: Place, *, low: float, high: float, what: str, mark: float | None = None
) -> Floats:
    """Read a column encoded as a dictionary as numbers from `low` to `high`, both included.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Texts or numbers, encoded as a dictionary.
    place : callable
        Where a row stands in the file, in words.
    low, high : float
        The range allowed.
    what : str
        What the number is, for the message.
    mark : float or None
        One more value allowed, outside the range.

    Returns
    -------
    Floats
        float64[rows].

    Raises
    ------
    InputError
        Naming the first row whose value is no finite number in the range.
    """
    codes, texts = _decode(column)
    values = _to_float(texts)
    allowed: Bools = (values >= low) & (values <= high)
    if mark is not None:
        allowed |= values == mark
    if not allowed.all():
        row = int(np.flatnonzero(~allowed[codes])[0])
        fault = f"is outside {low:g} to {high:g}" if np.isfinite(values[codes[row]]) else "is no finite number"
        or_mark = "" if mark is None else f" ({mark:g} means not rated)"
        text = str(texts[int(codes[row])])[:40]
        raise InputError(f"{place(row)} has {what} {text!r}, which {fault}{or_mark}: correct or drop it")
    return values[codes]


def _identities(column: pa.ChunkedArray, name: str, place: Place) -> tuple[Indices, pa.StringArray]:
    codes, labels = _decode(column)
    empty = pc.index(labels, "").as_py()
    if empty >= 0:
        row = int(np.flatnonzero(codes == empty)[0])
        raise InputError(f"{place(row)} has no '{name}': correct or drop it")
    return codes, labels


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
