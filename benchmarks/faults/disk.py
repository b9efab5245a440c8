"""The disk of a history: files are in a real folder, and the simulation knows what a power cut would leave of them."""

import errno
import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from actors import database
from actors.keeper import LEDGER
from benchmarks.faults.scheduler import Fault, KeeperDiedError, Killed, PowerCut, Scheduler
from scenarios.store import manifest, whole_files

Image = dict[Path, bytes | None]
"""Contents of a disk: bytes for a file, None for a folder; a folder comes before its files."""
FULL = 4.0  # Most seconds that a full disk stays full
_SYNCHRONIZED = 2  # SQLite's number of ``synchronous = FULL``


class Disk:
    """A folder whose files are written by `actors.database` and `whole_files`, which get this in the place of `os`.

    After a power cut a folder has the names, and a file the content, that it had when it was last synchronized. Of
    later changes some may survive: any of the changed names, and any beginning of what was added to a file. Files of
    SQLite are synchronized by a commit, if its connection says so, and where a log is written into its file; of the
    commit in which power is cut any beginning survives, and SQLite says what that is worth.
    """

    def __init__(self, root: Path, scheduler: Scheduler) -> None:
        self.root, self._scheduler = root, scheduler
        self._count = itertools.count()
        self._files: dict[int, int] = {}
        self._content: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        self._paths: dict[int, Path] = {}
        self._folders: set[int] = set()
        self._user, self._full = "driver", 0.0
        self._databases: dict[Path, bytes] = {}  # Files of SQLite as a power cut leaves them
        self._connections: list[tuple[str, Connection]] = []  # With the process that has each
        self._transaction = database._transaction
        self._version = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def urandom(self, count: int) -> bytes:
        """Return random bytes that follow from the history's number."""
        return self._scheduler.bytes(count)

    @contextmanager
    def instead_of_the_system(self) -> Iterator[None]:
        """Redirect all file operations of the store to this disk."""
        places: tuple[Any, ...] = (database, manifest, whole_files)
        files: Any = database
        for module in places:
            module.os = self
        files.sqlite3, files._transaction = SQLite(self), self.committing
        try:
            yield
        finally:
            for module in places:
                module.os = os
            files.sqlite3, files._transaction = sqlite3, self._transaction
            self.end()

    @contextmanager
    def used_by(self, user: str) -> Iterator[None]:
        """Name the process of the following operations: the driver, or the keeper, which may die alone."""
        before, self._user = self._user, user
        try:
            yield
        finally:
            self._user = before

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        """Open as the system does, unless the disk is full."""
        self._may_end(f"open {self._name(path)}")
        if flags & os.O_CREAT and self._is_full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        descriptor = os.open(path, flags, mode)
        self._paths[descriptor] = path
        if flags & os.O_CREAT:
            self._files[os.fstat(descriptor).st_ino] = next(self._count)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close a file; this never fails."""
        path = self._paths.pop(descriptor)
        os.close(descriptor)
        self._may_end(f"close {self._name(path)}")

    def write(self, descriptor: int, content: memoryview) -> int:
        """Write everything, or a part if the disk becomes full or the process ends."""
        part = content[: self._scheduler.below(len(content) + 1)]
        try:
            self._may_end(f"write {self._paths[descriptor].name}")
        except Fault:
            os.write(descriptor, part)
            raise
        if self._is_full():
            if not part:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return os.write(descriptor, part)
        return os.write(descriptor, content)

    def fsync(self, descriptor: int) -> None:
        """Note that the disk now holds the file or folder as it is."""
        path = self._paths[descriptor]
        self._may_end(f"synchronize {self._name(path)}")
        if self._scheduler.happens("disk error", self._name(path)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if not path.is_relative_to(self.root):
            return  # the folder above is not tracked, because others use it
        if path.is_dir():
            self._names[path] = self._directory_names(path)
        else:
            self._content[self._file(path)] = path.read_bytes()

    def connected(self, path: Path, connection: "Connection") -> None:
        """Note a connection of the process that acts now."""
        connection.disk, connection.path = self, path
        self._connections.append((self._user, connection))

    @contextmanager
    def committing(self, connection: "Connection") -> Iterator[None]:
        """Commit, unless the disk is full or fails; the process may end before, while and after it does."""
        self._may_end(f"begin {connection.path.name}")
        self.synchronized(connection)
        with self._transaction(connection):
            yield
            code = sqlite3.SQLITE_FULL if self._is_full() else None
            if code is None and self._scheduler.happens("disk error", connection.path.name):
                code = sqlite3.SQLITE_IOERR
            if code is not None:
                error = sqlite3.OperationalError("it cannot be written")
                error.sqlite_errorcode = code
                raise error
        self._may_end(f"commit {connection.path.name}")
        self.synchronized(connection)
        self._may_end(f"committed {connection.path.name}")

    def synchronized(self, connection: "Connection") -> None:
        """Note that the disk holds a database as it is, if its connection waits for that."""
        if sqlite3.Connection.execute(connection, "PRAGMA synchronous").fetchone()[0] == _SYNCHRONIZED:
            self._note(connection.path)

    def _note(self, path: Path) -> None:
        self._version += 1
        for part in (path, path.with_name(f"{path.name}-wal")):
            self._databases.pop(part, None)
            if part.exists():
                self._databases[part] = part.read_bytes()

    def closing(self, connection: "Connection") -> None:
        """Close a connection, whose log SQLite writes into its file and removes."""
        entries = [entry for entry in self._connections if entry[1] is connection]
        if entries:
            self._may_end(f"close {connection.path.name}")
            sqlite3.Connection.close(connection)
            self._connections.remove(entries[0])
            self._note(connection.path)

    def end(self, user: str = "") -> None:
        """End a process, or all: its connections are gone, and what it wrote is there."""
        image = {path: path.read_bytes() for path in self.root.rglob("*") if is_database(path)}
        for owner, connection in [*self._connections]:
            if user in ("", owner):
                sqlite3.Connection.close(connection)
                self._connections.remove((owner, connection))
                database._IN_USE.pop(connection.path, None)
        for path, content in image.items():
            path.write_bytes(content)

    @property
    def version(self) -> int:
        """A number that grows whenever the disk holds more of a database."""
        return self._version

    def charges(self, folder: Path) -> list[str]:
        """Return the entries of a folder's ledger that a power cut would leave now."""
        below = folder.relative_to(self.root).parts
        for depth, name in enumerate(below):
            if name not in self._names.get(self.root.joinpath(*below[:depth]), {}):
                return []
        with tempfile.TemporaryDirectory(dir=self.root.parent) as copy:
            for path, content in self._databases.items():
                if path.parent == folder:
                    Path(copy, path.name).write_bytes(content)
            with closing(sqlite3.connect(Path(copy, LEDGER.name))) as connection:
                if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'charges'").fetchone():
                    return []
                return [entry for (entry,) in connection.execute("SELECT entry FROM charges ORDER BY position")]

    def _name(self, path: Path) -> str:
        """Return a path's name in the trace, which is the same in each replay."""
        return "its folder" if path == self.root else path.name

    def _may_end(self, what: str) -> None:
        """Possibly make this the last operation of its process, or of all processes."""
        if self._user == "keeper" and self._scheduler.happens("keeper dies", f"at {what}"):
            raise KeeperDiedError
        for kind, fault in (("killed", Killed), ("power cut", PowerCut)):
            if self._scheduler.happens(kind, f"at {what}"):
                self._scheduler.crash(fault)

    def _is_full(self) -> bool:
        if self._scheduler.happens("disk full"):
            self._full = self._scheduler.now + FULL * self._scheduler.coins.random()
        return not self._scheduler.calm and self._scheduler.now < self._full

    def _file(self, path: Path) -> int:
        """Return the identity of a file or folder, which does not depend on its name."""
        file = self._files.setdefault(path.stat().st_ino, next(self._count))
        if path.is_dir():
            self._folders.add(file)
        return file

    def _directory_names(self, folder: Path) -> dict[str, int]:
        return {path.name: self._file(path) for path in sorted(folder.iterdir()) if not is_database(path)}

    def whole(self) -> Image:
        """Return the disk's contents as processes see them."""
        return {path: None if path.is_dir() else path.read_bytes() for path in sorted(self.root.rglob("*"))}

    def survivors(self) -> Image:
        """Return the contents that a power cut leaves."""
        image: Image = {}
        self._keep(self.root, image)
        return image

    def _keep(self, folder: Path, image: Image) -> None:
        before, now = self._names.get(folder, {}), self._directory_names(folder) if folder.is_dir() else {}
        for name in sorted({*before, *now}):
            old, new = before.get(name), now.get(name)
            file = old if old != new and self._scheduler.below(2) else new
            if file is None:
                continue
            path = folder / name
            if file in self._folders:  # it may have been removed since
                image[path] = None
                self._keep(path, image)
                continue
            lasts = self._content.get(file, b"")
            later = path.read_bytes()[len(lasts) :] if file == new else b""
            image[path] = lasts + later[: self._scheduler.below(len(later) + 1)]
        for path, lasts in sorted(self._databases.items()):
            if path.parent == folder:
                image[path] = self._torn(lasts, path.read_bytes() if path.exists() else b"")

    def _torn(self, lasts: bytes, later: bytes) -> bytes:
        """Return a beginning of what a file is now, and what it was behind that."""
        # By lengths alone: SQLite's random numbers are in logs, and a history must not depend on them
        begin = len(lasts) if len(lasts) < len(later) else 0
        cut = begin + self._scheduler.below(len(later) - begin + 1)
        return later[:cut] + lasts[cut:]

    def restore(self, image: Image, *, synchronized: bool) -> None:
        """Restore an image, because code that was cut off may have changed files while it ended."""
        self.end()
        files = {path: self._file(path) for path in self.root.rglob("*")}
        if synchronized:
            self._names.clear()
            self._content.clear()
            self._databases = {path: content for path, content in image.items() if content and is_database(path)}
        self._version += 1
        for path in self.root.iterdir():
            shutil.rmtree(path)
        for path, content in image.items():
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content)
            file = files.get(path, next(self._count))
            self._files[path.stat().st_ino] = file
            if synchronized and content is not None:
                self._content[file] = content
        if synchronized:
            for folder in (self.root, *(path for path, content in image.items() if content is None)):
                self._names[folder] = self._directory_names(folder)


def is_database(path: Path) -> bool:
    """Return whether SQLite writes a file."""
    return path.name.partition(".db")[1] == ".db"


class Connection(sqlite3.Connection):
    """A connection of a process that may end."""

    disk: Disk
    path: Path

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Execute as SQLite does; a log that is written into its file is synchronized before."""
        cursor = super().execute(sql, *parameters)
        if sql.startswith("PRAGMA wal_checkpoint"):
            self.disk.synchronized(self)
        return cursor

    def close(self) -> None:
        """Close; see `Disk.closing`."""
        self.disk.closing(self)


class SQLite:
    """The module in whose place a disk is put."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)

    def connect(self, path: Path, **options: Any) -> Connection:
        """Connect without waiting: the one who holds a file would never get a turn."""
        connection = sqlite3.connect(path, factory=Connection, **{**options, "timeout": 0})
        self._disk.connected(path, connection)
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection
