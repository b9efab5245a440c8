"""SQLite files: one process at a time uses one, a commit is on the disk, and rows have the digest of those before.

Torn writes, full disks and two processes are left to SQLite. What it does not promise is that a file was not changed
by others: the rows' digests, and the frames at the end of its log, show that.
"""

import errno
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.limits import open_regular

FORMAT = 5
"""Version of the format of databases and manifests; it changes when one of them changes its meaning."""
PATIENCE = 3.0
"""Seconds to wait for a file that another process uses: a look at it takes less, and a run more."""
Row = tuple[Any, ...]  # Of whole numbers, texts and bytes
_PRAGMAS: tuple[str, ...] = (
    "locking_mode = EXCLUSIVE",  # before the log, which then needs no shared memory: network disks have none
    "journal_mode = WAL",
    "synchronous = FULL",
    "wal_autocheckpoint = 0",  # it would write over a log, where a commit that is cut off looks like a damaged one
    "trusted_schema = OFF",
)
_EMPTY = "PRAGMA wal_checkpoint(TRUNCATE)"
LONGEST_LOG = 4 << 20  # Bytes of a log, from which on a commit has it written into its file
_ABOUT = "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
"""Format, owner, and how the tables were made: one whose name is changed is missed."""
_UNUSABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are missing, and wait until the disk holds their names."""
    # Folders are made from the top, each once the one above it is on the disk. If another process died while it made
    # them, only the lowest folder can be missing from the disk, so this waits for the lowest one even where it exists.
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    lowest = missing[-1].parent if missing else folder
    with suppress(PermissionError):  # whoever cannot read the folder above did not make this one
        sync_folder(lowest.parent)
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk holds a folder's list of files, unless the file system says that it cannot do so."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """The kind of a database file."""

    name: str  # The file's name in its folder
    noun: str  # Name of such a file in errors
    remedy: str  # Advice of errors about a damaged file
    error: type[BlindrecError]  # The error about a file that is damaged, in use, or cannot be read


class Database:
    """A file of tables that is made for its first row, and that this process alone uses until it is closed."""

    def __init__(self, folder: Path, kind: FileKind, owner: str) -> None:
        self.path, self.kind, self._owner = folder.absolute() / kind.name, kind, owner
        self._connection: sqlite3.Connection | None = None

    def connection(self, *, new: bool = False) -> sqlite3.Connection | None:
        """Return the connection, which the first call opens; None where there is no file, unless it may be new."""
        if self._connection is None and (new or self.path.exists()):
            make_folder(self.path.parent)
            self._connection = self._opened()
            _IN_USE[self.path] = self
        return self._connection

    @contextmanager
    def look(self) -> Iterator[sqlite3.Connection | None]:
        """Yield the connection that this process has already, else one that is closed afterwards; see `connection`."""
        owner = _IN_USE.get(self.path, self)
        with self.reading():
            try:
                yield owner.connection()
            finally:
                if owner is self:
                    self.close()

    def close(self) -> None:
        """Write the log into the file, so that any SQLite tool opens it, and let other processes use it."""
        if self._connection is not None:
            _IN_USE.pop(self.path, None)
            self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            self._check(connection)
        except UnicodeDecodeError:  # SQLite quotes the file where it complains, which is no text then
            connection.close()
            raise self.damaged("in its list of tables") from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is damaged or of another owner."""
        schema = dict(connection.execute("SELECT name, sql FROM sqlite_schema"))
        # What a dead process wrote, and did not live to wait for, is on the disk from here on
        frames = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
        if not _ends_whole(self._log, max(frames, 0)):
            raise self.damaged("in its log")
        self._empty_log(connection)
        if (complaint := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise self.damaged(f"({' '.join(str(complaint).split())[:80]})")
        if not schema:  # nothing was written yet
            return
        about = dict(connection.execute("SELECT name, value FROM about"))
        form, owner = about.pop("format", ""), about.pop("owner", "")
        if (form, owner) != (str(FORMAT), self._owner):
            raise self.kind.error(
                f"{self.kind.noun} {self.path} says that it is of {owner[:80]}, format {form[:20]}; its folder is that "
                f"of {self._owner}, format {FORMAT}: move it to where it belongs, or start in a new folder"
            )
        if schema != {"about": _ABOUT, **about}:
            raise self.damaged("in its list of tables")

    @property
    def _log(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    def _empty_log(self, connection: sqlite3.Connection) -> None:
        """Write the log into the file, and begin it anew: then what is cut off of a commit is missing at its end."""
        if self._log.exists():
            connection.execute(_EMPTY)

    def damaged(self, where: str) -> BlindrecError:
        """Return the error about a damaged file."""
        complaint = f"is damaged {where}, or of another version of blindrec"
        return self.kind.error(f"{self.kind.noun} {self.path} {complaint}; {self.kind.remedy}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make errors of SQLite and of the system the kind's error, in one line."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._error_of(error) from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Commit what is written as a whole, and wait until the disk holds it; an `OSError` says why it does not."""
        try:
            connection = self.connection(new=True)
            assert connection is not None
            with _transaction(connection):
                if not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
                    connection.execute(_ABOUT)
                    about = (("format", str(FORMAT)), ("owner", self._owner))
                    connection.executemany("INSERT INTO about VALUES (?, ?)", about)
                yield connection
            if self._log.exists() and self._log.stat().st_size > LONGEST_LOG:
                with suppress(sqlite3.Error):  # what was committed stays so, and the next commit tries again
                    self._empty_log(connection)
        except sqlite3.Error as error:
            if _code(error) in _UNUSABLE:
                raise OSError(errno.EIO, _reason(error)) from None
            raise self._error_of(error) from None

    def _error_of(self, error: sqlite3.Error | OSError) -> BlindrecError:
        noun = f"{self.kind.noun} {self.path}"
        if isinstance(error, OSError) or _code(error) in _UNUSABLE:
            return self.kind.error(f"{noun} cannot be used ({_reason(error)}); look after its disk")
        return self.in_use() if _code(error) == sqlite3.SQLITE_BUSY else self.damaged(f"({error})")

    def in_use(self) -> BlindrecError:
        """Return the error about a file that another process uses, or has used since this one looked."""
        complaint = "is in use by another blindrec that still runs; wait for it, or name another folder"
        return self.kind.error(f"{self.kind.noun} {self.path} {complaint}")


_IN_USE = WeakValueDictionary[Path, Database]()  # Files that this process has opened


class Chain:
    """The rows of a table in their order, each bound by its digest to those before it, the first one to a text."""

    def __init__(self, database: Database, name: str, columns: str, *, begin: str = "", page: int = 1) -> None:
        # ``page`` rows are in memory at a time
        self._database, self._page, self._begin = database, page, hashlib.sha256(begin.encode()).digest()
        self._name, self._table = name, f'"{name}"'
        self._insert = f"INSERT INTO {self._table} VALUES (?, {'?, ' * (columns.count(',') + 1)}?)"
        self._schema = f"CREATE TABLE {self._table} (position INTEGER PRIMARY KEY, digest BLOB NOT NULL, {columns})"

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows; refuse one that was changed, or that is not in its place."""
        # Page by page: a query that is not read to its end would keep the file from being closed
        before, position = self._begin, 0
        while rows := self._rows(position):
            for number, digest, *row in rows:
                before = _digest(before, row)
                if (number, digest) != (position, before):
                    raise self.damaged(position)
                yield tuple(row)
                position += 1

    def _rows(self, position: int) -> list[Row]:
        with self._database.reading():
            if (connection := self._there()) is None:
                return []
            page = f"WHERE position >= ? ORDER BY position LIMIT {self._page}"
            return connection.execute(f"SELECT * FROM {self._table} {page}", (position,)).fetchall()

    def damaged(self, position: int) -> BlindrecError:
        """Return the error about a row."""
        return self._database.damaged(f"in row {position} of table {self._table}")

    def append(self, rows: Iterable[Row], position: int | None = None) -> None:
        """Write rows, all or none, and wait until the disk holds them; an `OSError` says why it does not."""
        # Whoever says at which ``position`` has read the rows before, and must not have missed any
        with self._database.writing() as connection:
            if not self._exists(connection):
                connection.execute(self._schema)
                connection.execute("INSERT INTO about VALUES (?, ?)", (self._name, self._schema))
            last = connection.execute(f"SELECT position, digest FROM {self._table} ORDER BY position DESC LIMIT 1")
            number, before = last.fetchone() or (-1, self._begin)
            if position not in (None, number + 1):
                raise self._database.in_use()
            linked = []
            for row in rows:
                number, before = number + 1, _digest(before, row)
                linked.append((number, before, *row))
            connection.executemany(self._insert, linked)

    def __len__(self) -> int:
        with self._database.reading():
            connection = self._there()
            if connection is None:
                return 0
            count: int = connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0]
            return count

    def _there(self) -> sqlite3.Connection | None:
        """Return the connection; None where there is no such table yet."""
        connection = self._database.connection()
        return connection if connection is not None and self._exists(connection) else None

    def _exists(self, connection: sqlite3.Connection) -> bool:
        schema = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (self._name,)).fetchone()
        if schema not in (None, (self._schema,)):
            raise self._database.damaged(f"in its table {self._table}")
        return schema is not None


def _reason(error: sqlite3.Error | OSError) -> str:
    """Return why a file cannot be used; for a full disk in the system's words."""
    if isinstance(error, OSError):
        return str(error.strerror)
    return os.strerror(errno.ENOSPC) if _code(error) == sqlite3.SQLITE_FULL else str(error)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary code of an error, which errors of Python's module about a row have not."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


def _digest(before: bytes, row: Sequence[Any]) -> bytes:
    if bytes not in map(type, row):  # of which there are many
        return hashlib.sha256(before + ascii(tuple(row)).encode()).digest()
    hasher = hashlib.sha256(before)
    hasher.update(ascii([len(value) if isinstance(value, bytes) else (value,) for value in row]).encode())
    for value in row:
        if isinstance(value, bytes):
            hasher.update(value)
    return hasher.digest()


def _ends_whole(log: Path, frames: int) -> bool:
    """Return whether a log holds, behind the frames that SQLite takes, no more than the beginning of a commit."""
    # SQLite takes a frame with a wrong checksum for the end of what was written. Commits are written one behind the
    # other into a log that was empty, so that a frame that is there as a whole and is not as it was written, or ends a
    # commit, was changed later: SQLite would have taken it, and those behind it.
    # https://www.sqlite.org/fileformat2.html#walformat
    with suppress(FileNotFoundError), open_regular(log) as file:
        if len(head := file.read(32)) < 32:
            return not frames
        order: Literal["big", "little"] = "big" if head[3] & 1 else "little"
        size, last = 24 + int.from_bytes(head[8:12]), head[24:]
        if _checksum(head[:24], order) != last:
            return False
        if frames:
            file.seek((frames - 1) * size, os.SEEK_CUR)
            last = file.read(size)[16:24]
        while len(frame := file.read(size)) == size and any(frame[:24]):  # zeros were never written
            last = _checksum(frame[:8] + frame[24:], order, last)
            if any(frame[4:8]) or (frame[8:16], frame[16:24]) != (head[16:24], last):
                return False
    return True


def _checksum(content: bytes, order: Literal["big", "little"], before: bytes = bytes(8)) -> bytes:
    """Return the checksum that the head of a log has of itself, and a frame of itself and of all before."""
    low, high = int.from_bytes(before[:4]), int.from_bytes(before[4:])
    for at in range(0, len(content), 8):
        low = (low + int.from_bytes(content[at : at + 4], order) + high) & 0xFFFFFFFF
        high = (high + int.from_bytes(content[at + 4 : at + 8], order) + low) & 0xFFFFFFFF
    return low.to_bytes(4) + high.to_bytes(4)
