"""Names that outlive a power cut: a folder's entry is on the disk only once the folder itself was synchronized."""

from __future__ import annotations

import errno
import os
from pathlib import Path


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
