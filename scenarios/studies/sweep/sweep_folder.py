"""A sweep and its folder: every finished unit is on the disk as soon as it is done, and is never measured again."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from coordinator.server.rounds.state import RunProgress
from scenarios.backends.session import Backend
from scenarios.experiment.progress import ProgressReporter, SeedProgress
from scenarios.log import WorkClock, left_text, moving_bar, spoke, verbose, write_line
from scenarios.show import tables as report
from scenarios.show.records import draw, pictures_of, provenance, write_result
from scenarios.store.manifest import SWEEP, UNCLAIMED, Manifest, read_manifest
from scenarios.store.record_log import Units
from scenarios.store.run_folder import claim_folder, in_run_folder
from scenarios.store.whole_files import write_table
from scenarios.studies.sweep.sweeps import K, M, Sweep

if TYPE_CHECKING:
    import pandas as pd


FIRST = 4  # Units that say nothing of the time that others take: they wait for files and kernels


class UnitTimes:
    """Predicts how long units take, from the quickest of their kind: the first of a process wait for files and kernels.

    Units that differ by their seed alone are of one kind. A kind of which none is done takes what the others do, by
    `Sweep.weight`; times are seconds, or weights alone where a kind of sweep measures none.
    """

    def __init__(self, sweep: Sweep[K, M], done: Mapping[K, M]) -> None:
        self._sweep = sweep
        self._times = dict[Any, float]()
        for key, measurement in done.items():
            self.add(key, measurement)

    def add(self, key: Any, measurement: Any) -> bool:
        """Take in a unit that is done; return whether its seconds are known."""
        value = measurement.get("seconds") if isinstance(measurement, dict) else getattr(measurement, "seconds", None)
        kind, time_taken = kind_of_unit(key), float(value or self._sweep.weight(key))
        self._times[kind] = min(time_taken, self._times.get(kind, time_taken))
        return bool(value)

    def expected(self, kinds: Counter[Any]) -> float:
        """Return how long so many units of some kinds take, one after the other."""
        typical = median(time_taken / self._sweep.weight(kind) for kind, time_taken in self._times.items())
        return sum(
            count * self._times.get(kind, typical * self._sweep.weight(kind)) for kind, count in kinds.items() if count
        )


def kind_of_unit(key: Any) -> Any:
    """Return what units that differ by their seed alone share."""
    return key._replace(seed=0) if "seed" in getattr(key, "_fields", ()) else key


@contextmanager
def counted(
    reporter: ProgressReporter, sweep: Sweep[K, M], done: Mapping[K, M], keys: Iterable[K], *, before: int
) -> Iterator[Callable[[K, M], None]]:
    """Show how many units are done, and how long those of ``keys`` take that are not: what it yields counts one.

    ``done``: Units that are done when it begins. ``before``: How many of them an earlier process did.
    """
    console, times, now = reporter.console, UnitTimes(sweep, done), len(done)
    rest, here = Counter(map(kind_of_unit, keys)), Counter[Any]()
    total = now + rest.total()
    course, clock = SeedProgress(reporter, total, "units", now), WorkClock(math.inf)
    if before:
        write_line(console, f"{before} of {total} units were done before; going on")
    of = f"{total} or more" if sweep.grows else f"{total}"
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    lines = not report.shows_bars(console)
    begin = said = time.monotonic()
    bars = nullcontext() if lines else moving_bar()
    with bars, Progress(TextColumn("units"), *columns, console=console, transient=True, disable=lines) as bar:
        task = bar.add_task("units", total=total, completed=now, left="")

        def count_unit(key: K, measurement: M) -> None:
            nonlocal now, said
            moment, kind, measures = time.monotonic(), kind_of_unit(key), times.add(key, measurement)
            rest[kind] -= 1
            if now > len(done) or measures:
                here[kind] += 1
            if now == len(done):  # what passed before the first unit began recurs for none: processes start, files load
                clock.begin(max(begin, moment - times.expected(here)))
            now += 1
            clock.count(moment, times.expected(here))
            left = clock.left(times.expected(rest)) if now > FIRST else None
            tally = RunProgress(count=now, rounds=now, planned=total, answers=None, refused=None, epsilon=None)
            course.report(tally, left)
            bar.update(task, advance=1, left=left_text(left).strip(", "))
            if lines and not verbose() and moment - said >= report.EVERY:
                said = moment
                write_line(console, f"{now} of {of} units done{left_text(left)}")
                spoke(said)

        yield count_unit


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
    mark = read_manifest(out)
    reporter = ProgressReporter(kind=SWEEP, run=mark.run if mark else UNCLAIMED, console=console, out=out)
    with closing(Units(out, sweep.from_line, sweep.line)) as stored:
        return _measured(sweep, session, stored, reporter)


def _measured(sweep: Sweep[K, M], session: Backend, stored: Units[K, M], reporter: ProgressReporter) -> dict[K, M]:
    done = dict(stored)
    before, units = set(done), sweep.units(done)
    while True:
        keys = sweep.order([key for key in units if key not in done])
        stored_units = {key: done[key] for key in units if key in done}
        with counted(reporter, sweep, stored_units, keys, before=len(before & set(units))) as count_unit:
            for index, measurement in session.each(sweep.measure, [units[key] for key in keys]):
                stored.keep(keys[index], measurement)
                done[keys[index]] = measurement
                count_unit(keys[index], measurement)
        before = set()
        units = sweep.units(done)
        if all(key in done for key in units):
            return {key: done[key] for key in units}
