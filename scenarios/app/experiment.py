"""What an experiment is: what it is told, how one seed of it runs, and what its record and its tables hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from pydantic import BaseModel
from rich.console import Console

from scenarios.given.settings import validated
from scenarios.report.columns import Column
from scenarios.store.manifest import UNCLAIMED, Manifest
from scenarios.store.run_folder import manifest_of, scenario_of

if TYPE_CHECKING:
    import pandas as pd

    from scenarios.data.datasets import FileSettings
    from scenarios.places.session import Backend, Progress
    from scenarios.watch.progress import ProgressReporter

S = TypeVar("S", bound=BaseModel)
"""A scenario: what is simulated, and under which privacy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCode:
    """Custom code that a user names again to resume a run: a folder alone never makes us import code."""

    design: str | None = None  # Import paths; None where not given
    policy: str | None = None
    helpers: tuple[str, ...] = ()  # Packages that travel with the design


NOTHING = NamedCode()
"""No custom code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where and how one seed runs; no answer depends on it."""

    session: Backend  # The place
    console: Console  # For progress and remarks
    devices_per_actor: int | None = None  # Size of a cohort; None: one cohort a worker
    out: Path | None = None  # Folder that keeps what is over as soon as it is over, and goes on from what it keeps
    telling: ProgressReporter | None = None  # Tells how far it has come; None to tell the console alone

    def progress(
        self, total: int, seed: int, done: str = "devices answered", unit: str = "devices"
    ) -> AbstractContextManager[Progress]:
        """Tell how far a seed has come; see `scenarios.watch.progress.ProgressReporter.progress`."""
        from scenarios.watch.progress import ProgressReporter  # noqa: PLC0415 (`--help` need not wait for what runs load)

        telling = self.telling or ProgressReporter(kind="run", run=UNCLAIMED, console=self.console)
        return telling.progress(total, f"seed {seed}", done, unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is reported of a seed; of several seeds their means, beside scenario and tables of the first."""

    values: dict[str, Any]  # What `--json` prints of it: JSON values by stable names
    scenario: dict[str, Any]  # The scenario as it ran, as JSON values that `Experiment.read` takes
    # Returns the tables of its folder by their names
    tables: Callable[[], Mapping[str, pd.DataFrame]] = field(repr=False)
    failure: str | None = None  # What went wrong with the policy; the record tells what earlier rounds learned


class Experiment(ABC, Generic[S]):
    """One kind of experiment, from which its command, folder, means, tables and reruns follow."""

    # Of its command, of the mark in its folders, and of its pictures (`scenarios.pictures.figures.FAMILIES`)
    name: ClassVar[str]
    # Of its scenario. The description of a field is the only place where a setting is explained
    kind: ClassVar[type[BaseModel]]
    # Those of a record that a table shows, in its order, or that several seeds do not simply join
    columns: ClassVar[Sequence[Column]]
    titled: ClassVar[str]  # The column that stands in a table's title
    files: ClassVar[tuple[str, ...]] = ("ratings",)  # Fields that name a file; at most one of them is given
    named: ClassVar[tuple[str, ...]]  # Columns that name a result in a line
    sized: ClassVar[bool] = True  # Whether the size of cohorts can be chosen
    own: ClassVar[bool] = False  # Whether mechanisms and policies may be one's own
    loads: ClassVar[str]  # The module that runs a seed, which is loaded while the place is opened
    help: ClassVar[str]  # What `--help` teaches

    def read(self, path: Path | None, values: Mapping[str, Any], *, allow_code: bool = False) -> S:
        """Return a scenario from a file and values that win over it; None stands for what was not given.

        Code that the file names is imported only if ``allow_code``; see `scenarios.given.settings.refuse_code`.
        """
        return cast("S", validated(self.kind, path, dict(values), allow_code=allow_code))

    def check(self, scenario: S) -> None:
        """Refuse what a scenario alone does not show, before a place is opened."""

    def warn(self, scenario: S, console: Console) -> None:
        """Warn of what a run will not find, and tell what its file of ratings is like, before its first seed."""
        if getattr(scenario, "ratings", None) is not None:
            from scenarios.data.datasets import read_for, tell_remarks  # noqa: PLC0415 (`--help` need not wait for them)

            tell_remarks(read_for(cast("FileSettings", scenario)).table, console)

    def mark(self, scenario: S, repeat: int) -> Manifest:
        """Return what makes a folder this experiment's own."""
        return manifest_of(self.name, scenario, *self.files, repeat=repeat)

    def resumed(self, out: Path, mark: Manifest, named: NamedCode) -> S:  # noqa: ARG002 (for what may be one's own)
        """Return the scenario of a folder whose experiment was interrupted."""
        return cast("S", scenario_of(out, mark, self.kind, *self.files))

    @abstractmethod
    def work(self, scenario: S) -> float:
        """Predict from the scenario alone what devices take for one seed [s of one processor], rather more than less.

        Where the backend is chosen by it, a wrong prediction costs some seconds, and no answer.
        """

    @abstractmethod
    def once(self, scenario: S, running: Running) -> Record:
        """Run one seed."""
