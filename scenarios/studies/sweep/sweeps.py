"""What a sweep is, and all kinds of them by name; a grid is a built-in name, a file, or what such a file holds."""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from rich.console import Console

from coordinator.protocol.errors import InputError, name_choices
from scenarios.config.files import brief, read_toml
from scenarios.config.settings import refuse_code

if TYPE_CHECKING:
    import pandas as pd

K = TypeVar("K", bound=tuple[Any, ...])
"""A unit's name: a named tuple of texts and whole numbers, the cell of the grid and the seed."""
Values = dict[str, Any]  # JSON values by their names
M = TypeVar("M")  # A unit's measurement: a record, or a dataclass whose fields JSON can hold


class Sweep(ABC, Generic[K, M]):
    """A checked sweep; command, folder, going on, progress, JSON and Python follow from this."""

    key: ClassVar[type[Any]]  # Of a unit's name, and of its measurement
    measurement: ClassVar[type[Any]] = dict
    help: ClassVar[str]  # What `--help` teaches
    # What a grid file may say; with ``--`` before it on the command line
    fields: ClassVar[Mapping[str, FieldInfo]]
    family: ClassVar[str] = "sweep"  # Of its pictures, see `scenarios.show.records.FAMILIES`
    rows_in: ClassVar[str] = "settings"  # Key of the result's rows
    grows: ClassVar[bool] = False  # Whether further units follow from what some measure
    tables: ClassVar[tuple[str, str]] = ("units.parquet", "table.csv")  # Files of the units, and of the result's rows

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Sweep[Any, Any]:
        """Return the sweep that a grid's values describe; raises `InputError` where it cannot be measured."""
        raise NotImplementedError

    @staticmethod
    def measure(unit: Callable[[], M]) -> M:
        """Measure a unit, in a process or a thread of its own."""
        return unit()

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return what every unit depends on, as JSON values; not which units there are."""

    @classmethod
    def help_with_folder(cls) -> str:
        """Return what `--help` teaches of this kind, and of the folder of any."""
        units, rows = cls.tables
        return f"""{cls.help}
Every finished unit is kept in the folder at once: Ctrl-C loses only what is under way, and the same command goes on;
with more seeds or settings it goes on, too. At the end the folder holds result.json, versions.json, {units} (every
unit), {rows} and every figure as a picture; all its points, bounds included, stand in these tables or beside it.
"""

    def work(self) -> float:
        """Predict what all units take [s of one processor]: a second each, also those that the folder holds already."""
        return float(len(self.units({})))

    @abstractmethod
    def units(self, done: Mapping[K, M]) -> Mapping[K, Callable[[], M]]:
        """Return the units in the order of measuring; with those that follow from units that are done already."""
        # A unit is a function of a module with all its arguments (`functools.partial`), which travels to its process.
        # They go seed by seed, so that an unfinished sweep says something about all settings.

    def order(self, keys: list[K]) -> list[K]:
        """Return units that are to be measured in the order in which they are."""
        return keys

    def weight(self, key: Any) -> float:
        """Return how long a unit takes beside others, for the time left before one of its kind is done."""
        return 1.0

    @abstractmethod
    def result(self, units: Mapping[K, M]) -> dict[str, Any]:
        """Return what `--json` prints."""

    def rows(self, result: Mapping[str, Any], /) -> pd.DataFrame:
        """Return the result as a table."""
        import pandas as pd  # noqa: PLC0415 (the command line lists kinds without tables)

        return pd.DataFrame(result[self.rows_in])

    def answer(self, result: Mapping[str, Any], /) -> pd.DataFrame | None:
        """Return the answer that a result ends in as a table of texts; None where it has none."""
        return None

    def plotted_tables(self, units: Mapping[K, M], result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
        """Return tables that pictures show beside what the result holds, as `scenarios.show` takes them."""
        return {}

    @abstractmethod
    def show(self, console: Console, result: Mapping[str, Any], title: str, /) -> None:
        """Print the result as tables."""

    def in_words(self, rows: pd.DataFrame) -> str:
        """Return in a few words what the result's rows hold."""
        return f"{rows['users'].notna().sum()} of {len(rows)} thresholds reached" if "users" in rows else "finished"

    def count_seeds(self, units: Mapping[K, M]) -> int:
        """Return how many seeds were measured."""
        return len({key.seed for key in units})  # type: ignore[attr-defined] # units' names end in the seed

    def from_line(self, line: Mapping[str, Any]) -> tuple[K, M]:
        """Read a unit's name and measurement from its line in the folder."""
        key: K = self.key(*(line[name] for name in self.key._fields))
        rest = {name: value for name, value in line.items() if name not in self.key._fields}
        return key, TypeAdapter(self.measurement).validate_python(rest)

    def line(self, key: K, measurement: M) -> dict[str, Any]:
        """Return that line; a number that is none, or infinite, is written as JSON of Python has it."""
        record = measurement if isinstance(measurement, dict) else asdict(measurement)  # type: ignore[call-overload] # a dataclass
        return {**dict(zip(self.key._fields, key, strict=True)), **record}

    def table(self, units: Mapping[K, M], /) -> pd.DataFrame:
        """Return all units with their measurements, one row each."""
        import pandas as pd  # noqa: PLC0415 (the command line lists kinds without tables)

        return pd.DataFrame([self.line(key, unit) for key, unit in units.items()])


def values_of(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a grid's values of these names; None where it does not say one."""
    return {name: values.get(name) for name in names}


BUILT_IN = Path(__file__).parent / "grids"
KINDS = {
    "users": "scenarios.studies.sweep.users_sweep:UsersSweep",
    "adaptive": "scenarios.studies.sweep.adaptive_sweep:AdaptiveSweep",
    "online": "scenarios.studies.sweep.online_sweep:OnlineSweep",
    "two-tier": "scenarios.studies.sweep.two_tier_sweep:TwoTierSweep",
    "results": "scenarios.studies.sweep.results_sweep:ResultsSweep",
}
"""Where the kinds are; one is loaded when it is swept."""
DEFAULT_KIND = "users"  # The kind of a grid that names none


def kind_of(name: str) -> type[Sweep[Any, Any]]:
    """Return a kind by its name."""
    sweep: type[Sweep[Any, Any]] = pkgutil.resolve_name(KINDS[name])
    return sweep


def sweep_of(values: Mapping[str, Any]) -> Sweep[Any, Any]:
    """Return the sweep that a grid's values describe; its kind is ``sweep``, by default that over users."""
    name = values.get("sweep", DEFAULT_KIND)
    if name not in KINDS:
        raise InputError(f"sweep is {brief(name)}; {name_choices(name, KINDS)}")
    kind = kind_of(name)
    settings = {key: value for key, value in values.items() if key != "sweep"}
    for key in settings:
        if key not in kind.fields:
            raise InputError(f"key {brief(key)} is unknown; {name_choices(key, kind.fields, 'known are')}")
    return kind.read(settings)


def load_sweep(
    grid: str | Path | Mapping[str, Any], *, seeds: int | None = None, allow_code: bool = False
) -> Sweep[Any, Any]:
    """Return the sweep of a built-in grid by its name, of a TOML file, or of what such a file holds."""
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
