"""What an experiment is, from its settings and the run of one seed to its folder, its record and its tables."""

from __future__ import annotations

import os
import pkgutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from pydantic import BaseModel
from rich.console import Console

from coordinator.protocol.errors import InputError, LostError, PolicyError
from coordinator.protocol.losses import require_tested
from scenarios.config.settings import validated
from scenarios.experiment.progress import ProgressReporter
from scenarios.log import event, step, write_line
from scenarios.show.columns import Column, mean_of
from scenarios.show.records import write_result
from scenarios.store.manifest import UNCLAIMED, Manifest, read_manifest
from scenarios.store.record_log import drop
from scenarios.store.run_folder import (
    RUN_SHA256,
    claim_folder,
    finished_result,
    in_run_folder,
    manifest_of,
    require_counts,
    scenario_of,
)
from scenarios.store.whole_files import tables_in, write_bytes

if TYPE_CHECKING:
    import pandas as pd

    from scenarios.backends.session import Backend, Progress
    from scenarios.data.datasets import FileSettings


S = TypeVar("S", bound=BaseModel)  # A scenario: what is simulated, and under which privacy


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCode:
    """Custom code that a user names again to resume a run: a folder alone never makes us import code."""

    design: str | None = None  # Import paths; None where not given
    policy: str | None = None
    helpers: tuple[str, ...] = ()  # Packages that travel with the design


NOTHING = NamedCode()  # No custom code


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where and how one seed runs; no answer depends on it."""

    session: Backend
    console: Console  # For progress and remarks
    devices_per_actor: int | None = None  # Size of a cohort; None: one cohort a worker
    out: Path | None = None  # Folder that keeps what is over as soon as it is over, and goes on from what it keeps
    reporter: ProgressReporter | None = None  # Reports how far it has come; None to show it on the console alone
    resolved: Any = None  # What `Experiment.check` returned

    def progress(self, total: int, seed: int, **how: str) -> AbstractContextManager[Progress]:
        """Report how far a seed has come; see `scenarios.experiment.progress.ProgressReporter.progress`."""
        reporter = self.reporter or ProgressReporter(kind="run", run=UNCLAIMED, console=self.console)
        return reporter.progress(total, f"seed {seed}", **how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is reported of a seed; of several seeds their means, beside scenario and tables of the first."""

    values: dict[str, Any]  # What `--json` prints of it: JSON values by stable names
    scenario: dict[str, Any]  # The scenario as it ran, as JSON values that `Experiment.read` takes
    # Returns the tables of its folder by their names
    tables: Callable[[], Mapping[str, pd.DataFrame]] = field(repr=False)
    failure: str | None = None  # What went wrong with the policy; the record holds what earlier rounds learned


class Experiment(ABC, Generic[S]):
    """One kind of experiment, from which its command, folder, means, tables and reruns follow."""

    # Of its command, of the mark in its folders, and of its pictures (`scenarios.show.records.FAMILIES`)
    name: ClassVar[str]
    # Of its scenario. The description of a field is the only place where a setting is explained
    kind: ClassVar[type[BaseModel]]
    # The columns of its record, in a table's order, ``module:name``: loaded when a record is read, not for `--help`
    column_list: ClassVar[str]
    titled: ClassVar[str]  # The column that stands in a table's title
    files: ClassVar[tuple[str, ...]] = ("ratings",)  # Fields that name a file; at most one of them is given
    named: ClassVar[tuple[str, ...]]  # Columns that name a result in a line
    sized: ClassVar[bool] = True  # Whether the size of cohorts can be chosen
    accepts_custom: ClassVar[bool] = False  # Whether mechanisms and policies may be custom ones
    # The function that runs a seed, ``module:name``: loaded while the backend is opened, and not for `--help`
    runner: ClassVar[str]
    help: ClassVar[str]  # What `--help` teaches

    @property
    def columns(self) -> Sequence[Column[Any]]:
        """The columns of its record."""
        columns: Sequence[Column[Any]] = pkgutil.resolve_name(self.column_list)
        return columns

    def read(self, path: Path | None, values: Mapping[str, Any], *, allow_code: bool = False) -> S:
        """Return a scenario from a file and values that win over it; None stands for what was not given."""
        return cast("S", validated(self.kind, path, dict(values), allow_code=allow_code))

    def check(self, scenario: S) -> Any:
        """Refuse what a scenario alone does not show, before a backend is opened; return what it resolved."""

    def warn(self, scenario: S, resolved: Any, console: Console) -> None:  # noqa: ARG002 (of the main job)
        """Warn of what a run will not find, and say what its file of ratings is like, before its first seed."""
        if getattr(scenario, "ratings", None) is not None:
            from scenarios.data.datasets import read_for, tell_remarks  # noqa: PLC0415 (`--help` need not wait for them)

            tell_remarks(read_for(cast("FileSettings", scenario)), console)

    def mark(self, scenario: S, repeat: int) -> Manifest:
        """Return what makes a folder this experiment's own."""
        return manifest_of(self.name, scenario, *self.files, repeat=repeat)

    def resumed(self, out: Path, mark: Manifest, named: NamedCode) -> S:  # noqa: ARG002 (for what may be custom)
        """Return the scenario of a folder whose experiment was interrupted."""
        return cast("S", scenario_of(out, mark, self.kind, *self.files))

    @abstractmethod
    def work(self, scenario: S) -> float:
        """Predict from the scenario what devices take for one seed [s of one processor], rather more than less."""

    def once(self, scenario: S, running: Running) -> Record:
        """Run one seed."""
        record: Record = pkgutil.resolve_name(self.runner)(scenario, running)
        return record


@contextmanager
def finished_run(
    experiment: Experiment[S],
    settings: S,
    opening: AbstractContextManager[Backend],
    *,
    console: Console,
    repeat: int = 1,
    devices_per_actor: int | None = None,
    out: Path | None = None,
) -> Iterator[Record]:
    """Run the seeds of a scenario and write their folder; let the caller report, then end the experiment."""
    require_counts(repeat, devices_per_actor)
    if devices_per_actor is not None and not experiment.sized:
        raise InputError(
            f"devices_per_actor is {devices_per_actor}, but cohorts of blindrec {experiment.name} have one size; leave "
            "it out"
        )
    resolved = experiment.check(settings)
    if out is not None and (result := finished_result(out, experiment.mark(settings, repeat))) is not None:
        message = f"the run in {out} is over: this is its result, and nobody was asked again"
        write_line(console, message)
        yield Record(values=result, scenario={}, tables=lambda: tables_in(out))
        return
    require_tested("numba")  # here, because the thread below would say nothing of it and leave half a module
    threading.Thread(target=_load, args=(experiment.runner,), daemon=True, name="loading").start()

    def work(session: Backend) -> Record:
        experiment.warn(settings, resolved, console)
        mark = None if out is None else read_manifest(out)
        reporter = ProgressReporter(
            kind=experiment.name,
            run=os.urandom(16).hex() if mark is None else mark.run,
            console=console,
            repeats=repeat,
            out=out,
        )
        event("started", kind=experiment.name, run=reporter.run, repeats=repeat, backend=session.name)
        running = Running(
            session=session,
            console=console,
            devices_per_actor=devices_per_actor,
            out=out,
            reporter=reporter,
            resolved=resolved,
        )
        return run_seeds(experiment, settings, running, repeat)

    def claim(folder: Path) -> None:
        claim_folder(folder, experiment.mark(settings, repeat))

    with in_run_folder(out, opening, claim=claim, work=work) as record:
        if out is not None:
            write_folder(out, record)
        yield record
        if record.failure:
            reported = f"what earlier rounds learned is reported{f' in {out}' if out else ''}"
            astray = PolicyError(f"{record.failure}; {reported}")
            astray.result = record.values
            raise astray
        if out is not None:
            drop(out)


def _load(name: str) -> None:
    """Load a function ahead of time; errors of its module are reported when it is used."""
    with suppress(Exception):
        pkgutil.resolve_name(name)


def run_seeds(experiment: Experiment[S], settings: S, running: Running, repeat: int) -> Record:
    """Run seeds from the scenario's own on, until all are over or a policy goes astray; no folder is written."""
    first: int = getattr(settings, "seed")  # noqa: B009 (all scenarios have one)
    seeds: list[Record] = []
    for seed in range(first, first + repeat):
        with step(f"seed {seed - first + 1} of {repeat}" if repeat > 1 else ""):
            seeds.append(experiment.once(settings.model_copy(update={"seed": seed}), running))
        if seeds[-1].failure:
            break
    records = [record.values for record in seeds]
    result = records[0] if repeat == 1 else mean_of(experiment.columns, records)
    backend = {"backend": result["backend"], "backend_reason": running.session.reason}
    return replace(seeds[0], values={**result, **backend}, failure=seeds[-1].failure)


def write_folder(out: Path, record: Record) -> None:
    """Write the first seed's tables, the scenario, versions, and the result last."""
    try:
        for name, table in record.tables().items():
            write_bytes(out / f"{name}.parquet", table.to_parquet(index=False))
        mark = read_manifest(out)
        digests = {} if mark is None else {"source_sha256": mark.source_sha256, RUN_SHA256: mark.whole}
        write_result(out, record.values, record.scenario, **digests)
    except OSError as error:
        raise LostError(f"results cannot be written to {out} ({error.strerror})") from None
