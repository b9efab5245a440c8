"""A lock on an output folder, because a second run there would overwrite the files of the first one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coordinator.protocol.errors import InputError
from scenarios.store.files import clear, try_folder


@contextmanager
def sole(out: Path | None) -> Iterator[None]:
    """Hold an output folder while a command works there; make it if needed, and remove it if it stays empty.

    Unfinished files of processes that died are removed.

    Parameters
    ----------
    out : Path or None
        The folder; None if there is none.

    Raises
    ------
    InputError
        If another running command holds it, it cannot be made, or a symbolic link leads out of it.

    Notes
    -----
    This is the system's lock on the folder itself, without a file. It vanishes with the process, however that ends, and
    child processes do not inherit it. On file systems without such locks nothing is held, and on a network disk the
    lock may hold on one machine only.
    """
    if out is None:
        yield
        return
    made = not out.exists()
    try_folder(out)
    held = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(held, out)
        try:
            _require_inside(out)
            clear(out)
            yield
        finally:
            if made:
                with suppress(OSError):  # it is not empty
                    out.rmdir()
    finally:
        os.close(held)


def _lock(held: int, out: Path) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(out) from None
    except OSError:  # a file system without such locks
        return
    if not out.exists() or not os.path.samestat(os.fstat(held), out.stat()):  # its last holder has removed it meanwhile
        raise _in_use(out)


def _require_inside(out: Path) -> None:
    """Refuse a folder with a symbolic link out of it, by which something elsewhere would be overwritten or removed."""
    top = out.resolve()
    for folder, folders, files in os.walk(out):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink() and not path.resolve().is_relative_to(top):
                raise InputError(
                    f"output folder {out}: {path} is a symbolic link out of it, and would be written to; remove the "
                    "link, or put what it leads to there"
                )


def _in_use(out: Path) -> InputError:
    return InputError(
        f"output folder {out} is in use by another blindrec that still runs; wait for it, or name another one"
    )
