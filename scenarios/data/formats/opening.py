"""Opening a rating file: plain or inside a zip archive, recognised by its first bytes and line."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from coordinator.protocol.errors import InputError, ReadError
from coordinator.protocol.limits import memory_left, open_regular, require_memory
from scenarios.given.files import DAMAGED_ARCHIVE, ROW_BYTES, a_file, members_of, open_member
from scenarios.given.parsing import nameable

_USABLE = {".csv", ".dat", ".data", ".tsv", ".parquet"}
_RATING_FILES = {"ratings.csv", "ratings.dat", "u.data", "ratings.parquet"}
_SAMPLE = 1 << 16
_SHORTEST = len("1,2,3\n")
"""Bytes of the shortest line that holds a rating."""
_MARK = b"\xef\xbb\xbf"
"""The byte order mark, which some programs write before text in UTF-8."""


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
        _require_memory(ratings_file, path.stat().st_size if member is None else members_of(path)[member])
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
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return ReadError(f"{name} cannot be read ({reason}): give a readable, undamaged file")


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
