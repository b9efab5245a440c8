"""Files: written whole or not at all, and tried before anything runs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.durable import PART, make_folder, write_whole
from coordinator.protocol.errors import InputError
from scenarios.given.files import read_table

if TYPE_CHECKING:
    import pandas as pd


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
            tempfile.TemporaryFile(dir=place.parent, prefix=".", suffix=PART).close()
    except OSError as error:
        raise InputError(f"{complaint} ({error.strerror}); {remedy}") from None


def size_of(file: Path) -> int:
    """Return the size of a file [bytes]; 0 where there is none, which is for others to refuse."""
    return file.stat().st_size if file.is_file() else 0


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
    else:
        write_whole(place, content)


def write_table(target: Path, table: pd.DataFrame) -> None:
    """Write a table as Parquet or CSV, as the file's name says."""
    parquet = target.suffix == ".parquet"
    write_bytes(target, table.to_parquet(index=False) if parquet else table.to_csv(index=False).encode())


def tables_in(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the tables of a finished folder by their names without endings, CSV before Parquet.

    Raises
    ------
    InputError
        If one cannot be read.
    """
    found: dict[str, pd.DataFrame] = {}
    for ending in (".csv", ".parquet"):
        for path in sorted(folder.glob(f"*{ending}")):
            found[path.stem] = read_table(path, "put it back as it was")
    return found


def left_over(path: Path) -> bool:
    """Return whether a file was only half written when its process died."""
    return path.name.endswith(PART)


def clear(out: Path) -> None:
    """Remove what processes that died left half written in a folder and in its journal; whoever holds it may do so."""
    for folder in (out, *out.glob("rounds/**")):
        for part in folder.glob(f".*{PART}"):
            part.unlink(missing_ok=True)
