"""The formats of tables in text: recognised from their first lines, with the columns that hold ratings."""

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from coordinator.protocol.errors import InputError
from scenarios.data.packed_files import DataFile

Columns = tuple[str, ...]
"""Names of columns: of user, item and rating; without the last where what is seen is liked; with that of times."""

_MARK = b"\xef\xbb\xbf"  # The byte order mark, which some programs write before text in UTF-8
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*")
_MOVIELENS = ["userId", "movieId", "rating", "timestamp"]
DOTS, SPACES = "::", " "
_DELIMITERS = {",": "CSV", "\t": "tab-separated", ";": "semicolon-separated", "|": "pipe-separated"}
_USUAL = {
    "user": "user userid uid users username customer customerid reviewer reviewerid visitor visitorid person personid",
    "item": "item itemid iid items movie movieid film filmid book bookid isbn product productid asin joke jokeid "
    "song songid track trackid artist artistid title titleid",
    "rating": "rating ratings score stars overall bookrating userrating",
}
_TIMES = ["timestamp", "time", "date", "datetime", "ts", "ratedat", "createdat", "reviewtime", "unixreviewtime"]
_TYPES = re.compile(r"(.+):(token|token_seq|float|float_seq)")
"""A column's name with its type, as RecBole writes both."""
_COMMENTS = ("#", "%")
_SEPARATOR = re.compile(r"(?i)sep=.\s*")  # What spreadsheets write above a table
_WIDEST = 1e9  # the range of a named column, whose scale nobody has declared


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingFormat:
    """How to read a rating file."""

    name: str  # The format's name, as reports print it
    fields: Columns  # The columns of the user, the item and the rating; only the first two where what is seen is liked
    time: str = ""  # The column of times; empty where there is none
    low: float = -_WIDEST  # The range of a rating, both ends included
    high: float = _WIDEST
    delimiter: str = ","  # What stands between columns; unused for Parquet and JSON
    names: tuple[str, ...] = ()  # The columns in their order; unused for Parquet and JSON
    above: int = 0  # Lines before the first with values: comments, empty ones, and names
    quoted: bool = False  # Whether a value may stand in double quotes (RFC 4180); otherwise they are text
    latin: bool = False  # Whether bytes that are no UTF-8 are Latin-1
    # Whether a line holds all ratings of one user (Jester): first their number, then a column for every item
    wide: bool = False

    @property
    def stated(self) -> bool:
        """Whether the range of ratings is declared."""
        return self.high < _WIDEST


@dataclass(frozen=True, slots=True, kw_only=True)
class TextHead:
    """The beginning of a file of text."""

    line: str  # The first line that is neither empty nor a comment, without its end
    number: int  # Its number, from 1
    comment: str  # The last comment above it, without its mark; empty where there is none


def head_of(file: DataFile) -> TextHead:
    """Return how a text begins; what is no text in UTF-8, or has no line, is refused."""
    head = file.head.removeprefix(_MARK)
    if not head.strip():
        raise InputError(f"{file.name} is empty: give a file with ratings")
    if b"\0" in head:
        raise InputError(f"{file.name} is neither text in UTF-8 nor Parquet: save it as CSV in UTF-8")
    comment = ""
    for number, raw in enumerate(head.splitlines(), start=1):
        line = raw.decode("utf-8", errors="replace")
        if line.startswith("%%MatrixMarket"):
            raise InputError(f"{file.name} is a matrix of MatrixMarket: write a line user,item,rating for each entry")
        if line.startswith(_COMMENTS):
            comment = line.lstrip("#%").strip(" ")
        elif line.strip() and not _SEPARATOR.fullmatch(line):
            return TextHead(line=line, number=number, comment=comment)
    raise InputError(f"{file.name} holds nothing but comments: give a file with ratings")


def first_object(file: DataFile, head: TextHead) -> dict[str, Any] | None:
    """Return the first object of JSON lines; None for another format. JSON that is laid out otherwise is refused."""
    start = head.line.lstrip()
    if start[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(start)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    if start[0] == "[" or start.strip() == "{":
        raise InputError(f"{file.name} looks like JSON, but not like JSON lines: write one object in each line")
    return None


def recognise_text(file: DataFile, head: TextHead, columns: Columns | None) -> RatingFormat:
    """Recognise the format of a text file."""
    above = head.number - 1
    if columns and all(map(str.isdecimal, columns)):
        return _numbered(file, head, columns)
    nameless, (delimiter, header) = _nameless(head), split_header(head.line)
    delimiter = delimiter if nameless is None else nameless.delimiter
    if not _names_columns(header, columns) and (names := _commented(head, delimiter, columns)):
        fields, time = choose_fields(names, columns, file.name)
        label, quoted = f"{_label(delimiter)} with named columns", delimiter not in (DOTS, SPACES, "\t")
        return RatingFormat(
            name=label, fields=fields, time=time, delimiter=delimiter, names=names, above=above, quoted=quoted
        )
    if nameless is not None:
        if columns:
            raise InputError(f"{file.name} is {nameless.name}, which names no columns: leave out columns={columns}")
        return replace(nameless, above=above)
    if len(header) < 2 or len(header) < len(columns or "ab") or sum(map(_is_number, header)) * 2 > len(header):
        raise InputError(
            f"{file.name} is in no known format, its first line is {head.line[:60]!r}: give MovieLens, Jester, "
            "Parquet, JSON lines, or CSV with a line of column names (without one, name columns by their numbers)"
        )
    fields, time = choose_fields(header, columns, file.name)
    form = RatingFormat(
        name=f"{_label(delimiter)} with named columns",
        fields=fields,
        time=time,
        delimiter=delimiter,
        names=header,
        above=head.number,
        quoted=takes_quotes(head.line, delimiter),
    )
    if list(header) == _MOVIELENS and fields == tuple(_MOVIELENS[:3]):
        name = "MovieLens CSV" if delimiter == "," else f"MovieLens, {_DELIMITERS[delimiter]}"
        return replace(form, name=name, low=0.5, high=5.0)
    return form


def _label(delimiter: str) -> str:
    return {SPACES: "space-separated", DOTS: "separated by ::"}.get(delimiter) or _DELIMITERS[delimiter]


def _names_columns(names: Sequence[str], columns: Columns | None) -> bool:
    """Return whether these are names of columns: those that are named, or two with a usual name."""
    fields = columns or [name for name in names if _plain(name) in " ".join(_USUAL.values()).split()]
    return len(fields) >= 2 and set(fields) <= {*names}


def _commented(head: TextHead, delimiter: str, columns: Columns | None) -> Columns:
    """Return the names of columns that the last comment above a table holds; none where it holds something else."""
    names, width = tuple(_split(head.comment, delimiter)), len(_split(head.line, delimiter))
    return names if len(names) == width and _names_columns(names, columns) else ()


def _numbered(file: DataFile, head: TextHead, columns: Columns) -> RatingFormat:
    """Return the format of a file without a line of names, whose columns are named by their numbers from 1."""
    delimiter = delimiter_of(head.line)
    names = tuple(str(number) for number, _ in enumerate(_split(head.line, delimiter), start=1))
    fields, time = choose_fields(names, columns, file.name)
    return RatingFormat(
        name=f"{_label(delimiter)} with numbered columns",
        fields=fields,
        time=time,
        delimiter=delimiter,
        names=names,
        above=head.number - 1,
        quoted=takes_quotes(head.line, delimiter),
        latin=delimiter == DOTS,
    )


def takes_quotes(line: str, delimiter: str) -> bool:
    """Return whether a value may stand in quotes: between tabs and spaces only if the first line's values all do."""
    if delimiter == DOTS:
        return False
    parts = line.split(delimiter)
    return delimiter not in ("\t", SPACES) or all(len(part) > 1 and part[0] == part[-1] == '"' for part in parts)


def delimiter_of(line: str) -> str:
    r"""Return what stands between the columns of a first line.

    >>> [delimiter_of(line) for line in ("user id,item id", "1::2::3", "78 24 5", "1 2 5\t8", "a\tb c")]
    [',', '::', ' ', ' ', '\t']
    """
    if len(line.split(DOTS)) > 2 and not set(line.replace(DOTS, "")) & {"\t", ";"}:
        return DOTS
    best = max(_DELIMITERS, key=lambda mark: len(_split(line, mark)))
    count, parts = len(_split(line, best)), line.split()
    spaced = len(parts) > 1 and (count == 1 or (len(parts) > count and all(map(_is_number, parts))))
    return SPACES if spaced else best


def split_header(line: str) -> tuple[str, Columns]:
    """Return what stands between the names of columns, and these, without the types that RecBole adds."""
    delimiter = delimiter_of(line)
    names = (name.strip() for name in _split(line, delimiter, quoted=takes_quotes(line, delimiter)))
    return delimiter, tuple(typed[1] if (typed := _TYPES.fullmatch(name)) else name for name in names)


PAIRS: Columns = ()
"""Names of columns of a file that need not rate: its usual names, of the rating if there is one."""


_NAMED = "--columns USER,ITEM,RATING"


def choose_fields(header: Sequence[str], columns: Sequence[str] | None, name: str) -> tuple[Columns, str]:
    """Choose the user, item and rating columns out of ``header``, by the names given or by the usual ones."""
    present = ", ".join(header[:20])
    times = [column for column in header if _plain(column) in _TIMES]
    time = times[0] if len(times) == 1 else ""
    if not columns:
        columns = _usual_fields(header, name, pairs=columns is not None)
    elif not 2 <= len(set(columns)) == len(columns) <= 4:
        raise InputError(f"columns={columns}: give three different columns, of the user, item and rating")
    elif len(columns) == 4:
        *columns, time = columns
    for column in (*columns, *filter(None, [time])):
        if column not in header:
            raise InputError(f"no column '{column}' in {name}; give {_NAMED} of {present}")
        if header.count(column) > 1:
            raise InputError(f"{header.count(column)} columns of {name} are called '{column}': rename all but one")
    return tuple(columns), "" if time in columns else time


def _usual_fields(header: Sequence[str], name: str, *, pairs: bool) -> Columns:
    users, items, ratings = (
        [column for column in header if _plain(column) in usual.split()] for usual in _USUAL.values()
    )
    if not ratings and pairs:
        return tuple(_usual(what, header, name) for what in list(_USUAL)[:2])
    if not ratings and len(set(users)) == len(set(items)) == 1:
        raise InputError(
            f"no column of {name} has a usual name for the rating; give {_NAMED} of {', '.join(header[:20])}, or "
            f"two, --columns {users[0]},{items[0]}, if all that occurs is liked"
        )
    return tuple(_usual(what, header, name) for what in _USUAL)


def _usual(what: str, header: Sequence[str], name: str) -> str:
    matches = [column for column in header if _plain(column) in _USUAL[what].split()]
    if len(set(matches)) > 1:  # a title beside an id says how the item is called
        matches = [column for column in matches if _plain(column) != "title"]
    if len(set(matches)) == 1:
        return matches[0]
    present = ", ".join(header[:20])
    if not matches:
        raise InputError(f"no column of {name} has a usual name for the {what}; give {_NAMED} of {present}")
    several = ", ".join(matches)
    raise InputError(f"{name} may hold the {what} in {several}; give {_NAMED}")


def _plain(name: str) -> str:
    typed = _TYPES.fullmatch(name)
    return re.sub(r"[^a-z]", "", (typed[1] if typed else name).lower())


def _nameless(head: TextHead) -> RatingFormat | None:
    """Return the format without column names that a line starts, if it is one."""
    fields, line = ("user", "item", "rating"), head.line
    dots, tabs = line.split(DOTS), line.split("\t")
    if len(dots) in {3, 4} and not set(line) & {",", "\t", ";"}:
        form = RatingFormat(name="MovieLens ratings.dat", fields=fields, low=0.5, high=5.0, delimiter=DOTS, latin=True)
        return _with_time(form, len(dots))
    if len(tabs) == 4 and _is_number(tabs[0]) and _is_number(tabs[1]) and not head.comment:
        form = RatingFormat(name="MovieLens u.data", fields=fields, low=1.0, high=5.0, delimiter="\t")
        return _with_time(form, 4)
    delimiter = delimiter_of(line)
    parts = _split(line, delimiter)
    if delimiter in ("\t", SPACES, "|") and len(parts) in {3, 4} and all(map(_is_number, parts)):
        form = RatingFormat(name=f"{_label(delimiter)} without names", fields=fields, delimiter=delimiter)
        return _with_time(form, len(parts))
    if delimiter == "," and len(parts) >= 20 and sum(map(_is_number, parts)) * 2 > len(parts):
        names = ("number of ratings", *(str(joke) for joke in range(1, 101)))
        return RatingFormat(name="Jester", fields=fields, low=-10.0, high=10.0, names=names, wide=True)
    return None


def _with_time(form: RatingFormat, width: int) -> RatingFormat:
    names = (*form.fields, "timestamp")[:width]
    return replace(form, names=names, time="timestamp" if width == 4 else "")


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _split(line: str, delimiter: str, *, quoted: bool | None = None) -> list[str]:
    if delimiter == SPACES:
        line = " ".join(line.split())
    if len(delimiter) > 1 or not (takes_quotes(line, delimiter) if quoted is None else quoted):
        return line.split(delimiter)
    return next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter), [])
