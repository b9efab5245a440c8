"""A sweep and its folder: every finished unit is on the disk as soon as it is done, and is never measured again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from coordinator.server.rounds.state import RunProgress
from scenarios.backends.session import Backend
from scenarios.experiment.progress import ProgressReporter, SeedProgress
from scenarios.log import moving_bar, spoke, verbose
from scenarios.show import tables as report
from scenarios.show.records import draw, pictures_of, provenance, write_result
from scenarios.store.manifest import SWEEP, UNCLAIMED, Manifest, read_manifest
from scenarios.store.record_log import Units
from scenarios.store.run_folder import claim_folder, in_run_folder
from scenarios.store.whole_files import write_table
from scenarios.studies.sweep.sweeps import K, M, Sweep

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def counted(reporter: ProgressReporter, done: int, total: int, *, before: int) -> Iterator[Callable[[], None]]:
    """Show how many of ``total`` units are done; ``done`` of them when it begins, ``before`` by an earlier sweep."""
    console, course, now = reporter.console, SeedProgress(reporter, total, "units", done), done
    if before:
        console.print(f"{before} of {total} units were done before; going on", highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    lines = not report.shows_bars(console)
    said = time.monotonic()
    bars = nullcontext() if lines else moving_bar()
    with bars, Progress(TextColumn("units"), *columns, console=console, transient=True, disable=lines) as bar:
        task = bar.add_task("units", total=total, completed=done)

        def over() -> None:
            nonlocal now, said
            now += 1
            course.report(RunProgress(count=now, rounds=now, planned=total, answers=None, refused=None, epsilon=None))
            bar.advance(task)
            if lines and not verbose() and time.monotonic() - said >= report.EVERY:
                said = time.monotonic()
                left = "" if course.left is None else f", about {course.left:,.0f} s left"
                console.print(f"{now} of {total} units done{left}", highlight=False)
                spoke(said)

        yield over


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A finished sweep."""

    sweep: Sweep[Any, Any]
    units: Mapping[Any, Any]  # Every unit's measurement
    result: dict[str, Any]  # What `--json` prints

    def plotted_tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables that pictures show beside the result."""
        return self.sweep.plotted_tables(self.units, self.result)


def swept(
    sweep: Sweep[K, M], opening: AbstractContextManager[Backend], out: Path, console: Console, *, lasting: bool = True
) -> Swept:
    """Measure every unit that the folder does not hold yet, and write what all of them say there. The units stay."""
    with in_run_folder(
        out,
        opening,
        claim=lambda folder: claim(folder, sweep.content()),
        work=lambda session: measure_units(sweep, session, out, console),
    ) as units:
        done = Swept(sweep=sweep, units=units, result=(result := sweep.result(units)))
        if not lasting:  # nobody sees what is written: to draw pictures alone takes two seconds
            return done
        for name, table in zip(sweep.tables, (sweep.table(units), sweep.rows(result)), strict=True):
            if not table.empty:
                write_table(out / name, table)
        for picture in pictures_of(sweep.family, result, done.plotted_tables()):
            if picture.points is not None:
                write_table(out / f"{picture.name}.csv", picture.points)
            draw(out / f"{picture.name}.png", picture)
        write_result(out, result)
    return done


def claim(out: Path, content: Mapping[str, Any]) -> None:
    """Make a folder a sweep's own, or find that it is already; see `run_folder.claim_folder` for errors."""
    values, command = json.loads(json.dumps(content)), provenance()["command"]
    claim_folder(out, Manifest(kind=SWEEP, scenario=values, source_sha256=None, code_sha256="", command=command))


def measure_units(sweep: Sweep[K, M], session: Backend, out: Path, console: Console) -> dict[K, M]:
    """Measure every unit that the folder, which `claim` passed, does not hold yet."""
    stored: Units[K, M] = Units(out, sweep.from_line, sweep.line)
    mark = read_manifest(out)
    reporter = ProgressReporter(kind=SWEEP, run=mark.run if mark else UNCLAIMED, console=console, out=out)
    done = dict(stored)
    before, units = set(done), sweep.units(done)
    while True:
        keys = sweep.order([key for key in units if key not in done])
        with counted(reporter, len(units) - len(keys), len(units), before=len(before & set(units))) as count_unit:
            for place, measurement in session.each(sweep.measure, [units[key] for key in keys]):
                stored.keep(keys[place], measurement)
                done[keys[place]] = measurement
                count_unit()
        before = set()
        units = sweep.units(done)
        if all(key in done for key in units):
            return {key: done[key] for key in units}
