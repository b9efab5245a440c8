"""The formats of rating files: opened, plain or inside a zip archive, recognised from their first bytes and line."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from coordinator.protocol.errors import InputError, ReadError
from coordinator.protocol.limits import memory_left, open_regular, require_memory
from scenarios.config.files import DAMAGED_ARCHIVE, ROW_BYTES, a_file, members_of, nameable, open_member, reason_of

_USABLE = {".csv", ".dat", ".data", ".tsv", ".parquet"}
_RATING_FILES = {"ratings.csv", "ratings.dat", "u.data", "ratings.parquet"}
_SAMPLE = 1 << 16
_SHORTEST = len("1,2,3\n")  # Bytes of the shortest line that holds a rating
_MARK = b"\xef\xbb\xbf"  # The byte order mark, which some programs write before text in UTF-8


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingFile:
    """A readable rating file."""

    path: Path  # The file, or the archive around it
    member: str | None  # The name inside the archive; None for a plain file
    parquet: bool  # Whether it is Apache Parquet; otherwise it is text
    first_line: str  # The first line that is not empty, without its end; empty for Parquet

    @property
    def name(self) -> str:
        """The name that messages give the file."""
        return f"'{self.path}'" if self.member is None else f"'{self.member}' in '{self.path}'"

    def open(self) -> BinaryIO:
        """Open for reading from the start."""
        return _open(self.path, self.member)

    @property
    def size(self) -> int:
        """Its bytes, unpacked."""
        return self.path.stat().st_size if self.member is None else members_of(self.path)[self.member]

    def line_number(self, row: int) -> int:
        """Return the physical line, from 1, of the ``row``-th line (from 1) that is not empty."""
        filled = 0
        with io.TextIOWrapper(self.open(), encoding="latin-1") as lines:
            for number, line in enumerate(lines, start=1):
                filled += line != "\n"
                if filled == row:
                    return number
        return row


def open_ratings(path: Path) -> RatingFile:
    """Inspect the file at ``path`` and say how it is read."""
    if nameable(path, "file").is_dir():
        raise InputError(f"'{path}' is a directory: give the rating file inside it")
    if not path.exists():
        raise InputError(f"no file '{path}': check the path")
    a_file(path, "file", "give a file of ratings")
    try:
        with open_regular(path) as file:
            archive = file.read(4) in {b"PK\x03\x04", b"PK\x05\x06"}
        member = _choose_member(path) if archive else None
        with _open(path, member) as file:
            head = file.read(_SAMPLE)
        ratings_file = _inspect(path, member, head)
        _require_memory(ratings_file, ratings_file.size)
    except InputError:
        raise
    except DAMAGED_ARCHIVE as error:
        raise unreadable(f"'{path}'", error) from error
    return ratings_file


def _require_memory(file: RatingFile, size: int) -> None:
    """Refuse a file, unpacked ``size`` bytes large, if its ratings take more memory than is left."""
    remedy = "give fewer ratings, or read them where there is more"
    if file.parquet:  # of which the reader knows how many rows it has; in an archive it is unpacked into memory
        require_memory(0 if file.member is None else 2 * size, file.name, remedy)
    elif size * ROW_BYTES > memory_left() * _SHORTEST:  # the shortest lines might be too many: count them
        with file.open() as opened:
            lines = sum(part.count(b"\n") for part in iter(lambda: opened.read(1 << 20), b""))
        require_memory(size + ROW_BYTES * lines, f"{file.name}, with {lines:,} lines,", remedy)


def unreadable(name: str, error: Exception) -> InputError:
    """Say in one line why the file called ``name`` cannot be read."""
    return ReadError(f"{name} cannot be read ({reason_of(error)}): give a readable, undamaged file")


def _inspect(path: Path, member: str | None, head: bytes) -> RatingFile:
    ratings_file = RatingFile(path=path, member=member, parquet=head.startswith(b"PAR1"), first_line="")
    if ratings_file.parquet:
        return ratings_file
    head = head.removeprefix(_MARK)
    if not head.strip():
        raise InputError(f"{ratings_file.name} is empty: give a file with ratings")
    if b"\0" in head:
        raise InputError(f"{ratings_file.name} is neither text in UTF-8 nor Parquet: save it as CSV in UTF-8")
    line = next(line for line in head.splitlines() if line)
    return RatingFile(path=path, member=member, parquet=False, first_line=line.decode("utf-8", errors="replace"))


def _choose_member(path: Path) -> str:
    names = [name for name in members_of(path) if not name.startswith("__MACOSX/")]
    usable = [name for name in names if PurePosixPath(name).suffix.lower() in _USABLE]
    named = [name for name in usable if PurePosixPath(name).name.lower() in _RATING_FILES]
    candidates = named or usable
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        listing = ", ".join(names[:5]) or "nothing"
        raise InputError(f"no rating file in '{path}', which holds {listing}: put a .csv, .dat or .parquet in it")
    listing = ", ".join(candidates[:5])
    raise InputError(f"'{path}' holds {len(candidates)} files that may be meant ({listing}): unpack it and give one")


def _open(path: Path, member: str | None) -> BinaryIO:
    return open_regular(path) if member is None else open_member(path, member)


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
    name = f"{_DELIMITERS[delimiter]} with named columns"
    form = RatingFormat(name=name, fields=fields, time=time, delimiter=delimiter, quoted=True)
    if header == _MOVIELENS and fields == tuple(_MOVIELENS[:3]):
        name = "MovieLens CSV" if delimiter == "," else f"MovieLens, {_DELIMITERS[delimiter]}"
        return replace(form, name=name, low=0.5, high=5.0)
    return form


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
    dots, tabs = line.split("::"), line.split("\t")
    if len(dots) in {3, 4} and not set(line) & set(_DELIMITERS):
        names = ("user", "", "item", "", "rating", "", "timestamp")[: 2 * len(dots) - 1]
        form = RatingFormat(name="MovieLens ratings.dat", fields=fields, low=0.5, high=5.0, delimiter=":", names=names)
        return replace(form, time="timestamp" if len(dots) == 4 else "")
    if len(tabs) in {3, 4} and _is_number(tabs[0]) and _is_number(tabs[1]):
        names = (*fields, "timestamp")[: len(tabs)]
        form = RatingFormat(name="MovieLens u.data", fields=fields, low=1.0, high=5.0, delimiter="\t", names=names)
        return replace(form, time="timestamp" if len(tabs) == 4 else "")
    parts = line.split(",")
    if len(parts) >= 20 and sum(map(_is_number, parts)) * 2 > len(parts):
        names = ("number of ratings", *(str(joke) for joke in range(1, 101)))
        return RatingFormat(name="Jester", fields=fields, low=-10.0, high=10.0, names=names, wide=True)
    return None


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])
