"""The runner: measures all units of a grid, keeps each as soon as it is finished, and goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from scenarios.places.session import Session
from scenarios.sweep.folder import measure_units
from scenarios.sweep.grid import Grid
from scenarios.sweep.planned import probes_of
from scenarios.sweep.threshold import Measured, Unit, guess, measure

Key = tuple[int, int]
"""A unit: place of the setting in the grid, and seed."""


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
            criteria=grid.criteria,
        )
        for turn in range(grid.seeds)
        for place, setting in enumerate(grid.settings)
    }


def _read(line: dict[str, Any]) -> tuple[Key, Measured]:
    users = {(str(one["decoder"]), str(one["criterion"])): one["users"] for one in line["thresholds"]}
    accuracies = {str(name): float(value) for name, value in line.get("accuracies", {}).items()}
    measured = Measured(
        users=users, devices=int(line["devices"]), seconds=float(line["seconds"]), accuracies=accuracies
    )
    return (int(line["setting"]), int(line["seed"])), measured


def _written(key: Key, measured: Measured) -> dict[str, Any]:
    thresholds = [
        {"decoder": decoder, "criterion": criterion, "users": users}
        for (decoder, criterion), users in measured.users.items()
    ]
    told = {"setting": key[0], "seed": key[1], "thresholds": thresholds, "accuracies": measured.accuracies}
    return {**told, "devices": measured.devices, "seconds": measured.seconds}


def run_units(grid: Grid, session: Session, out: Path, console: Console) -> dict[Key, Measured]:
    """Measure every unit that the folder does not hold yet.

    Parameters
    ----------
    grid : Grid
        What to measure.
    session : Session
        Where; a unit is one process' or one thread's work.
    out : Path
        A folder that `scenarios.sweep.folder.claim` passed.
    console : Console
        For progress.

    Returns
    -------
    dict of (int, int) to Measured
        All units of the grid.

    Raises
    ------
    InputError, LostError
        As `scenarios.sweep.folder.measure_units` does.
    """
    starts = [guess(setting.model_copy(update={"decoder": grid.decoders_of(setting)[0]})) for setting in grid.settings]
    probes = [probes_of(grid, setting) for setting in grid.settings]
    units = {
        key: replace(unit, start=starts[unit.setting], probes=probes[unit.setting])
        for key, unit in units_of(grid).items()
    }
    return measure_units(units, measure, session, out, console, read=_read, write=_written)
