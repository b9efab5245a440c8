"""What a sweep is, and all kinds of them by name; a grid is a built-in name, a file, or what such a file holds."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.given.files import read_toml
from scenarios.given.parsing import brief
from scenarios.given.settings import refuse_code

if TYPE_CHECKING:
    import pandas as pd

K = TypeVar("K", bound=tuple[Any, ...])
"""A unit's name: a named tuple of texts and whole numbers."""
U = TypeVar("U")
"""All that a unit is measured from."""
M = TypeVar("M")
"""What a unit found: a dataclass whose fields JSON can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of sweep, as commands and grid files name it."""

    name: str  # Of the command, and of the grid file's ``sweep``
    help: str  # What `--help` teaches
    # What may be told, by its name in a grid file, and with ``--`` before it on the command line
    fields: Mapping[str, FieldInfo]
    # Takes what was told, and returns the sweep; raises `InputError` where it cannot be measured
    read: Callable[[Mapping[str, Any]], Sweep[Any, Any, Any]]


class Sweep(ABC, Generic[K, U, M]):
    """A checked sweep; everything else about sweeps follows from this."""

    wanted: Any  # What is to be measured, checked; its ``content()`` is the sweep's
    key: ClassVar[type[Any]]  # Of a unit's name, and of what it found
    found: ClassVar[type[Any]]
    measure: ClassVar[Any]  # Takes a unit and returns what it found; it runs in a process or a thread of its own
    family: ClassVar[str] = "sweep"  # Of its pictures, see `scenarios.pictures.figures.FAMILIES`
    tables: ClassVar[tuple[str, str]] = ("units.parquet", "table.csv")  # Files of the units, and of the result's rows

    def content(self) -> dict[str, Any]:
        """Return what every unit depends on, as JSON values; not which units there are."""
        content: dict[str, Any] = self.wanted.content()
        return content

    def work(self) -> float:
        """Predict what all units take [s of one processor]: a second each, also those that the folder holds already."""
        return float(len(self.units({})))

    @abstractmethod
    def units(self, done: Mapping[K, M]) -> Mapping[K, U]:
        """Return the units in the order of measuring; with those that follow from units that are done already."""

    @abstractmethod
    def result(self, units: Mapping[K, M]) -> dict[str, Any]:
        """Return what `--json` prints."""

    @abstractmethod
    def rows(self, result: Mapping[str, Any], /) -> pd.DataFrame:
        """Return the result as a table."""

    def drawn(self, units: Mapping[K, M], result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
        """Return tables that pictures show beside what the result holds, as `scenarios.pictures` takes them."""
        return {}

    @abstractmethod
    def show(self, console: Console, result: Mapping[str, Any], title: str, /) -> None:
        """Print the result as tables."""

    def told(self, rows: pd.DataFrame) -> str:
        """Return in a few words what the result's rows hold."""
        return f"{rows['users'].notna().sum()} of {len(rows)} thresholds reached" if "users" in rows else "finished"

    def read(self, line: Mapping[str, Any]) -> tuple[K, M]:
        """Read a unit and what it found from its line in the folder."""
        return self.key(*(line[name] for name in self.key._fields)), TypeAdapter(self.found).validate_python(line)

    def write(self, key: K, found: M) -> dict[str, Any]:
        """Return that line; a number that is none, or infinite, is written as JSON of Python has it."""
        return {**self.named(key), **asdict(found)}  # type: ignore[call-overload] # a dataclass

    def named(self, key: K) -> dict[str, Any]:
        """Return a unit's name by the names of its parts."""
        return dict(zip(self.key._fields, key, strict=True))

    def table(self, units: Mapping[K, M], /) -> pd.DataFrame:
        """Return all units with what they found, one row each."""
        import pandas as pd  # noqa: PLC0415 (the command line lists kinds without tables)

        return pd.DataFrame([self.write(key, found) for key, found in units.items()])


BUILT_IN = Path(__file__).parent / "grids"
KINDS = {
    "users": "scenarios.sweep.users:USERS",
    "adaptive": "scenarios.sweep.adaptive:ADAPTIVE",
    "online": "scenarios.sweep.online:ONLINE",
    "two-tier": "scenarios.sweep.two_tier:TWO_TIER",
    "results": "scenarios.sweep.results:RESULTS",
}
"""Where the kinds are; one is loaded when it is swept."""
DEFAULT_KIND = "users"
"""The kind of a grid that names none."""


def kind_of(name: str) -> Kind:
    """Return a kind by its name."""
    module, _, constant = KINDS[name].partition(":")
    kind: Kind = getattr(importlib.import_module(module), constant)
    return kind


def sweep_of(values: Mapping[str, Any]) -> Sweep[Any, Any, Any]:
    """Return the sweep that a grid's values ask for; its kind is ``sweep``, by default that over users."""
    name = values.get("sweep", DEFAULT_KIND)
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
    """Return the sweep of a built-in grid by its name, of a TOML file, or of what such a file holds."""
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
