"""The runner: measures all units of a grid, keeps each as soon as it is finished, and goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.records import check_targets, write_json
from scenarios.session import Session
from scenarios.sweep.grid import Grid
from scenarios.sweep.planned import probes_of
from scenarios.sweep.progress import counted
from scenarios.sweep.threshold import Measured, Unit, guess, measure

UNITS = "units.jsonl"
GRID = "grid.json"
Key = tuple[int, int]
"""A unit: place of the setting in the grid, and seed."""


class SweepInterruptedError(Exception):
    """Ctrl-C: some units are done."""

    def __init__(self, done: int, of: int) -> None:
        super().__init__(f"{done} of {of} units are done")
        self.done, self.of = done, of


def units_of(grid: Grid) -> dict[Key, Unit]:
    """Return every unit of a grid, seed by seed, so that an unfinished sweep tells something of all settings."""
    first = {place: setting.seed for place, setting in enumerate(grid.settings)}
    return {
        (place, first[place] + turn): Unit(
            setting=place,
            scenario=setting.model_copy(update={"seed": first[place] + turn}),
            decoders=grid.decoders_of(setting),
            share=grid.share,
            resolution=grid.resolution,
            start=0,
        )
        for turn in range(grid.seeds)
        for place, setting in enumerate(grid.settings)
    }


def claim(out: Path, grid: Grid) -> None:
    """Make a folder the sweep's own, or find that it is already.

    Raises
    ------
    InputError
        If it holds something else, or another grid's sweep.
    """
    if not (out / GRID).is_file():
        check_targets(out, None)
        write_json(out / GRID, {"digest": grid.digest, **grid.content()})
        return
    try:
        digest = json.loads((out / GRID).read_text(encoding="utf-8"))["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"output folder {out} has a {GRID} that cannot be read; name a new folder") from None
    if digest != grid.digest:
        raise InputError(f"output folder {out} holds the sweep of another grid; name a new one, or give that grid")


def finished(out: Path) -> dict[Key, Measured]:
    """Return the units that a folder holds; a last line that was torn by a crash is cut off.

    Raises
    ------
    InputError
        If another line is no unit.
    """
    path = out / UNITS
    if not path.exists():
        return {}
    whole, mark, torn = path.read_bytes().rpartition(b"\n")
    if torn:
        os.truncate(path, len(whole) + len(mark))
    found: dict[Key, Measured] = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            key, measured = _read(json.loads(line))
        except (ValueError, KeyError, TypeError):
            raise InputError(f"line {number} of {path} is no finished unit; delete it, it will be run again") from None
        found[key] = measured
    return found


def _read(line: dict[str, Any]) -> tuple[Key, Measured]:
    users = {(str(one["decoder"]), str(one["criterion"])): one["users"] for one in line["thresholds"]}
    accuracies = {str(name): float(value) for name, value in line.get("accuracies", {}).items()}
    measured = Measured(
        users=users, devices=int(line["devices"]), seconds=float(line["seconds"]), accuracies=accuracies
    )
    return (int(line["setting"]), int(line["seed"])), measured


def _line(key: Key, measured: Measured) -> bytes:
    thresholds = [
        {"decoder": decoder, "criterion": criterion, "users": users}
        for (decoder, criterion), users in measured.users.items()
    ]
    told = {"setting": key[0], "seed": key[1], "thresholds": thresholds, "accuracies": measured.accuracies}
    return (json.dumps({**told, "devices": measured.devices, "seconds": measured.seconds}) + "\n").encode()


def run_units(grid: Grid, session: Session, out: Path, console: Console) -> dict[Key, Measured]:
    """Measure every unit that the folder does not hold yet.

    Parameters
    ----------
    grid : Grid
        What to measure.
    session : Session
        Where; a unit is one process' or one thread's work.
    out : Path
        A folder that `claim` passed.
    console : Console
        For progress.

    Returns
    -------
    dict of (int, int) to Measured
        All units of the grid.

    Raises
    ------
    SweepInterruptedError
        On Ctrl-C. What is finished is on disk.
    """
    units, found = units_of(grid), finished(out)
    done = {key: found[key] for key in units if key in found}
    try:
        starts = [
            guess(setting.model_copy(update={"decoder": grid.decoders_of(setting)[0]})) for setting in grid.settings
        ]
        probes = [probes_of(grid, setting) for setting in grid.settings]
        left = {
            key: replace(unit, start=starts[unit.setting], probes=probes[unit.setting])
            for key, unit in units.items()
            if key not in done
        }
        keys = list(left)
        with _appending(out / UNITS) as append, counted(console, len(done), len(units)) as tell:
            for place, measured in session.each(measure, list(left.values())):
                append(_line(keys[place], measured))
                done[keys[place]] = measured
                tell(len(done))
    except KeyboardInterrupt:
        kept = finished(out).keys() & units.keys()  # a unit may be on disk that was not counted yet
        raise SweepInterruptedError(len(kept), len(units)) from None
    return {key: done[key] for key in units}


@contextmanager
def _appending(path: Path) -> Iterator[Any]:
    """Yield a function that appends a line and returns when it is on the disk."""
    with path.open("ab") as file:

        def append(line: bytes) -> None:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

        yield append
