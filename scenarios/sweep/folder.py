"""A sweep and its folder: every finished unit is on the disk as soon as it is done, and is never measured again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.places.session import Session
from scenarios.store.holding import held_in
from scenarios.store.mark import SWEEP, Mark
from scenarios.store.taking import take
from scenarios.store.units import Reader, Units, Writer
from scenarios.sweep.progress import counted

K = TypeVar("K")
U = TypeVar("U")
M = TypeVar("M")
T = TypeVar("T")
EARLIER = "grid.json"
"""What sweeps had in the place of a mark until they were kept as runs are."""


@contextmanager
def swept_in(
    out: Path, content: Mapping[str, Any], opening: AbstractContextManager[Session], work: Callable[[Session], T]
) -> Iterator[T]:
    """Measure a sweep's units in its folder; let the caller write there what they say. The units stay.

    Parameters
    ----------
    out : Path
        New folder, or that of a sweep of the same content, whose finished units are taken as they are.
    content : dict
        What units depend on, as JSON values; not which units there are.
    opening : context manager
        Opens the backend; see `scenarios.places.backends.opened`.
    work : callable
        Measures them on it, by `measure_units`.

    Yields
    ------
    object
        What it returned.

    Raises
    ------
    InputError
        If the folder holds something else, or another sweep is at work there.
    InterruptedRunError, ResumableError
        On Ctrl-C, on a full disk, or where something was lost, if the folder keeps units. What is finished is on disk.
    """
    with held_in(out, opening, claim=lambda folder: claim(folder, content), work=work) as done:
        yield done


def claim(out: Path, content: Mapping[str, Any]) -> None:
    """Make a folder a sweep's own, or find that it is already; see `scenarios.store.taking.take`, also for errors."""
    if (out / EARLIER).is_file():
        raise InputError(
            f"output folder {out} holds a sweep that an earlier version of blindrec kept, in another format; go on "
            "with that version, or name a new folder"
        )
    told = json.loads(json.dumps(content))
    take(out, Mark(kind=SWEEP, scenario=told, source_sha256=None, code_sha256=""))


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
        A folder that `claim` passed.
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
        If what the folder holds is damaged, or of another sweep.
    LostError
        If a unit cannot be kept, as on a full disk.
    """
    kept = Units(out, read, write)
    done = {key: measured for key, measured in kept if key in units}
    keys = [key for key in units if key not in done]
    with counted(console, len(done), len(units)) as tell:
        for place, measured in session.each(measure, [units[key] for key in keys]):
            kept.keep(keys[place], measured)
            done[keys[place]] = measured
            tell(len(done))
    return {key: done[key] for key in units}
