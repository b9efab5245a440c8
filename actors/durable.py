"""What outlives a crash and a power cut: every kept file is written here, by single operations of the system.

A folder's entry is on the disk only once the folder itself was synchronized.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PART = ".blindrec-part"
"""Ends the name of a file that is being written; one that a crash left behind belongs to nobody."""


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are missing, and wait until the disk holds their names."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk holds which files a folder has; some file systems know no such thing and say so."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(held)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
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
