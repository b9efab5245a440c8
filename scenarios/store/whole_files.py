"""Files: written whole or not at all, tried before a run, and a lock on an output folder."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.database import make_folder, sync_folder
from coordinator.protocol.errors import InputError
from scenarios.config.files import read_table

if TYPE_CHECKING:
    import pandas as pd

PART = ".blindrec-part"  # Ending of a file that is still being written; nobody reads one that a crash left behind


def try_folder(folder: Path) -> None:
    """Make a folder, and make sure that files can be written there."""
    complaint = f"output folder {folder} cannot be made"
    try:
        make_folder(folder)
    except OSError as error:
        raise InputError(f"{complaint} ({error.strerror}); name another one") from None
    try_file(folder / "result.json", complaint, "name another one")


def try_file(target: Path, complaint: str, remedy: str) -> None:
    """Make sure that a file can be written."""
    path = target.resolve()
    try:
        if path.is_fifo():
            raise InputError(f"{complaint} (it is a named pipe, on which the command might wait for ever); {remedy}")
        if path.exists() and not path.is_file():
            path.open("a").close()
        else:
            tempfile.TemporaryFile(dir=path.parent, prefix=".", suffix=PART).close()
    except OSError as error:
        raise InputError(f"{complaint} ({error.strerror}); {remedy}") from None


def size_of(file: Path) -> int:
    """Return the size of a file [bytes]; 0 where there is none."""
    return file.stat().st_size if file.is_file() else 0


def to_json(value: dict[str, Any]) -> str:
    """Return strict JSON: no NaN, no infinity."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def write_json(target: Path, value: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    write_bytes(target, to_json(value).encode())


def write_bytes(target: Path, content: bytes) -> None:
    """Write a file by way of a new one beside it; what is no regular file (a pipe, a device) is written as it is."""
    path = target.resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(content)
    else:
        write_whole(path, content)


def write_whole(target: Path, content: bytes) -> None:
    """Replace a file through a temporary one beside it, so that readers find all of the old or all of the new."""
    part = target.with_name(f".{target.name[:40]}.{os.urandom(4).hex()}{PART}")
    try:
        with _naming(target):
            _write_new(part, content)
            part.replace(target)
            sync_folder(target.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Make errors of the system name this file, whichever operation failed."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _write_new(path: Path, content: bytes) -> None:
    """Write a new file, and wait until the disk holds its content."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_table(target: Path, table: pd.DataFrame) -> None:
    """Write a table as Parquet or CSV, as the file's name says."""
    parquet = target.suffix == ".parquet"
    write_bytes(target, table.to_parquet(index=False) if parquet else table.to_csv(index=False).encode())


def write_tables(target: Path, tables: Iterable[pd.DataFrame]) -> None:
    """Write tables of the same columns below each other as Parquet, one in memory at a time, whole or not at all."""
    import pyarrow as pa  # noqa: PLC0415 (other commands need not wait for it)
    from pyarrow import parquet  # noqa: PLC0415 (other commands need not wait for it)

    make_folder(target.parent)
    part, writer = target.with_name(f".{target.name}{PART}"), None
    try:
        for table in tables:
            rows = pa.Table.from_pandas(table, preserve_index=False)
            writer = writer or parquet.ParquetWriter(part, rows.schema)
            writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()
    if writer is not None:
        part.replace(target)


def tables_in(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the tables of a finished folder by their names without suffixes, CSV before Parquet."""
    tables: dict[str, pd.DataFrame] = {}
    for ending in (".csv", ".parquet"):
        for path in sorted(folder.glob(f"*{ending}")):
            tables[path.stem] = read_table(path, "put it back as it was")
    return tables


def left_over(path: Path) -> bool:
    """Return whether a file was only half written when its process died."""
    return path.name.endswith(PART)


def clear(out: Path) -> None:
    """Remove half-written files of dead processes from a folder and its journal; only for the holder of its lock."""
    for folder in (out, *out.glob("rounds/**")):
        for part in folder.glob(f".*{PART}"):
            part.unlink(missing_ok=True)


@contextmanager
def lasting_folder(out: Path | None) -> Iterator[Path]:
    """Yield the folder of a sweep, one that lasts as long as the block where none is named."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="blindrec-") as folder:
        yield Path(folder) / "sweep"


@contextmanager
def locked_folder(out: Path | None) -> Iterator[None]:
    """Lock an output folder while a command works there; make it if needed, and remove it if it stays empty."""
    # This is the system's lock on the folder itself, without a file. It vanishes with the process, however that ends,
    # and child processes do not inherit it. On file systems without such locks nothing is held, and on a network disk
    # the lock may hold on one machine only.
    if out is None:
        yield
        return
    made = not out.exists()
    try_folder(out)
    lock = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(lock, out)
        try:
            _require_inside(out)
            clear(out)
            yield
        finally:
            if made:
                with suppress(OSError):  # it is not empty
                    out.rmdir()
    finally:
        os.close(lock)


def _lock(lock: int, out: Path) -> None:
    free = True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        free = False
    except OSError:  # a file system without such locks
        return
    # its last holder may have removed the folder meanwhile
    if not (free and out.exists() and os.path.samestat(os.fstat(lock), out.stat())):
        raise InputError(
            f"output folder {out} is in use by another blindrec that still runs; wait for it, or name another one"
        )


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
