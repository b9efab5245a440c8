"""A sweep and its folder: every finished unit is on the disk as soon as it is done, and is never measured again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from coordinator.protocol.errors import InputError
from coordinator.server.rounds.tally import RunProgress
from scenarios.log import verbose
from scenarios.pictures.picture import pictures_of
from scenarios.pictures.writing import draw
from scenarios.places.session import Session
from scenarios.report import printing as report
from scenarios.report.records import write_result
from scenarios.store.files import write_table
from scenarios.store.mark import SWEEP, UNCLAIMED, Mark, read_mark
from scenarios.store.record_log import Units
from scenarios.store.run_folder import held_in, take
from scenarios.sweep.kinds import K, M, Sweep, U
from scenarios.watch.progress import Course, Telling

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def counted(telling: Telling, done: int, total: int, *, before: int) -> Iterator[Callable[[], None]]:
    """Show how many of ``total`` units are done; ``done`` of them when it begins, ``before`` by an earlier sweep."""
    console, course, now = telling.console, Course(telling, total, "units"), done

    def over() -> None:
        nonlocal now
        now += 1
        course.tell(RunProgress(count=now, rounds=now, planned=total, answers=None, refused=None, epsilon=None))

    if before:
        console.print(f"{before} of {total} units were done before; going on", highlight=False)
    if report.shows_bars(console):
        columns = (
            TextColumn("units"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"),
            TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("units", total=total, completed=done)

            def advance() -> None:
                over()
                bar.advance(task)

            yield advance
        return
    begin = said = time.monotonic()

    def line() -> None:
        nonlocal said
        over()
        if not verbose() and time.monotonic() - said >= report.EVERY:
            said = time.monotonic()
            left = (said - begin) / (now - done) * (total - now)
            console.print(f"{now} of {total} units done, about {left:,.0f} s left", highlight=False)

    yield line


EARLIER = "grid.json"
"""What sweeps had in the place of a mark until they were kept as runs are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A finished sweep."""

    sweep: Sweep[Any, Any, Any]  # What was measured
    units: Mapping[Any, Any]  # What every unit found
    result: dict[str, Any]  # What `--json` prints

    def drawn(self) -> dict[str, pd.DataFrame]:
        """Return the tables that pictures show beside the result."""
        return self.sweep.drawn(self.units, self.result)


def swept(sweep: Sweep[K, U, M], opening: AbstractContextManager[Session], out: Path, console: Console) -> Swept:
    """Measure every unit that the folder does not hold yet, and write what all of them say there. The units stay."""
    with held_in(
        out,
        opening,
        claim=lambda folder: claim(folder, sweep.content()),
        work=lambda session: measure_units(sweep, session, out, console),
    ) as units:
        result = sweep.result(units)
        for name, table in zip(sweep.tables, (sweep.table(units), sweep.rows(result)), strict=True):
            if not table.empty:
                write_table(out / name, table)
        done = Swept(sweep=sweep, units=units, result=result)
        for picture in pictures_of(sweep.family, result, done.drawn()):
            if picture.points is not None:
                write_table(out / f"{picture.name}.csv", picture.points)
            draw(out / f"{picture.name}.png", picture)
        write_result(out, result)
    return done


def claim(out: Path, content: Mapping[str, Any]) -> None:
    """Make a folder a sweep's own, or find that it is already; see `scenarios.store.run_folder.take` for errors."""
    if (out / EARLIER).is_file():
        raise InputError(
            f"output folder {out} holds a sweep that an earlier version of blindrec kept, in another format; go on "
            "with that version, or name a new folder"
        )
    told = json.loads(json.dumps(content))
    take(out, Mark(kind=SWEEP, scenario=told, source_sha256=None, code_sha256=""))


def measure_units(sweep: Sweep[K, U, M], session: Session, out: Path, console: Console) -> dict[K, M]:
    """Measure every unit that the folder, which `claim` passed, does not hold yet."""
    kept: Units[K, M] = Units(out, sweep.read, sweep.write)
    mark = read_mark(out)
    telling = Telling(kind=SWEEP, run=mark.run if mark else UNCLAIMED, console=console, out=out)
    done = dict(kept)
    before, units = set(done), sweep.units(done)
    while True:
        keys = [key for key in units if key not in done]
        with counted(telling, len(units) - len(keys), len(units), before=len(before & set(units))) as tell:
            for place, found in session.each(sweep.measure, [units[key] for key in keys]):
                kept.keep(keys[place], found)
                done[keys[place]] = found
                tell()
        before = set()
        units = sweep.units(done)
        if all(key in done for key in units):
            return {key: done[key] for key in units}
