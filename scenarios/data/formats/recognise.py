"""The formats of rating files, recognised from the first line and the names of the columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coordinator.protocol.errors import InputError
from scenarios.data.formats.opening import RatingFile

Columns = tuple[str, ...]
"""Names of columns: of user, item and rating; without the last where what is seen is liked; with that of times."""

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*")
_MOVIELENS = ["userId", "movieId", "rating", "timestamp"]
_DELIMITERS = {",": "CSV", "\t": "tab-separated", ";": "semicolon-separated"}
_USUAL = {
    "user": "user userid uid users username customer customerid reviewer reviewerid",
    "item": "item itemid iid items movie movieid film filmid book bookid isbn product productid asin joke jokeid "
    "song songid track trackid artist artistid",
    "rating": "rating ratings score stars overall bookrating userrating",
}
_TIMES = ["timestamp", "time", "date", "datetime", "ts", "ratedat", "createdat", "reviewtime", "unixreviewtime"]
_WIDEST = 1e9  # the range of a named column, whose scale nobody has declared


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingFormat:
    """How to read a rating file."""

    name: str  # The format's name, as reports print it
    fields: Columns  # The columns of the user, the item and the rating; only the first two where what is seen is liked
    time: str = ""  # The column of times; empty where there is none
    low: float = -_WIDEST  # The range of a rating, both ends included
    high: float = _WIDEST
    delimiter: str = ","  # One character between columns; unused for Parquet
    # The columns in their order, where the file does not name them; None where it does. A column with an empty name
    # holds nothing
    names: tuple[str, ...] | None = None
    quoted: bool = False  # Whether a value may stand in double quotes
    # Whether a line holds all ratings of one user (Jester): first their number, then a column for every item
    wide: bool = False

    @property
    def stated(self) -> bool:
        """Whether the range of ratings is declared."""
        return self.high < _WIDEST


def recognise_text(file: RatingFile, columns: Columns | None) -> RatingFormat:
    """Recognise the format of a text file."""
    if columns is not None and all(map(str.isdecimal, columns)):
        return _numbered(file, columns)
    nameless = _nameless(file.first_line)
    if nameless is not None:
        if columns is not None:
            raise InputError(f"{file.name} is {nameless.name}, which names no columns: leave out columns={columns}")
        return nameless
    delimiter, header = max(
        ((mark, _split(file.first_line, mark)) for mark in _DELIMITERS), key=lambda choice: len(choice[1])
    )
    if len(header) < min(3, len(columns or "any")) or sum(map(_is_number, header)) * 2 > len(header):
        start = file.first_line[:60]
        raise InputError(
            f"{file.name} is in no known format, its first line is {start!r}: give MovieLens, Jester, Parquet, or CSV "
            "with a line of column names (without one, name columns by their numbers)"
        )
    fields, time = choose_fields(header, columns, file.name)
    if header == _MOVIELENS and fields == tuple(_MOVIELENS[:3]):
        name = "MovieLens CSV" if delimiter == "," else f"MovieLens, {_DELIMITERS[delimiter]}"
        return RatingFormat(name=name, fields=fields, time=time, low=0.5, high=5.0, delimiter=delimiter, quoted=True)
    return RatingFormat(
        name=f"{_DELIMITERS[delimiter]} with named columns", fields=fields, time=time, delimiter=delimiter, quoted=True
    )


def _numbered(file: RatingFile, columns: Columns) -> RatingFormat:
    """Return the format of a file without a line of names, whose columns are named by their numbers from 1."""
    delimiter = max(_DELIMITERS, key=lambda mark: len(_split(file.first_line, mark)))
    names = tuple(str(number) for number, _ in enumerate(_split(file.first_line, delimiter), start=1))
    fields, time = choose_fields(names, columns, file.name)
    label = f"{_DELIMITERS[delimiter]} with numbered columns"
    return RatingFormat(name=label, fields=fields, time=time, delimiter=delimiter, names=names, quoted=True)


def choose_fields(header: Sequence[str], columns: Sequence[str] | None, name: str) -> tuple[Columns, str]:
    """Choose the user, item and rating columns out of ``header``, by the names given or by the usual ones."""
    present = ", ".join(header[:20])
    times = [column for column in header if re.sub(r"[^a-z]", "", column.lower()) in _TIMES]
    time = times[0] if len(times) == 1 else ""
    if columns is None:
        columns = tuple(_usual(what, header, name) for what in _USUAL)
    elif not 2 <= len(set(columns)) == len(columns) <= 4:
        raise InputError(f"columns={columns}: give three different columns, of the user, item and rating")
    elif len(columns) == 4:
        *columns, time = columns
    for column in (*columns, *filter(None, [time])):
        if column not in header:
            raise InputError(f"no column '{column}' in {name}: name three columns of {present}")
        if header.count(column) > 1:
            raise InputError(f"{header.count(column)} columns of {name} are called '{column}': rename all but one")
    return tuple(columns), "" if time in columns else time


def _usual(what: str, header: Sequence[str], name: str) -> str:
    usual = _USUAL[what].split()
    matches = [column for column in header if re.sub(r"[^a-z]", "", column.lower()) in usual]
    if len(set(matches)) == 1:
        return matches[0]
    present = ", ".join(header[:20])
    if not matches:
        raise InputError(f"no column of {name} has a usual name for the {what}: name three columns of {present}")
    several = ", ".join(matches)
    raise InputError(f"{name} may hold the {what} in {several}: name the three columns, user, item and rating")


def _nameless(line: str) -> RatingFormat | None:
    """Return the format without column names that ``line`` starts, if it is one."""
    fields = ("user", "item", "rating")
    parts = line.split("::")
    if len(parts) in {3, 4} and not set(line) & set(_DELIMITERS):
        names = ("user", "", "item", "", "rating", "", "timestamp")[: 2 * len(parts) - 1]
        form = RatingFormat(name="MovieLens ratings.dat", fields=fields, low=0.5, high=5.0, delimiter=":", names=names)
        return replace(form, time="timestamp" if len(parts) == 4 else "")
    parts = line.split("\t")
    if len(parts) in {3, 4} and _is_number(parts[0]) and _is_number(parts[1]):
        names = (*fields, "timestamp")[: len(parts)]
        form = RatingFormat(name="MovieLens u.data", fields=fields, low=1.0, high=5.0, delimiter="\t", names=names)
        return replace(form, time="timestamp" if len(parts) == 4 else "")
    parts = line.split(",")
    if len(parts) >= 20 and sum(map(_is_number, parts)) * 2 > len(parts):
        names = ("number of ratings", *(str(joke) for joke in range(1, 101)))
        return RatingFormat(name="Jester", fields=fields, low=-10.0, high=10.0, names=names, wide=True)
    return None


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])
