"""One study: units that any process measures, each kept at once and measured once, and what they say together."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

import pandas as pd
from pydantic import TypeAdapter
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
from scenarios.store.whole_files import lasting_folder, write_table

K = TypeVar("K", bound=tuple[Any, ...])
"""A unit's name: a named tuple of texts and whole numbers, the cell of the grid and the seed."""
M = TypeVar("M")  # A unit's measurement: a record, or a dataclass whose fields JSON can hold
Row = Mapping[str, Any]  # JSON values by their names
Values = dict[str, Any]
Measure = Callable[[], M]
"""Measures a unit: a function of a module with all its arguments (`functools.partial`), which travels there."""


def threshold_count(rows: pd.DataFrame) -> str:
    """Return in words how many rows have users that are enough, where they have any."""
    return f"{rows['users'].notna().sum()} of {len(rows)} thresholds reached" if "users" in rows else "finished"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study(Generic[K, M]):
    """A checked study; command, folder, going on, progress, JSON and Python follow from this."""

    content: Values  # What every unit depends on, as JSON values; not which units there are
    key: type[K]  # Of a unit's name, and of its measurement
    measurement: Any = dict
    # Takes the units that are done, and returns all in the order of measuring, with those that follow from these. They
    # go seed by seed, so that an unfinished study says something about all cells
    units: Callable[[Mapping[K, M]], Mapping[K, Measure[M]]]
    result: Callable[[Mapping[K, M]], Values]  # Returns what `--json` prints
    show: Callable[[Console, Row, str], None]  # Prints a result as tables
    details: Callable[[Console, Row, str], None] | None = None  # Prints what `--details` adds
    settings: Any = None  # What was checked
    family: str = "sweep"  # Of its pictures, see `scenarios.show.records.FAMILIES`
    rows_in: str = "settings"  # Key of the result's rows
    tables: tuple[str, str] = ("units.parquet", "table.csv")  # Files of the units, and of the result's rows
    frame: Callable[[Mapping[K, M]], pd.DataFrame] | None = None  # Of the units; default: a row each
    row_frame: Callable[[Row], pd.DataFrame] | None = None  # Of a result's rows; default: as they are
    # Tables that pictures show beside what the result holds, as `scenarios.show` takes them
    plotted: Callable[[Mapping[K, M], Row], dict[str, pd.DataFrame]] = lambda *_: {}
    answer: Callable[[Row], pd.DataFrame | None] = lambda _: None  # Of a result that ends in one: a table of texts
    in_words: Callable[[pd.DataFrame], str] = threshold_count  # What rows of a result hold
    grows: bool = False  # Whether further units follow from what some measure
    order: Callable[[K], Any] = lambda _: 0  # By which units that are to be measured are sorted
    # How long a unit takes beside others, for the time left before one of its kind is done; and each about [s]
    weight: Callable[[Any], float] = lambda _: 1.0
    unit_seconds: float = 1.0
    seeds_of: Callable[[Any], int] = lambda _: 1  # How many seeds a unit measures

    def work(self) -> float:
        """Predict what all units take [s of one processor], also those that the folder holds already."""
        return self.unit_seconds * len(self.units({}))

    def line(self, key: K, measurement: M) -> Values:
        """Return a unit's line in the folder; a number that is none, or infinite, is as JSON of Python has it."""
        record = measurement if isinstance(measurement, dict) else asdict(measurement)  # type: ignore[call-overload] # a dataclass
        return {**dict(zip(self._names, key, strict=True)), **record}

    def from_line(self, line: Row) -> tuple[K, M]:
        """Read a unit's name and measurement from that line."""
        rest = {name: value for name, value in line.items() if name not in self._names}
        return self.key(*(line[name] for name in self._names)), TypeAdapter(self.measurement).validate_python(rest)

    @property
    def _names(self) -> tuple[str, ...]:
        names: tuple[str, ...] = self.key._fields  # type: ignore[attr-defined] # a named tuple
        return names

    def table(self, units: Mapping[K, M]) -> pd.DataFrame:
        """Return all units with their measurements."""
        return self.frame(units) if self.frame else pd.DataFrame([self.line(*unit) for unit in units.items()])

    def rows(self, result: Row) -> pd.DataFrame:
        """Return a result as a table."""
        return self.row_frame(result) if self.row_frame else pd.DataFrame(result[self.rows_in])


FIRST = 4  # Units that say nothing of the time that others take: they wait for files and kernels


class UnitTimes:
    """Predicts how long units take, from the quickest of their kind: the first of a process wait for files and kernels.

    Units that differ by their seed alone are of one kind. A kind of which none is done takes what the others do, by
    `Study.weight`; times are seconds, or weights alone where a study measures none.
    """

    def __init__(self, study: Study[K, M], done: Mapping[K, M]) -> None:
        self._study = study
        self._times = dict[Any, float]()
        for key, measurement in done.items():
            self.add(key, measurement)

    def add(self, key: Any, measurement: Any) -> bool:
        """Take in a unit that is done; return whether its seconds are known."""
        value = measurement.get("seconds") if isinstance(measurement, dict) else getattr(measurement, "seconds", None)
        kind, time_taken = kind_of_unit(key), float(value or self._study.weight(key))
        self._times[kind] = min(time_taken, self._times.get(kind, time_taken))
        return bool(value)

    def expected(self, kinds: Counter[Any]) -> float:
        """Return how long so many units of some kinds take, one after the other."""
        typical = median(time_taken / self._study.weight(kind) for kind, time_taken in self._times.items())
        return sum(
            count * self._times.get(kind, typical * self._study.weight(kind)) for kind, count in kinds.items() if count
        )


def kind_of_unit(key: Any) -> Any:
    """Return what units that differ by their seed alone share."""
    return key._replace(seed=0) if "seed" in getattr(key, "_fields", ()) else key


@contextmanager
def counted(
    reporter: ProgressReporter, study: Study[K, M], done: Mapping[K, M], keys: Iterable[K], *, before: int
) -> Iterator[Callable[[K, M], None]]:
    """Show how many units are done, and how long those of ``keys`` take that are not: what it yields counts one.

    ``done``: Units that are done when it begins. ``before``: How many of them an earlier process did.
    """
    console, times, now = reporter.console, UnitTimes(study, done), len(done)
    rest, here = Counter(map(kind_of_unit, keys)), Counter[Any]()
    total = now + rest.total()
    course, clock = SeedProgress(reporter, total, "units", now), WorkClock(math.inf)
    if before:
        write_line(console, f"{before} of {total} units were done before; going on")
    of = f"{total} or more" if study.grows else f"{total}"
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
class StudyOutcome:
    """A finished study."""

    study: Study[Any, Any]
    units: Mapping[Any, Any]  # Every unit's measurement
    result: Values  # What `--json` prints

    def plotted(self) -> dict[str, pd.DataFrame]:
        """Return the tables that pictures show beside the result."""
        return self.study.plotted(self.units, self.result)

    def in_words(self) -> str:
        """Return in a few words what was measured."""
        seeds = {key.seed: self.study.seeds_of(key) for key in self.units}
        return f"{self.study.in_words(self.study.rows(self.result))}, {sum(seeds.values())} seeds"


def run_study(
    study: Study[K, M], opening: AbstractContextManager[Backend], out: Path | None, console: Console
) -> StudyOutcome:
    """Measure every unit that the folder does not hold yet, and write what all of them say there. The units stay."""
    with (
        lasting_folder(out) as folder,
        in_run_folder(
            folder,
            opening,
            claim=lambda path: claim(path, study.content),
            work=lambda session: measure_units(study, session, folder, console, durable=out is not None),
        ) as units,
    ):
        done = StudyOutcome(study=study, units=units, result=(result := study.result(units)))
        if out is None:  # nobody sees what is written: to draw pictures alone takes two seconds
            return done
        for name, table in zip(study.tables, (study.table(units), study.rows(result)), strict=True):
            if not table.empty:
                write_table(out / name, table)
        for picture in pictures_of(study.family, result, done.plotted()):
            if picture.points is not None:
                write_table(out / f"{picture.name}.csv", picture.points)
            draw(out / f"{picture.name}.png", picture)
        write_result(out, result)
    return done


def claim(out: Path, content: Row) -> None:
    """Make a folder a study's own, or find that it is already; see `run_folder.claim_folder` for errors."""
    values, command = json.loads(json.dumps(content)), provenance()["command"]
    claim_folder(out, Manifest(kind=SWEEP, scenario=values, source_sha256=None, code_sha256="", command=command))


def measure_units(
    study: Study[K, M], session: Backend, out: Path, console: Console, *, durable: bool = True
) -> dict[K, M]:
    """Measure every unit that the folder, which `claim` passed, does not hold yet; ``durable``: store each at once."""
    mark = read_manifest(out)
    reporter = ProgressReporter(kind=SWEEP, run=mark.run if mark else UNCLAIMED, console=console, out=out)
    with closing(Units(out, study.from_line, study.line)) if durable else nullcontext() as stored:
        done = dict(stored or {})
        before, units = set(done), study.units(done)
        while True:
            keys = sorted((key for key in units if key not in done), key=study.order)
            stored_units = {key: done[key] for key in units if key in done}
            with counted(reporter, study, stored_units, keys, before=len(before & set(units))) as count_unit:
                for index, measurement in session.each(measure, [units[key] for key in keys]):
                    if stored:
                        stored.keep(keys[index], measurement)
                    done[keys[index]] = measurement
                    count_unit(keys[index], measurement)
            before = set()
            units = study.units(done)
            if all(key in done for key in units):
                return {key: done[key] for key in units}


def measure(unit: Measure[M]) -> M:
    """Measure a unit, in a process or a thread of its own."""
    return unit()
