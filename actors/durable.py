"""Files that outlive a crash and a power cut: all of them are written here, by single operations of the system.

The name of a new file is on the disk only once its folder has been synchronized.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".blindrec-part"
"""Ending of a file that is still being written; nobody reads one that a crash left behind."""


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are missing, and wait until the disk holds their names.

    Folders are made from the top, each once the one above it is on the disk. If another process died while it made
    them, only the lowest folder can be missing from the disk, so this waits for the lowest one even where it exists.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    lowest = missing[-1].parent if missing else folder
    with suppress(PermissionError):  # whoever cannot read the folder above did not make this one
        sync_folder(lowest.parent)
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        sync_folder(one.parent)


def settle(folder: Path, ending: str) -> None:
    """Wait until the disk holds a folder's name, and the files with some ending in it as they are read now.

    A process may have died after it wrote a file and before the disk held it. Such a file can be read now but is lost
    in a power cut. Whoever acts on the contents of a folder calls this function first.
    """
    make_folder(folder)
    for path in sorted(folder.glob(f"*{ending}")):
        _wait_for(path, os.O_RDONLY | os.O_NONBLOCK)  # nobody waits for who writes to a named pipe
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Wait until the disk holds a folder's list of files, unless the file system says that it cannot do so."""
    try:
        _wait_for(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _wait_for(path: Path, flags: int) -> None:
    held = os.open(path, flags)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def write_whole(target: Path, content: bytes) -> None:
    """Replace a file through a temporary one beside it, so that readers find all of the old or all of the new."""
    part = target.with_name(f".{target.name[:40]}.{os.urandom(4).hex()}{PART}")
    try:
        with naming(target):
            add(part, content, new=True)
            part.replace(target)
            sync_folder(target.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make errors of the system name this file, whichever operation failed."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def add(path: Path, content: bytes, *, new: bool) -> None:
    """Write at the end of a file, and wait until the disk holds it; the name of a new one is not synchronized here."""
    held = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0), 0o666)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(held, left) :]
        os.fsync(held)
    finally:
        os.close(held)
