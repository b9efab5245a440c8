"""How far a run has come: reported to its terminal, its folder, its job log and whoever listens, in public numbers."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import psutil
from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.log import WorkClock, duration, event, strict, verbose
from scenarios.show.tables import progress
from scenarios.store.manifest import FOLDER, PROGRESS
from scenarios.store.whole_files import write_bytes

if TYPE_CHECKING:
    from coordinator.server.rounds.state import RunProgress
    from scenarios.backends.session import Progress


Whole = Annotated[int, Ge(0)]
Amount = Annotated[float, Ge(0)]
ROUNDS = {"online": "clients", "two-tier": "batches", "sweep": "units"}  # The name of rounds, by the experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSnapshot:
    """A run's progress at one time. No field is a seed, since that reveals all ratings and secrets of a simulation."""

    kind: str  # The experiment's command
    run: str  # The run's public name
    repeat: Whole = 1  # The number of the running seed, from 1 on, and the number of seeds
    repeats: Whole = 1
    unit: str = "devices"  # The unit of ``count`` and ``total``
    count: Whole = 0  # How many units have arrived, of how many at most
    total: Whole = 0
    rounds: Whole = 0  # Rounds, batches or clients that are over; how many are planned, or None where that is unknown
    planned: Whole | None = None
    answers: Whole | None = None  # Answers in these rounds
    # Devices in these that refused for lack of budget; None where devices do not report it
    refused: Whole | None = None
    # The most that a device has spent in these [nats]; infinite where answers have no noise, None for sweeps
    epsilon: Amount | None = None
    undecided: Whole | None = None  # Undecided items; None where the policy does not restrict its queries to these
    seconds: Amount = 0.0  # Seconds since this seed began in this process
    rate: Amount = 0.0  # Recent units per second
    left: Amount | None = None  # Seconds until all planned rounds are over; None where that is not known
    at: float = 0.0  # The time of the snapshot [seconds since 1970]
    pid: Whole = 0  # The process that took it, and that process's start time
    born: float = 0.0
    host: str = ""  # The process's machine

    def rows(self, now: float | None = None) -> dict[str, str]:
        """Return the rows to show, in words and with units, by name."""
        rounds, of = ROUNDS.get(self.kind, "rounds"), "" if self.planned is None else f" of {self.planned:,}"
        label = "kept" if self.unit == "answers" else "answers"
        labels = {
            "command": self._command(),
            "run": self.run,
            rounds: None if rounds == self.unit else f"{self.rounds:,}{of} over",
            self.unit: f"{self.count:,} of {'at most ' if self.planned is None else ''}{self.total:,}",
            label: None if self.answers is None else f"{self.answers:,} in {rounds} that are over",
            "refused": None if self.refused is None else f"{self.refused:,}",
            "epsilon spent": None
            if self.epsilon is None
            else f"{self.epsilon:g} a device at most [nats], in {rounds} that are over",
            "undecided": None if self.undecided is None else f"{self.undecided:,} items",
            f"{self.unit} a second": self._speed(),
            "time left": "unknown" if self.left is None else duration(self.left),
            "running for": duration(self.seconds),
            "told": f"{duration(max(0.0, (now or time.time()) - self.at))} ago",
        }
        return {name: value for name, value in labels.items() if value is not None}

    def line(self) -> str:
        """Return the most important numbers in one line."""
        rounds, rows = ROUNDS.get(self.kind, "rounds"), self.rows(self.at)
        parts = [f"{rows[self.unit]} {self.unit}", f"{self._speed()} a second"]
        if rounds in rows and rounds != self.unit:
            parts.insert(0, rows[rounds].replace(" over", f" {rounds} over"))
        parts += [f"{self.refused:,} refused"] if self.refused else []
        parts += [f"{rows['undecided']} undecided"] if "undecided" in rows else []
        return f"{self._command()}: {', '.join(parts)}, time left {rows['time left']}"

    def _command(self) -> str:
        return f"{self.kind}, seed {self.repeat} of {self.repeats}" if self.repeats > 1 else self.kind

    def _speed(self) -> str:
        return f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2f}"


_STANDING = TypeAdapter(ProgressSnapshot)


def read_snapshot(numbers: Any) -> ProgressSnapshot:
    """Return the snapshot that a file or a log holds."""
    try:
        epsilon = math.inf if numbers.get("epsilon") == "inf" else numbers.get("epsilon")
        return _STANDING.validate_python({**numbers, "epsilon": epsilon})
    except (ValidationError, TypeError, AttributeError) as error:
        raise InputError(f"it holds no progress of a run ({type(error).__name__})") from None


EVERY = 1.0  # Seconds between two reports to a folder
_HERE = ("at", "pid", "born", "host")  # Fields that are reported to folders only: the log has its own time


@cache
def _born() -> float:
    return psutil.Process().create_time()


@dataclass(slots=True, kw_only=True)
class ProgressReporter:
    """Reports the progress of an experiment, seed after seed."""

    kind: str  # The experiment's command
    run: str  # The run's public name
    console: Console  # It shows a bar, or a line now and then
    repeats: int = 1  # Number of seeds
    out: Path | None = None  # Folder that progress is reported to as well
    _repeat: int = field(default=0, init=False)

    @contextmanager
    def progress(
        self, total: int, label: str, done: str = "devices answered", unit: str = "devices"
    ) -> Iterator[Progress]:
        """Report the progress of one seed."""
        self._repeat += 1
        with progress(self.console, total, label, done) as show:
            course = SeedProgress(self, total, unit)

            def report(tally: RunProgress) -> None:
                course.report(tally)
                if not verbose():
                    show(tally, course.left)

            yield report
            course.end()

    def snapshot(self, **numbers: Any) -> ProgressSnapshot:
        """Return a snapshot of the running seed."""
        return ProgressSnapshot(
            kind=self.kind,
            run=self.run,
            repeat=max(1, self._repeat),
            repeats=self.repeats,
            pid=os.getpid(),
            born=_born(),
            host=platform.node(),
            at=time.time(),
            **numbers,
        )

    def report(self, what: str, snapshot: ProgressSnapshot, *, folder: bool) -> None:
        """Report a snapshot to the log, and to the folder as well; a folder that cannot be written stops nothing."""
        numbers = asdict(snapshot)
        event(what, **{name: value for name, value in numbers.items() if name not in _HERE})
        if folder and self.out is not None:
            with suppress(OSError):
                write_bytes(self.out / FOLDER / PROGRESS, f"{strict(numbers)}\n".encode())


class SeedProgress:
    """One seed, or a sweep, from its first answer to its last."""

    def __init__(self, reporter: ProgressReporter, total: int, unit: str, before: int | None = None) -> None:
        from coordinator.server.rounds.state import RunProgress  # noqa: PLC0415 (numerical; `watch` needs none)

        self._reporter, self._total, self._unit = reporter, total, unit
        self._begin = self._said = time.monotonic()
        self._sweep = before is not None
        self._clock = WorkClock() if before is None else WorkClock(math.inf)
        if before is not None:  # Units of a sweep last long and differ: their rate is the mean since it began
            self._clock.begin(self._begin, before)
        self._last = RunProgress()
        self.left: float | None = None  # Seconds until all planned rounds are over; None where that is not known

    def report(self, tally: RunProgress, left: float | None = None) -> None:
        """Report a tally: to the log whenever a round is over, to log and folder where a second has passed.

        ``left``: The time left [s] of a sweep, which knows how long its units take; None where that is not known.
        """
        now, round_ended = time.monotonic(), tally.rounds != self._last.rounds
        self._last = tally
        self._clock.count(now, tally.count, tally.restored)
        if not self._sweep:
            left = None if tally.planned is None else self._clock.left(self._total - tally.count)
        self.left = left
        if not (due := now - self._said >= EVERY) and not round_ended:
            return
        self._said = now if due else self._said
        self._reporter.report("round" if round_ended else "progress", self._snapshot(now), folder=due)

    def end(self) -> None:
        """Report the end."""
        now = time.monotonic()
        self._clock.count(now, self._last.count, self._last.restored)
        self.left = None if self._last.planned is None else self._clock.left(self._total - self._last.count)
        self._reporter.report("over", self._snapshot(now), folder=now - self._begin >= EVERY)

    def _snapshot(self, now: float) -> ProgressSnapshot:
        tally = {name: value for name, value in asdict(self._last).items() if name != "restored"}
        return self._reporter.snapshot(
            **tally,
            unit=self._unit,
            total=self._total,
            seconds=round(now - self._begin, 3),
            rate=float(f"{self._clock.rate:.4g}"),
            left=None if self.left is None else round(self.left, 1),
        )


SNAPSHOT_PREFIX = "@blindrec-standing:"
LOG_EVERY = 5.0  # Seconds between two lines; a log is sent whole whenever somebody looks.
_SNAPSHOT_LINE = re.compile(re.escape(SNAPSHOT_PREFIX) + r" (\{.*\})$")
_TOLD = ("round", "progress")
_LAST = "over"


class JobLogHandler(logging.Handler):
    """Writes snapshots into a job's log, each line in one piece."""

    def __init__(self) -> None:
        super().__init__()
        self._said = -LOG_EVERY

    def emit(self, record: logging.LogRecord) -> None:
        """Write a snapshot, where the last line is old enough or a seed is over."""
        what, now = record.getMessage(), time.monotonic()
        if what == _LAST or (what in _TOLD and now - self._said >= LOG_EVERY):
            self._said = now
            numbers = {**getattr(record, "told", {}), "at": record.created}
            os.write(1, f"{SNAPSHOT_PREFIX} {strict(numbers)}\n".encode())


def split_snapshot(line: str) -> tuple[str, ProgressSnapshot | None]:
    """Split a line of a log into its snapshot, if there is one, and the rest."""
    if not (match := _SNAPSHOT_LINE.search(line)):
        return line, None
    try:
        return line[: match.start()], read_snapshot(json.loads(match.group(1)))
    except (ValueError, RecursionError, InputError):
        return line, None
