"""Files: written whole or not at all, and tried before anything runs."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from actors.durable import make_folder, sync_folder
from coordinator.protocol.errors import InputError

_UMASK = os.umask(0)
os.umask(_UMASK)


def try_folder(folder: Path) -> None:
    """Make a folder, and make sure that files can be written there.

    Raises
    ------
    InputError
        If not.
    """
    complaint = f"output folder {folder} cannot be made"
    try:
        make_folder(folder)
    except OSError as error:
        raise InputError(f"{complaint} ({error.strerror}); name another one") from None
    try_file(folder / "result.json", complaint, "name another one")


def try_file(target: Path, complaint: str, remedy: str) -> None:
    """Make sure that a file can be written.

    Raises
    ------
    InputError
        The complaint, the system's reason and the remedy.
    """
    place = target.resolve()
    try:
        if place.is_fifo():
            raise InputError(f"{complaint} (it is a named pipe, on which the command might wait for ever); {remedy}")
        if place.exists() and not place.is_file():
            place.open("a").close()
        else:
            tempfile.TemporaryFile(dir=place.parent).close()
    except OSError as error:
        raise InputError(f"{complaint} ({error.strerror}); {remedy}") from None


def to_json(value: dict[str, Any]) -> str:
    """Return strict JSON: no NaN, no infinity."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def write_json(target: Path, value: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    write_bytes(target, to_json(value).encode())


def write_bytes(target: Path, content: bytes) -> None:
    """Write a file by way of a new one beside it; what is no regular file (a pipe, a device) is written as it is."""
    place = target.resolve()
    if place.exists() and not place.is_file():
        place.write_bytes(content)
        return
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name[:40]}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o666 & ~_UMASK)
            Path(file.name).replace(place)
            sync_folder(place.parent)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
