"""All kinds of sweeps by name, and how a grid becomes a sweep: a built-in name, a file, or what such a file holds."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.protocol.errors import InputError
from scenarios.given.files import read_toml
from scenarios.given.validation import refuse_code
from scenarios.given.values import brief

if TYPE_CHECKING:
    from scenarios.sweep.kind import Kind, Sweep

BUILT_IN = Path(__file__).parent / "grids"
KINDS = {
    "users": "scenarios.sweep.users:USERS",
    "adaptive": "scenarios.sweep.adaptive:ADAPTIVE",
    "online": "scenarios.sweep.online_kind:ONLINE",
    "two-tier": "scenarios.sweep.two_tier:TWO_TIER",
    "results": "scenarios.sweep.results:RESULTS",
}
"""Where the kinds are; one is loaded when it is swept."""
USERS = "users"
"""The kind of a grid that names none."""


def kind_of(name: str) -> Kind:
    """Return a kind by its name."""
    module, _, constant = KINDS[name].partition(":")
    kind: Kind = getattr(importlib.import_module(module), constant)
    return kind


def sweep_of(values: Mapping[str, Any]) -> Sweep[Any, Any, Any]:
    """Return the sweep that a grid's values ask for; its kind is ``sweep``, by default that over users.

    Raises
    ------
    InputError
        One line for the first thing that is wrong: the key, its value and the remedy.
    """
    name = values.get("sweep", USERS)
    if name not in KINDS:
        raise InputError(f"sweep is {brief(name)}; choose among {', '.join(KINDS)}")
    kind = kind_of(name)
    told = {key: value for key, value in values.items() if key != "sweep"}
    for key in told:
        if key not in kind.fields:
            raise InputError(f"key {brief(key)} is unknown; known are {', '.join(kind.fields)}")
    return kind.read(told)


def load_sweep(
    grid: str | Path | Mapping[str, Any], *, seeds: int | None = None, allow_code: bool = False
) -> Sweep[Any, Any, Any]:
    """Return the sweep of a built-in grid by its name, of a TOML file, or of what such a file holds.

    Parameters
    ----------
    grid : str, path or mapping
    seeds : int, optional
        Wins over the grid's.
    allow_code : bool
        Whether a file may name code; see `scenarios.given.validation.refuse_code`. A mapping may: a program made it.

    Raises
    ------
    InputError
        As `sweep_of` does, or if there is no such grid.
    """
    values = dict(grid) if isinstance(grid, Mapping) else _file(str(grid))
    if not (allow_code or isinstance(grid, Mapping)):
        refuse_code(values, f"grid file {grid}")
    return sweep_of(values if seeds is None else {**values, "seeds": seeds})


def _file(name: str) -> dict[str, Any]:
    built_in = name in built_in_grids()
    if not built_in and not Path(name).suffix and not Path(name).exists():
        raise InputError(f"grid {name!r} is unknown; name a TOML file or one of {', '.join(built_in_grids())}")
    return read_toml(BUILT_IN / f"{name}.toml" if built_in else Path(name), "grid file")


def built_in_grids() -> list[str]:
    """Return the names of the grids that come with blindrec."""
    return sorted(path.stem for path in BUILT_IN.glob("*.toml"))
