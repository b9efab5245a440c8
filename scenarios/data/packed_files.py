"""Files of data: plain, packed by gzip, bzip2, xz, Zstandard or lz4, or inside a zip archive, whatever their names."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import pyarrow as pa

from coordinator.protocol.errors import InputError, ReadError
from coordinator.protocol.limits import memory_left, open_regular, require_memory
from scenarios.config.files import (
    DAMAGED_ARCHIVE,
    ROW_BYTES,
    a_file,
    members_of,
    nameable,
    open_member,
    reason_of,
    require_unpacked,
)
from scenarios.config.frames import frame_at

UNREADABLE = (*DAMAGED_ARCHIVE, lzma.LZMAError, zlib.error, pa.ArrowException)
"""What readers say of a file that is damaged, or no file of the kind that it begins as."""
_USABLE = {
    *(".csv", ".dat", ".data", ".tsv", ".tab", ".psv", ".txt", ".inter", ".item", ".user", ".jsonl", ".ndjson"),
    *(".json", ".parquet"),
}
_PACKED = {".gz", ".bz2", ".xz", ".zst", ".lz4"}
_NO_DATA = ("readme", "license", "licence", "copying")
_RATING_FILES = {"ratings", "u.data"}
_SAMPLE = 1 << 20
_SHORTEST = len("1,2,3\n")  # Bytes of the shortest line that holds a rating
_TAR = 257, b"ustar"


def _by_arrow(codec: str) -> Callable[[BinaryIO], Any]:
    return lambda opened: pa.CompressedInputStream(pa.PythonFile(opened, mode="r"), codec)


_PACKINGS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda opened: gzip.GzipFile(fileobj=opened),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _by_arrow("zstd"),
    b"\x04\x22\x4d\x18": _by_arrow("lz4"),
}
"""How files are unpacked that begin with these bytes."""


class Unpacked(io.RawIOBase):
    """The content of a packed file, read from its start to its end; more of it than any real file has is refused."""

    def __init__(self, packed: BinaryIO, unpack: Callable[[BinaryIO], Any], size: int, name: str) -> None:
        self._packed, self._stream, self._size, self._name, self._read = packed, unpack(packed), size, name, 0

    def readable(self) -> bool:
        """Return that this can be read."""
        return True

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._read

    def read(self, size: int | None = -1) -> bytes:
        """Return at most this many bytes; all remaining ones for a negative number."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(_SAMPLE), b""))
        part = cast("bytes", self._stream.read(size))
        self._read += len(part)
        require_unpacked(self._read, self._size, self._name)
        return part

    def close(self) -> None:
        """Close the packed file, too."""
        if not self.closed:
            self._stream.close()
            self._packed.close()
        super().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file that was opened once."""

    path: Path  # The file, or the archive around it
    member: str | None = None  # The name inside the archive; None for a file that is in none
    packing: bytes = b""  # What a packed file begins with; empty for one that is not packed
    size: int = 0  # Bytes, unpacked
    head: bytes = field(default=b"", repr=False)  # What it begins with, unpacked
    frame: pa.Buffer | None = field(default=None, repr=False)  # In the place of a file: Parquet in memory

    @property
    def name(self) -> str:
        """The name that messages give the file."""
        if self.frame is not None:
            return "the DataFrame"
        return f"'{self.path}'" if self.member is None else f"'{self.member}' in '{self.path}'"

    @property
    def parquet(self) -> bool:
        """Whether it is Apache Parquet."""
        return self.head.startswith(b"PAR1")

    def open(self) -> BinaryIO:
        """Open for reading from the start."""
        if self.frame is not None:
            return cast("BinaryIO", pa.BufferReader(self.frame))
        opened = open_regular(self.path) if self.member is None else open_member(self.path, self.member)
        if not self.packing:
            return opened
        packed = self.path.stat().st_size if self.member is None else members_of(self.path)[self.member]
        return cast("BinaryIO", Unpacked(opened, _PACKINGS[self.packing], packed, self.name))

    def seekable(self) -> BinaryIO:
        """Open for reading in any order; what is packed is unpacked into memory."""
        opened = self.open()
        if self.member is None and not self.packing:
            return opened
        with opened:
            return io.BytesIO(opened.read())


def unreadable(name: str, error: Exception) -> InputError:
    """Say in one line why the file called ``name`` cannot be read."""
    return ReadError(f"{name} cannot be read ({reason_of(error)}): give a readable, undamaged file")


def open_data(path: Path, what: str = "ratings") -> DataFile:
    """Open the file of ratings, or of what else the name says, at ``path``, or the only one in a zip archive."""
    if frame := frame_at(path):
        return DataFile(path=path, size=frame[1].size, head=b"PAR1", frame=frame[1])
    if nameable(path, "file").is_dir():
        raise InputError(f"'{path}' is a directory: give the file of {what} inside it")
    if not path.exists():
        raise InputError(f"no file '{path}': check the path")
    a_file(path, "file", f"give a file of {what}")
    try:
        with open_regular(path) as opened:
            archive = opened.read(4) in {b"PK\x03\x04", b"PK\x05\x06"}
        file = DataFile(path=path, member=_choose_member(path, what) if archive else None)
        size = path.stat().st_size if file.member is None else members_of(path)[file.member]
        with file.open() as opened:
            head = opened.read(_SAMPLE)
        if packing := next((mark for mark in _PACKINGS if head.startswith(mark)), b""):
            file = replace(file, packing=packing)
            with file.open() as opened:
                head = opened.read(_SAMPLE)
                size = len(head) + sum(map(len, iter(lambda: opened.read(_SAMPLE), b"")))
        file = replace(file, size=size, head=head)
        _require_memory(file)
    except InputError:
        raise
    except UNREADABLE as error:
        raise unreadable(f"'{path}'", error) from error
    if file.head[_TAR[0] :].startswith(_TAR[1]):
        raise InputError(f"{file.name} is an archive of tar: unpack it, and give the file of {what} inside it")
    return file


def _require_memory(file: DataFile) -> None:
    """Refuse a file if its ratings take more memory than is left."""
    remedy = "give fewer ratings, or read them where there is more"
    if file.parquet:  # of which the reader knows how many rows it has; what is packed is unpacked into memory
        require_memory(2 * file.size if file.member or file.packing else 0, file.name, remedy)
    elif file.size * ROW_BYTES > memory_left() * _SHORTEST:  # the shortest lines might be too many: count them
        with file.open() as opened:
            lines = sum(part.count(b"\n") for part in iter(lambda: opened.read(_SAMPLE), b""))
        require_memory(file.size + ROW_BYTES * lines, f"{file.name}, with {lines:,} lines,", remedy)


def _choose_member(path: Path, what: str) -> str:
    names = [name for name in members_of(path) if not name.startswith("__MACOSX/") and not name.endswith("/")]
    usable = [name for name in names if _kind(name) in _USABLE and not _stem(name).startswith(_NO_DATA)]
    usable = [name for name in usable if _kind(name) != ".txt"] or usable
    named = [name for name in usable if what == "ratings" and _stem(name) in _RATING_FILES]
    candidates = named or usable
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        listing, kind = (
            ", ".join(names[:5]) or "nothing",
            "rating file" if what == "ratings" else f"table for the {what}",
        )
        raise InputError(f"no {kind} in '{path}', which holds {listing}: put a .csv, .dat or .parquet in it")
    listing = ", ".join(candidates[:5])
    raise InputError(f"'{path}' holds {len(candidates)} files that may be meant ({listing}): unpack it and give one")


def _kind(name: str) -> str:
    """Return the end of a file's name that says what it holds, whether it is packed or not.

    >>> _kind("ml/Ratings.CSV.gz"), _stem("ml/Ratings.CSV.gz"), _stem("ml/u.data")
    ('.csv', 'ratings', 'u.data')
    """
    return PurePosixPath(_unpacked(name)).suffix


def _stem(name: str) -> str:
    inner = PurePosixPath(_unpacked(name))
    return inner.name if inner.name == "u.data" else inner.stem


def _unpacked(name: str) -> str:
    path = PurePosixPath(name.lower())
    return str(path.with_suffix("")) if path.suffix in _PACKED else str(path)
