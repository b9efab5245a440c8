"""All kinds of sweeps by name; a grid is a built-in name, a file, or what such a file holds."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic.fields import FieldInfo

from coordinator.protocol.errors import InputError, name_choices
from scenarios.config.files import brief, read_toml
from scenarios.config.settings import refuse_code

if TYPE_CHECKING:
    from scenarios.studies.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of sweep: what its grids may say, and the study that they describe."""

    fields: Mapping[str, FieldInfo]  # Keys of a grid file; with ``--`` before them on the command line
    read: Callable[[Mapping[str, Any]], Study[Any, Any]]  # Raises `InputError` where nothing can be measured
    help: str  # What `--help` teaches
    meanings: dict[str, str]  # Of keys of its results and their rows that no other has, for the site's page
    tables: tuple[str, str] = ("units.parquet", "table.csv")  # Files of the units, and of the result's rows

    def help_with_folder(self) -> str:
        """Return the help of this kind, with what holds for the folder of every kind."""
        units, rows = self.tables
        return f"""{self.help}
Every finished unit is stored in the folder at once: Ctrl-C loses only unfinished units, and the same command resumes
the sweep, also with more seeds or settings. At the end the folder holds result.json, versions.json, {units} (every
unit), {rows} and every figure as a picture, with all its points and bounds in tables.
"""


def values_of(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a grid's values of these names; None where it does not say one."""
    return {name: values.get(name) for name in names}


BUILT_IN = Path(__file__).parent / "grids"
KINDS = {
    "users": "Find how many users each setting needs: the smallest U* that succeeds in at least half of the seeds.",
    "adaptive": "Compare how many users it takes to get all labels right: one round against adaptive rounds, over "
    "items N.",
    "online": "Compare online recommenders: their loss and what they leak, beside the bounds; or on clients of a file.",
    "two-tier": "Draw the paper's figures over seeds: errors against public users, and against private devices that "
    "answer.",
    "results": "Measure any column of any experiment over any of its fields; a file with experiment, [base] and "
    "[[grid]].",
}
"""The kinds, each with the first sentence of its help; ``KIND`` of ``NAME_sweep.py`` is loaded when it is swept."""
DEFAULT_KIND = "users"  # The kind of a grid that names none
OF_FILES = (DEFAULT_KIND, "results")  # Kinds of which grids alone tell; others are commands with flags, too


def kind_of(name: str) -> Kind:
    """Return a kind by its name."""
    kind: Kind = pkgutil.resolve_name(f"scenarios.studies.sweep.{name.replace('-', '_')}_sweep:KIND")
    return kind


def sweep_of(values: Mapping[str, Any]) -> Study[Any, Any]:
    """Return the study that a grid's values describe; its kind is ``sweep``, by default that over users."""
    name = values.get("sweep", DEFAULT_KIND)
    if name not in KINDS:
        raise InputError(f"sweep is {brief(name)}; {name_choices(name, KINDS)}")
    kind = kind_of(name)
    settings = {key: value for key, value in values.items() if key != "sweep"}
    for key in settings:
        if key not in kind.fields:
            raise InputError(f"key {brief(key)} is unknown; {name_choices(key, kind.fields, 'known are')}")
    return replace(kind.read(settings), tables=kind.tables)


def load_sweep(
    grid: str | Path | Mapping[str, Any], *, seeds: int | None = None, allow_code: bool = False
) -> Study[Any, Any]:
    """Return the study of a built-in grid by its name, of a TOML file, or of what such a file holds."""
    if isinstance(grid, Mapping):
        values = dict(grid)
    else:
        names, path = built_in_grids(), Path(grid)
        if str(grid) not in names and not path.suffix and not path.exists():
            raise InputError(
                f"grid {str(grid)!r} is unknown; {name_choices(str(grid), names, 'name a TOML file or one of')}"
            )
        values = read_toml(BUILT_IN / f"{grid}.toml" if str(grid) in names else path, "grid file")
        if not allow_code:
            refuse_code(values, f"grid file {grid}")
    return sweep_of(values if seeds is None else {**values, "seeds": seeds})


def built_in_grids() -> list[str]:
    """Return the names of the grids that come with blindrec."""
    return sorted(path.stem for path in BUILT_IN.glob("*.toml"))
