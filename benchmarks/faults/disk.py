"""The disk of a history: files lie in a real folder, and it is known what of them would outlive a power cut."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors import durable, log
from benchmarks.faults.scheduler import Fault, KeeperDiedError, Killed, PowerCut, Scheduler
from scenarios.store import mark

Image = dict[Path, bytes | None]
"""What lies on a disk: the content of each file, None for a folder; folders come before what is in them."""
FULL = 4.0
"""Seconds that a full disk stays full at most."""


class Disk:
    """A folder whose files are written through `actors.durable`, which gets this in the place of `os`.

    Which names a folder has outlives a power cut as it was when the folder was last synchronized, and what a file
    holds as it was when the file was. Of what came later some is kept: each change of a name or not, and any beginning
    of what was added to a file.

    Parameters
    ----------
    root : Path
        Empty.
    scheduler : Scheduler
        Says when an operation fails, or is the last one of its process.
    """

    def __init__(self, root: Path, scheduler: Scheduler) -> None:
        self.root, self._scheduler = root, scheduler
        self._count = itertools.count()
        self._files: dict[int, int] = {}
        self._content: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        self._held: dict[int, Path] = {}
        self._folders: set[int] = set()
        self._user, self._full = "driver", 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def urandom(self, count: int) -> bytes:
        """Return bytes that follow from the history."""
        return self._scheduler.bytes(count)

    @contextmanager
    def instead_of_the_system(self) -> Iterator[None]:
        """Let all that is kept be written here."""
        places: tuple[Any, ...] = (durable, log, mark)
        for module in places:
            module.os = self
        try:
            yield
        finally:
            for module in places:
                module.os = os

    @contextmanager
    def used_by(self, user: str) -> Iterator[None]:
        """Tell whose operations these are: the driver's, or the keeper's, which may die alone."""
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
        held = os.open(path, flags, mode)
        self._held[held] = path
        if flags & os.O_CREAT:
            self._files[os.fstat(held).st_ino] = next(self._count)
        return held

    def close(self, held: int) -> None:
        """Close, whatever happens."""
        path = self._held.pop(held)
        os.close(held)
        self._may_end(f"close {path.name}")

    def write(self, held: int, content: memoryview) -> int:
        """Write all, or as much as comes to the disk before it is full or the process ends."""
        part = content[: self._scheduler.below(len(content) + 1)]
        try:
            self._may_end(f"write {self._held[held].name}")
        except Fault:
            os.write(held, part)
            raise
        if self._is_full():
            if not part:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return os.write(held, part)
        return os.write(held, content)

    def fsync(self, held: int) -> None:
        """Note what is on the disk now."""
        path = self._held[held]
        self._may_end(f"synchronize {path.name}")
        if self._scheduler.happens("disk error", path.name):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if not path.is_relative_to(self.root):
            return  # the folder above, where folders of others come and go
        if path.is_dir():
            self._names[path] = self._listed(path)
        else:
            self._content[self._file(path)] = path.read_bytes()

    def _may_end(self, what: str) -> None:
        """Let this be the last operation of its process, or of all."""
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
        """Return what a file or a folder is known by, whatever name it has."""
        file = self._files.setdefault(path.stat().st_ino, next(self._count))
        if path.is_dir():
            self._folders.add(file)
        return file

    def _listed(self, folder: Path) -> dict[str, int]:
        return {path.name: self._file(path) for path in sorted(folder.iterdir())}

    def lasting(self, folder: Path) -> dict[str, bytes]:
        """Return the files of a folder that would outlive a power cut now, and what of them would."""
        below = folder.relative_to(self.root).parts
        for depth, name in enumerate(below):
            if name not in self._names.get(self.root.joinpath(*below[:depth]), {}):
                return {}
        return {name: self._content.get(file, b"") for name, file in self._names.get(folder, {}).items()}

    def whole(self) -> Image:
        """Return all that lies here, as the processes see it."""
        found = {path: None if path.is_dir() else path.read_bytes() for path in sorted(self.root.rglob("*"))}
        return dict(found)

    def survivors(self) -> Image:
        """Return what a power cut leaves."""
        image: Image = {}
        self._keep(self.root, image)
        return image

    def _keep(self, folder: Path, image: Image) -> None:
        before, now = self._names.get(folder, {}), self._listed(folder) if folder.is_dir() else {}
        for name in sorted({*before, *now}):
            old, new = before.get(name), now.get(name)
            kept = old if old != new and self._scheduler.below(2) else new
            if kept is None:
                continue
            path = folder / name
            if kept in self._folders:  # which was removed since, perhaps
                image[path] = None
                self._keep(path, image)
                continue
            lasts = self._content.get(kept, b"")
            later = path.read_bytes()[len(lasts) :] if kept == new else b""
            image[path] = lasts + later[: self._scheduler.below(len(later) + 1)]

    def restore(self, image: Image, *, synchronized: bool) -> None:
        """Put an image here, in the place of what code that was cut off still did while it ended."""
        known = {path: self._file(path) for path in self.root.rglob("*")}
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
            file = known.get(path, next(self._count))
            self._files[path.stat().st_ino] = file
            if synchronized and content is not None:
                self._content[file] = content
        if synchronized:
            for folder in (self.root, *(path for path, content in image.items() if content is None)):
                self._names[folder] = self._listed(folder)
