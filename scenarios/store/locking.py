"""One run at a time in an output folder: a second one would write over what the first one keeps."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coordinator.protocol.errors import InputError
from scenarios.files import clear, try_folder


@contextmanager
def sole(out: Path | None) -> Iterator[None]:
    """Hold an output folder while a command works there; it is made if need be, and goes if nothing came into it.

    What a process that died left half written is removed.

    Parameters
    ----------
    out : Path or None
        None: there is nothing to hold.

    Raises
    ------
    InputError
        If a command that is still alive holds it, or it cannot be made.

    Notes
    -----
    The system's lock on the folder itself: no file tells of it, and it vanishes with the process however that ends.
    It is not handed down to processes that are started meanwhile. Where folders cannot be locked, nothing is held; on
    a network disk the lock may hold on one machine only.
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
            clear(out)
            yield
        finally:
            if made:
                with suppress(OSError):  # something lies in it
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
    if not out.exists() or not os.path.samestat(os.fstat(held), out.stat()):  # its last holder removed it meanwhile
        raise _in_use(out)


def _in_use(out: Path) -> InputError:
    return InputError(
        f"output folder {out} is in use by another blindrec that still runs; wait for it, or name another one"
    )
