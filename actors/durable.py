"""What outlives a crash and a power cut: every kept file is written here, by single operations of the system.

A folder's entry is on the disk only once the folder itself was synchronized.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".blindrec-part"
"""Ends the name of a file that is being written; one that a crash left behind belongs to nobody."""


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are missing, and wait until the disk holds their names.

    They are made from the top, each once the one above is on the disk. So of those that a process made that died, only
    the lowest can be missing there: its name is waited for, too.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    lowest = missing[-1].parent if missing else folder
    with suppress(PermissionError):  # who may not look into the folder above did not make this one
        sync_folder(lowest.parent)
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        sync_folder(one.parent)


def settle(folder: Path, ending: str) -> None:
    """Wait until the disk holds a folder's name, and its files of an ending as anybody who looks there finds them.

    What a process wrote that died before it could wait for the disk is there to be read, and gone after a power cut.
    Whoever acts on what is found there calls this first.
    """
    make_folder(folder)
    for path in sorted(folder.glob(f"*{ending}")):
        _wait_for(path, os.O_RDONLY)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Wait until the disk holds which files a folder has; some file systems know no such thing and say so."""
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
    """Write a file by way of a new one beside it: whoever looks there finds all of the old one, or all of this one."""
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
    """Let errors of the system name a file, whichever operation failed."""
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
