"""The units of an adaptive sweep: which there are, and how they stand in the folder."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from scenarios.config import MOST_USERS
from scenarios.places.session import Session
from scenarios.sweep.adaptive_measure import Measured, Unit, measure
from scenarios.sweep.adaptive_settings import GENEROUS, Comparison
from scenarios.sweep.course import Standing
from scenarios.sweep.folder import measure_units
from scenarios.sweep.schemes import SCHEMES

Key = tuple[str, int, int]
"""A unit: scheme, items and seed."""
Units = dict[Key, Measured]


def units_of(wanted: Comparison) -> dict[Key, Unit]:
    """Return every unit, seed by seed, so that an unfinished sweep tells something of all schemes."""
    found: dict[Key, Unit] = {}
    firsts = {(name, items): _first(wanted, name, items) for items in wanted.items for name in wanted.measured}
    for seed in range(wanted.seeds):
        for (name, items), first in firsts.items():
            scenario = first.scenario.model_copy(update={"seed": seed})
            found[name, items, seed] = replace(first, scenario=scenario, told=SCHEMES[name].adaptive and seed == 0)
    return found


def _first(wanted: Comparison, name: str, items: int) -> Unit:
    planned = wanted.planned(name, items)
    assert planned is not None  # checked before
    start = round(planned)
    scenario = wanted.scenario(name, items, users=min(round(GENEROUS * start), MOST_USERS))
    return Unit(scenario=scenario, statistic=wanted.statistic, start=start)


def run_comparison(wanted: Comparison, session: Session, out: Path, console: Console) -> Units:
    """Measure every unit that the folder does not hold yet; see `folder.measure_units`."""
    return measure_units(units_of(wanted), measure, session, out, console, read=_read, write=_written)


def _read(line: dict[str, Any]) -> tuple[Key, Measured]:
    key = (str(line.pop("scheme")), int(line.pop("items")), int(line.pop("seed")))
    return key, Measured(**{**line, "steps": tuple(Standing(**step) for step in line["steps"])})


def _written(key: Key, measured: Measured) -> dict[str, Any]:
    return {"scheme": key[0], "items": key[1], "seed": key[2], **asdict(measured)}
