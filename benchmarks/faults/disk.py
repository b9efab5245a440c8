"""The disk of a history: files are in a real folder, and the simulation knows what a power cut would leave of them."""

import errno
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors import durable_log
from benchmarks.faults.scheduler import Fault, KeeperDiedError, Killed, PowerCut, Scheduler
from scenarios.store import manifest

Image = dict[Path, bytes | None]
"""Contents of a disk: bytes for a file, None for a folder; a folder comes before its files."""
FULL = 4.0  # Most seconds that a full disk stays full


class Disk:
    """A folder whose files are written through `actors.durable_log`, which gets this in the place of `os`.

    After a power cut a folder has the names, and a file the content, that it had when it was last synchronized. Of
    later changes some may survive: any of the changed names, and any beginning of what was added to a file.
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

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def urandom(self, count: int) -> bytes:
        """Return random bytes that follow from the history's number."""
        return self._scheduler.bytes(count)

    @contextmanager
    def instead_of_the_system(self) -> Iterator[None]:
        """Redirect all file operations of `actors.durable_log` to this disk."""
        places: tuple[Any, ...] = (durable_log, manifest)
        for module in places:
            module.os = self
        try:
            yield
        finally:
            for module in places:
                module.os = os

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
        self._may_end(f"open {path.name}")
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
        self._may_end(f"close {path.name}")

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
        self._may_end(f"synchronize {path.name}")
        if self._scheduler.happens("disk error", path.name):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if not path.is_relative_to(self.root):
            return  # the folder above is not tracked, because others use it
        if path.is_dir():
            self._names[path] = self._directory_names(path)
        else:
            self._content[self._file(path)] = path.read_bytes()

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
        return {path.name: self._file(path) for path in sorted(folder.iterdir())}

    def lasting(self, folder: Path) -> dict[str, bytes]:
        """Return the files of a folder that a power cut would leave now, with their contents."""
        below = folder.relative_to(self.root).parts
        for depth, name in enumerate(below):
            if name not in self._names.get(self.root.joinpath(*below[:depth]), {}):
                return {}
        return {name: self._content.get(file, b"") for name, file in self._names.get(folder, {}).items()}

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

    def restore(self, image: Image, *, synchronized: bool) -> None:
        """Restore an image, because code that was cut off may have changed files while it ended."""
        files = {path: self._file(path) for path in self.root.rglob("*")}
        if synchronized:
            self._names.clear()
            self._content.clear()
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
