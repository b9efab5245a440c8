"""All kinds of sweeps by name, and how a grid becomes a sweep: a built-in name, a file, or what such a file holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError
from scenarios.given.values import brief, read_toml
from scenarios.sweep.adaptive import ADAPTIVE
from scenarios.sweep.grid import BUILT_IN, built_in_grids
from scenarios.sweep.kind import Kind, Sweep
from scenarios.sweep.online_kind import ONLINE
from scenarios.sweep.results import RESULTS
from scenarios.sweep.two_tier import TWO_TIER
from scenarios.sweep.users import USERS

KINDS: dict[str, Kind] = {one.name: one for one in (USERS, ADAPTIVE, ONLINE, TWO_TIER, RESULTS)}


def sweep_of(values: Mapping[str, Any]) -> Sweep[Any, Any, Any]:
    """Return the sweep that a grid's values ask for; its kind is ``sweep``, by default that over users.

    Raises
    ------
    InputError
        One line for the first thing that is wrong: the key, its value and the remedy.
    """
    name = values.get("sweep", USERS.name)
    if name not in KINDS:
        raise InputError(f"sweep is {brief(name)}; choose among {', '.join(KINDS)}")
    kind = KINDS[name]
    told = {key: value for key, value in values.items() if key != "sweep"}
    for key in told:
        if key not in kind.fields:
            raise InputError(f"key {brief(key)} is unknown; known are {', '.join(kind.fields)}")
    return kind.read(told)


def load_sweep(grid: str | Path | Mapping[str, Any], *, seeds: int | None = None) -> Sweep[Any, Any, Any]:
    """Return the sweep of a built-in grid by its name, of a TOML file, or of what such a file holds.

    Parameters
    ----------
    grid : str, path or mapping
    seeds : int, optional
        Wins over the grid's.

    Raises
    ------
    InputError
        As `sweep_of` does, or if there is no such grid.
    """
    values = dict(grid) if isinstance(grid, Mapping) else _file(str(grid))
    return sweep_of(values if seeds is None else {**values, "seeds": seeds})


def _file(name: str) -> dict[str, Any]:
    built_in = name in built_in_grids()
    if not built_in and not Path(name).suffix and not Path(name).exists():
        raise InputError(f"grid {name!r} is unknown; name a TOML file or one of {', '.join(built_in_grids())}")
    return read_toml(BUILT_IN / f"{name}.toml" if built_in else Path(name), "grid file")
