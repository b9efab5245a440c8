"""Records that a run or a sweep stores one by one in its folder's file, bound to it and to each other by digests."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np

from actors.database import Chain, Database, FileKind
from actors.keeper import Keeper, LedgerClient
from coordinator.protocol.errors import InputError, LedgerError, LostError
from scenarios.store.manifest import FOLDER, MANIFEST, PROGRESS, UNCLAIMED, Manifest, bound, read_manifest

RUN_FILE = FileKind(
    name="run.db",
    noun="file of records",
    remedy="put it back as it was, or remove it and what its log holds: then its records are asked or measured again, "
    "and devices repeat their answers",
    error=InputError,
)
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


def run_file(out: Path, manifest: Manifest | None) -> Database:
    """Return the file of a run's folder, which has the run's name."""
    return Database(out / FOLDER, RUN_FILE, UNCLAIMED if manifest is None else manifest.run)


K = TypeVar("K")
M = TypeVar("M")
Reader = Callable[[dict[str, Any]], tuple[K, M]]
"""Takes a unit's JSON value and returns its key and its measurement."""
Writer = Callable[[K, M], dict[str, Any]]  # The reverse
UNITS = "units"


class Units(Generic[K, M]):
    """The finished units of a sweep, bound to the manifest of its folder; see `actors.database.Chain`."""

    def __init__(self, out: Path, read: Reader[K, M], write: Writer[K, M]) -> None:
        manifest = read_manifest(out)
        self._file, self._read, self._write = run_file(out, manifest), read, write
        self._units = Chain(self._file, UNITS, "unit TEXT NOT NULL", begin=bound(manifest, UNITS), page=1000)

    def __iter__(self) -> Iterator[tuple[K, M]]:
        """Yield the stored units with their keys, in the order in which they were finished."""
        for position, (unit,) in enumerate(self._units):
            try:
                yield self._read(json.loads(unit))
            except _UNREADABLE:
                raise self._units.damaged(position) from None

    def keep(self, key: K, measured: M) -> None:
        """Write a unit, and wait until the disk holds it."""
        try:
            self._units.append([(json.dumps(self._write(key, measured)),)])
        except OSError as error:
            raise LostError(f"a unit cannot be kept in {self._file.path} ({error.strerror})") from None

    def close(self) -> None:
        """Let other processes use the file."""
        self._file.close()


T = TypeVar("T")
Numbers = tuple[dict[str, Any], dict[str, Any]]  # A record as JSON values and as arrays, both by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec(Generic[T]):
    """How records of one kind are converted to numbers and back."""

    noun: str  # What errors call a record, such as ``"round"``
    number: Callable[[T], int]  # A record's position in its log, from 0
    encode: Callable[[T], Numbers]  # Returns its numbers
    decode: Callable[[dict[str, Any], dict[str, Any]], T]  # Returns the record with these numbers
    # Takes records and the devices' book, and refuses them if an answer is not booked
    require_booked: Callable[[Iterable[T], LedgerClient], None]


class RecordLog(Generic[T]):
    """The records of one seed, a row for each, without pickles."""

    codec: Codec[T]  # The codec of this kind of records

    def __init__(self, out: Path, seed: int) -> None:
        self._manifest = read_manifest(out)
        self.run = run = self._manifest.run if self._manifest else UNCLAIMED
        self._file, self._begin = run_file(out, self._manifest), bound(self._manifest, seed)
        columns = "numbers TEXT NOT NULL, layout TEXT NOT NULL, arrays BLOB NOT NULL"
        self._records = Chain(self._file, f"seed {seed}", columns, begin=self._begin)
        # the ledger's folder has the run's name, so that a ledger of another run is noticed
        self.ledger = (out / FOLDER / "ledger" / run / f"seed-{seed}").absolute()

    @property
    def path(self) -> Path:
        """The file that the records are in."""
        return self._file.path

    @classmethod
    @contextmanager
    def checked(cls, out: Path | None, seed: int) -> Iterator[Self | None]:
        """Yield the checked log of a folder, and close it; None without a folder."""
        if out is None:
            yield None
            return
        with closing(cls(out, seed)) as log:
            log.check()
            yield log

    def __iter__(self) -> Iterator[T]:
        """Yield the stored records in order."""
        for number, row in enumerate(self._records):
            try:
                record = from_row(self.codec, row)
            except _UNREADABLE:
                raise self._records.damaged(number) from None
            yield record

    def check(self) -> None:
        """Read all records and ledgers, and refuse what is damaged, of another run, or not booked."""
        for _ in self:
            pass
        try:
            with closing(Keeper(self.ledger)) as keeper:
                self.require_books(keeper)
        except LedgerError as error:
            raise InputError(str(error)) from None

    def require_books(self, ledger: Keeper) -> None:
        """Refuse books in which something of a stored record is missing."""
        self.codec.require_booked(self, ledger)

    def keep(self, record: T) -> None:
        """Write a record, whole or not at all; the record before it is stored already."""
        number = self.codec.number(record)
        try:
            self._records.append([to_row(self.codec, record)], number)
        except OSError as error:
            raise LostError(f"{self.codec.noun} {number} cannot be kept in {self.path} ({error.strerror})") from None

    def close(self) -> None:
        """Write the log into the file and let other processes use it."""
        self._file.close()


def count_records(out: Path) -> int:
    """Return how many records of all seeds a folder holds, or how many units of a sweep."""
    with run_file(out, read_manifest(out)).look() as connection:
        if connection is None:
            return 0
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE name GLOB 'seed *' OR name = ?", (UNITS,))
        return sum(connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for (name,) in tables.fetchall())


def drop(out: Path) -> None:
    """Remove everything that a finished run stored."""
    # The manifest goes last: an interrupted removal can be repeated. Records are removed before the books of devices
    # and of what was opened, because a run cannot be resumed from records that are not booked.
    folder = out / FOLDER
    with suppress(OSError):
        remove_records(out)
        for part in folder.glob("*/"):
            shutil.rmtree(part, ignore_errors=True)
        (folder / PROGRESS).unlink(missing_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        folder.rmdir()


def remove_records(out: Path) -> None:
    """Remove a folder's file of records."""
    for path in sorted((out / FOLDER).glob(f"{RUN_FILE.name}*")):
        path.unlink()


def to_row(codec: Codec[T], record: T) -> tuple[str, str, bytes]:
    """Return a record as JSON of its numbers, JSON of its arrays' names, types and shapes, and the arrays in a row."""
    numbers, arrays = codec.encode(record)
    layout = {name: [values.dtype.str, values.shape] for name, values in arrays.items()}
    return json.dumps(numbers), json.dumps(layout), b"".join(values.tobytes() for values in arrays.values())


def from_row(codec: Codec[T], row: tuple[str, str, bytes]) -> T:
    """Return the record that `to_row` took apart."""
    numbers, layout, content = row
    arrays, at = {}, 0
    for name, (kind, shape) in json.loads(layout).items():
        dtype = np.dtype(kind)
        size = dtype.itemsize * math.prod(shape)
        if dtype.hasobject:
            raise ValueError("objects are no numbers")
        arrays[name] = np.ndarray(shape, dtype, bytearray(content[at : at + size]))
        at += size
    return codec.decode(json.loads(numbers), arrays)
