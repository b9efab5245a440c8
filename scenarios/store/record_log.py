"""Records that a run or a sweep stores one by one, bound to it and to each other by digests."""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import json
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from actors.durable_log import FORMAT, Log, LogKind, count_lines, make_folder
from actors.keeper import Keeper, LedgerClient
from coordinator.protocol.errors import InputError, LedgerError, LostError
from coordinator.protocol.limits import open_regular, read_whole
from scenarios.config.files import read_arrays
from scenarios.log import write_line
from scenarios.store.manifest import AGREEMENTS, FOLDER, MANIFEST, PROGRESS, UNCLAIMED, bound, read_manifest
from scenarios.store.whole_files import write_bytes

if TYPE_CHECKING:
    from rich.console import Console

K = TypeVar("K")
M = TypeVar("M")
Reader = Callable[[dict[str, Any]], tuple[K, M]]
"""Takes a line's JSON value and returns the unit's key and its measurement."""
Writer = Callable[[K, M], dict[str, Any]]  # The reverse
UNITS = "units"
UNIT = LogKind(
    noun="file of units",
    suffix=".units",
    remedy="put it back as it was, or remove that line and all after it: their units are then measured again",
    error=InputError,
)


class Units(Generic[K, M]):
    """The finished units of a sweep, bound to the manifest of its folder; see `actors.durable_log.Log`."""

    def __init__(self, out: Path, read: Reader[K, M], write: Writer[K, M]) -> None:
        self.folder, self._read, self._write = out / FOLDER / UNITS, read, write
        self._log = Log(self.folder, UNIT, bound(read_manifest(out), UNITS))

    def __iter__(self) -> Iterator[tuple[K, M]]:
        """Yield the stored units with their keys, in the order in which they were finished."""
        self._log.settle()
        return self._log.read(lambda line: self._read(json.loads(line)))

    def keep(self, key: K, measured: M) -> None:
        """Write a unit, and wait until the disk holds it."""
        try:
            self._log.append([json.dumps(self._write(key, measured))])
        except OSError as error:
            raise LostError(f"a unit cannot be kept in {self.folder} ({error.strerror})") from None


T = TypeVar("T")
Numbers = tuple[dict[str, Any], dict[str, Any]]  # A record as JSON values and as arrays, both by name
_DIGEST = 32
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec(Generic[T]):
    """How records of one kind are converted to numbers and back."""

    noun: str  # What errors call a record, such as ``"round"``
    number: Callable[[T], int]  # A record's position in its log, from 0
    encode: Callable[[T], Numbers]  # Returns its numbers; the names ``format``, ``before`` and ``told`` are reserved
    decode: Callable[[dict[str, Any], dict[str, Any]], T]  # Returns the record with these numbers
    # Takes records and the devices' book, and refuses them if an answer is not booked
    require_booked: Callable[[Iterable[T], LedgerClient], None]


class RecordLog(Generic[T]):
    """The records of one seed, a file for each, without pickles. Each names the digest of the record before it."""

    codec: Codec[T]  # The codec of this kind of records

    def __init__(self, out: Path, seed: int) -> None:
        self._manifest = read_manifest(out)
        self.run = run = self._manifest.run if self._manifest else UNCLAIMED
        self.folder = out / FOLDER / f"seed-{seed}"
        # the ledger's folder has the run's name, so that a ledger of another run is noticed
        self.ledger = (out / FOLDER / "ledger" / run / f"seed-{seed}").absolute()
        self.damaged: Path | None = None
        self._first = bound(self._manifest, seed)

    def __iter__(self) -> Iterator[T]:
        """Yield the stored records in order, up to the first one that is missing, torn or damaged."""
        # That record and all later ones are renamed, and their rounds will be run again; devices then repeat their
        # answers and spend nothing. `damaged` names the record.
        before, noun = self._first, self.codec.noun
        for number in itertools.count():
            path = self._path(number)
            try:
                content = read_whole(path)
                record, after = from_bytes(self.codec, content)
            except InputError as error:
                raise InputError(f"{path}: {error}") from None
            except FileNotFoundError:
                self._put_aside(number + 1)
                return
            except _UNREADABLE as error:
                if isinstance(error, OSError) and error.errno == errno.EOVERFLOW:
                    raise InputError(f"{path} cannot be read ({error.strerror}); go on where more is left") from None
                self.damaged = path
                self._put_aside(number)
                return
            if after != before:
                raise InputError(
                    f"{path} is no {noun} {number} of this run, or another {noun} before it was exchanged; put the "
                    f"run's own file there, or remove it: then this {noun} and those after it are run again"
                )
            yield record
            before = content[:_DIGEST].hex()

    def check(self, console: Console | None = None) -> Path | None:
        """Read all records and ledgers; return the first damaged record, which is renamed, or None."""
        for _ in self:
            pass
        try:
            self.require_books(Keeper(self.ledger))
        except LedgerError as error:
            raise InputError(str(error)) from None
        if self.damaged and console:
            write_line(console, f"{self.damaged} is damaged; going on from the {self.codec.noun} before it")
        return self.damaged

    def require_books(self, ledger: LedgerClient) -> None:
        """Refuse books in which something of a stored record is missing."""
        self.codec.require_booked(self, ledger)

    def _put_aside(self, number: int) -> None:
        for path in sorted(self.folder.glob("*.npz")):
            if path.name < self._path(number).name:
                continue
            try:
                path.replace(path.with_suffix(".damaged"))
            except OSError as error:
                raise InputError(
                    f"{self.codec.noun} {path} is damaged and cannot be put aside ({error.strerror})"
                ) from None

    def keep(self, record: T) -> None:
        """Write a record, whole or not at all; the record before it is stored already."""
        number = self.codec.number(record)
        try:
            make_folder(self.folder)
            write_bytes(self._path(number), to_bytes(self.codec, record, self._digest(number - 1)))
        except OSError as error:
            raise LostError(f"{self.codec.noun} {number} cannot be kept in {self.folder} ({error.strerror})") from None

    def _digest(self, number: int) -> str:
        """Return the digest of a stored record; before the first record, the digest that binds the log to its run."""
        if number < 0:
            return self._first
        with open_regular(self._path(number)) as file:
            return file.read(_DIGEST).hex()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"


def count_records(out: Path) -> int:
    """Return how many records of all seeds a folder holds, or how many units of a sweep."""
    return sum(1 for _ in (out / FOLDER).glob("seed-*/*.npz")) + count_lines(out / FOLDER / UNITS, UNIT)


def drop(out: Path) -> None:
    """Remove everything that a finished run stored."""
    # The manifest goes last: an interrupted removal can be repeated. Records are removed before the books of devices
    # and of what was opened, because a run cannot be resumed from records that are not booked.
    folder = out / FOLDER
    for part in sorted(folder.glob("*/"), key=lambda part: part.name in {"ledger", "openings"}):
        shutil.rmtree(part, ignore_errors=True)
    with suppress(OSError):
        for path in (folder / PROGRESS, *folder.glob(AGREEMENTS)):
            path.unlink(missing_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        folder.rmdir()


def to_bytes(codec: Codec[T], record: T, before: str) -> bytes:
    """Return a record as bytes: a digest, then an ``.npz`` file of its arrays and of everything else as JSON."""
    numbers, arrays = codec.encode(record)
    numbers = {"format": FORMAT, "before": before, **numbers}
    content = _zipped({"told": np.frombuffer(json.dumps(numbers).encode(), np.uint8), **arrays})
    return hashlib.sha256(content).digest() + content


def _zipped(arrays: dict[str, Any]) -> bytes:
    """Return an ``.npz`` file with light compression, because a run waits for it after every record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as folder:
        for name, values in arrays.items():
            with folder.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, values, allow_pickle=False)
    return file.getvalue()


def from_bytes(codec: Codec[T], content: bytes) -> tuple[T, str]:
    """Return the record that `to_bytes` wrote, and the digest of the record before it."""
    check, content = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(content).digest() != check:
        raise ValueError("the digest is another one's")
    arrays = read_arrays(content, f"a kept {codec.noun}")
    numbers: dict[str, Any] = json.loads(arrays.pop("told").tobytes())
    if numbers["format"] != FORMAT:
        raise InputError(
            f"a kept {codec.noun} has format {numbers['format']}, this version of blindrec reads {FORMAT}; go on with "
            "the version that kept it, or name a new folder"
        )
    return codec.decode(numbers, arrays), numbers["before"]
