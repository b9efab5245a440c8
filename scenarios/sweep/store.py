"""The store of a sweep: a folder of its own, and in it every finished unit, on disk as soon as it is done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from actors.durable import add, naming, sync_folder
from coordinator.protocol.errors import InputError
from scenarios.endings import kept
from scenarios.files import write_json
from scenarios.records import check_targets
from scenarios.session import Session
from scenarios.store.locking import sole
from scenarios.store.mark import digest
from scenarios.sweep.progress import counted

UNITS = "units.jsonl"
GRID = "grid.json"
CHECK = "check"
"""Key of a unit's line that holds its digest together with the sweep's."""
K = TypeVar("K")
U = TypeVar("U")
M = TypeVar("M")
Reader = Callable[[dict[str, Any]], tuple[K, M]]
"""Takes a line's JSON value and returns the unit's key and what it found."""
Writer = Callable[[K, M], dict[str, Any]]
"""The way back."""


def claim_folder(out: Path, name: str, content: Mapping[str, Any]) -> None:
    """Make a folder a sweep's own, or find that it is already.

    Parameters
    ----------
    out : Path
        The folder.
    name : str
        Digest of what results depend on: sweeps with the same one share their finished units.
    content : dict
        What results depend on, as JSON values.

    Raises
    ------
    InputError
        If it holds something else, or another grid's sweep.
    """
    if not (out / GRID).is_file():
        check_targets(out, None)
        told = {"digest": name, **content}
        write_json(out / GRID, {**told, "sha256": digest(told)})
    elif _grid(out) != name:
        raise InputError(f"output folder {out} holds the sweep of another grid; name a new one, or give that grid")


def read_units(out: Path, read: Reader[K, M]) -> dict[K, M]:
    """Return the units that a folder holds; a last line that was torn by a crash is cut off.

    Raises
    ------
    InputError
        If another line is no unit of this sweep.
    """
    whole, torn = _lines(out)
    if torn:
        os.truncate(out / UNITS, len(whole))
    return _units(out, whole, read)


def _lines(out: Path) -> tuple[bytes, bytes]:
    """Return the whole lines of a folder's units, and what a crash left of another one."""
    path = out / UNITS
    whole, mark, torn = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
    return whole + mark, torn


def _units(out: Path, whole: bytes, read: Reader[K, M]) -> dict[K, M]:
    if not whole:
        return {}
    grid, path = _grid(out), out / UNITS
    found: dict[K, M] = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            key, measured = read(_checked(json.loads(line), grid))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"line {number} of {path} is no finished unit of this sweep; delete it, it will be run again"
            ) from None
        found[key] = measured
    return found


def measure_units(
    units: Mapping[K, U],
    measure: Callable[[U], M],
    session: Session,
    out: Path,
    console: Console,
    *,
    read: Reader[K, M],
    write: Writer[K, M],
) -> dict[K, M]:
    """Measure every unit that the folder does not hold yet.

    Parameters
    ----------
    units : dict
        All units, in the order in which they are measured.
    measure : callable
        Measures one; a unit is one process' or one thread's work.
    session : Session
        Where.
    out : Path
        A folder that `claim_folder` passed.
    console : Console
        For progress.
    read, write : callable
        A unit's line.

    Returns
    -------
    dict
        What all units found, in their order.

    Raises
    ------
    InputError
        If another sweep is at work in the folder.
    InterruptedRunError, ResumableError
        On Ctrl-C, on a full disk, or where something was lost. What is finished is on disk.
    """
    with sole(out), kept(lambda: units_kept(out, units.keys(), read)):
        return _measured(units, measure, session, out, console, read, write)


def _measured(
    units: Mapping[K, U],
    measure: Callable[[U], M],
    session: Session,
    out: Path,
    console: Console,
    read: Reader[K, M],
    write: Writer[K, M],
) -> dict[K, M]:
    found = read_units(out, read)
    done = {key: found[key] for key in units if key in found}
    keys = [key for key in units if key not in done]
    with counted(console, len(done), len(units)) as tell:
        for place, measured in session.each(measure, [units[key] for key in keys]):
            _append(out, write(keys[place], measured))
            done[keys[place]] = measured
            tell(len(done))
    return {key: done[key] for key in units}


def units_kept(out: Path, units: Collection[K], read: Reader[K, M]) -> str:
    """Tell how many units are done and kept, and how to go on: what `scenarios.endings.kept` takes.

    The folder itself is asked, and left as it is: a unit may be there that was not counted yet, or on its way there.
    """
    try:
        done = len(_units(out, _lines(out)[0], read).keys() & set(units))
    except (InputError, OSError):  # something is wrong with the folder, which whoever goes on is told
        done = 0
    return f"{done} of {len(units)} units are done and kept in {out}, the same command goes on from there"


@contextmanager
def all_kept(out: Path, units: Collection[K]) -> Iterator[None]:
    """Let what is made of finished units and written beside them end as their measurement does; see `units_kept`."""
    count = len(units)
    with kept(lambda: f"all {count} units are done and kept in {out}, the same command goes on from there"):
        yield


def _append(out: Path, line: dict[str, Any]) -> None:
    """Append a line, bound to its folder's sweep; return when it is on the disk."""
    path = out / UNITS
    new = not path.exists()
    with naming(path):
        add(path, (json.dumps({**line, CHECK: _check(_grid(out), line)}) + "\n").encode(), new=new)
        if new:
            sync_folder(out)


def _grid(out: Path) -> str:
    """Return the digest of the sweep that a folder holds.

    Raises
    ------
    InputError
        If it cannot be read, or the file was changed since the sweep began.
    """
    path = out / GRID
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        check, found = held.pop("sha256"), held["digest"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"output folder {out} has a {GRID} that cannot be read, or of another version; name a new folder"
        ) from None
    if check != digest(held):
        raise InputError(f"{path} was changed since the sweep began; put it back as it was, or name a new folder")
    return str(found)


def _checked(line: dict[str, Any], grid: str) -> dict[str, Any]:
    """Return a unit without what binds it to its sweep, if that is right."""
    if line.pop(CHECK) != _check(grid, line):
        raise ValueError("it belongs to another sweep, or was changed")
    return line


def _check(grid: str, line: dict[str, Any]) -> str:
    """Return what binds a unit to its sweep."""
    return digest([grid, line])[:16]
