"""How far a run has come: told to its terminal, its folder and whoever listens, in public numbers."""

from __future__ import annotations

import math
import os
import platform
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import psutil
from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError

from coordinator.protocol.errors import InputError
from coordinator.server.rounds.tally import RunProgress
from scenarios.log import event, strict, verbose
from scenarios.report.printing import progress
from scenarios.store.files import write_bytes
from scenarios.store.mark import FOLDER, PROGRESS

if TYPE_CHECKING:
    from rich.console import Console

    from scenarios.places.session import Progress


Whole = Annotated[int, Ge(0)]
Amount = Annotated[float, Ge(0)]
ROUNDS = {"online": "clients", "two-tier": "batches", "sweep": "units"}
"""What rounds are called, by the experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a run stood at a time. No field is a seed: from it all ratings and secrets of a simulation follow."""

    kind: str  # The experiment's command
    run: str  # The run's public name
    repeat: Whole = 1  # Which of the seeds runs, from 1 on, and how many there are
    repeats: Whole = 1
    unit: str = "devices"  # What is counted
    count: Whole = 0  # How many have come in, of how many at most
    total: Whole = 0
    rounds: Whole = 0  # Rounds, batches or clients that are over; how many there will be, or None where nobody knows
    planned: Whole | None = None
    answers: Whole | None = None  # Answers in these
    refused: Whole | None = None  # Devices in these that refused for lack of budget; None where devices do not say so
    # What a device has spent at most in these [nats]; infinite where answers have no noise, None for sweeps
    epsilon: Amount | None = None
    undecided: Whole | None = None  # Items that are not decided; None where the policy does not ask about these only
    seconds: Amount = 0.0  # Since this seed began here
    rate: Amount = 0.0  # Units a second, lately
    left: Amount | None = None  # Seconds until all planned rounds are over; None where that is not known
    at: float = 0.0  # When this was [seconds since 1970]
    pid: Whole = 0  # The process that told it, and when that began
    born: float = 0.0
    host: str = ""  # Its machine

    def rows(self, now: float | None = None) -> dict[str, str]:
        """Return what is shown of it, in words and with units, by the rows' names."""
        rounds, of = ROUNDS.get(self.kind, "rounds"), "" if self.planned is None else f" of {self.planned:,}"
        known = {
            "command": self._command(),
            "run": self.run,
            rounds: None if rounds == self.unit else f"{self.rounds:,}{of} over",
            self.unit: f"{self.count:,} of {'at most ' if self.planned is None else ''}{self.total:,}",
            "answers": None if self.answers is None else f"{self.answers:,} in {rounds} that are over",
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
        return {name: value for name, value in known.items() if value is not None}

    def line(self) -> str:
        """Return what matters most of it in a line."""
        rounds, rows = ROUNDS.get(self.kind, "rounds"), self.rows(self.at)
        parts = [f"{rows[self.unit]} {self.unit}", f"{self._speed()} a second"]
        if rounds in rows:
            parts.insert(0, rows[rounds].replace(" over", f" {rounds} over"))
        parts += [f"{self.refused:,} refused"] if self.refused else []
        parts += [f"{rows['undecided']} undecided"] if "undecided" in rows else []
        return f"{self._command()}: {', '.join(parts)}, time left {rows['time left']}"

    def _command(self) -> str:
        return f"{self.kind}, seed {self.repeat} of {self.repeats}" if self.repeats > 1 else self.kind

    def _speed(self) -> str:
        return f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2f}"


_STANDING = TypeAdapter(Standing)


def read_standing(told: Any) -> Standing:
    """Return the standing that a file or a log tells."""
    try:
        return _STANDING.validate_python({**told, "epsilon": _finite(told.get("epsilon"))})
    except (ValidationError, TypeError, AttributeError) as error:
        raise InputError(f"it tells no standing of a run ({type(error).__name__})") from None


def _finite(value: object) -> object:
    return math.inf if value == "inf" else value


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(7261.2), duration(75), duration(0.4)
    ('2 h 1 min', '1 min 15 s', '0 s')
    """
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


EVERY = 1.0
"""Seconds between two times that a folder is told."""
LATELY = 30.0
"""Seconds over which the rate is taken."""
_HERE = ("at", "pid", "born", "host")
"""What only a folder is told: the log has a time of its own."""


@cache
def _born() -> float:
    return psutil.Process().create_time()


@dataclass(slots=True, kw_only=True)
class Telling:
    """Tells how far an experiment has come, seed after seed."""

    kind: str  # The experiment's command
    run: str  # The run's public name
    console: Console  # Where a bar moves, or lines appear now and then
    repeats: int = 1  # Number of seeds
    out: Path | None = None  # Folder that is told as well
    _repeat: int = field(default=0, init=False)

    @contextmanager
    def progress(
        self, total: int, label: str, done: str = "devices answered", unit: str = "devices"
    ) -> Iterator[Progress]:
        """Tell about one seed."""
        self._repeat += 1
        with progress(self.console, total, label, done) as show:
            course = Course(self, total, unit)

            def tell(tally: RunProgress) -> None:
                if not verbose():
                    show(tally)
                course.tell(tally)

            yield tell
            course.end()

    def standing(self, **numbers: Any) -> Standing:
        """Return a standing of the seed that runs."""
        return Standing(
            kind=self.kind,
            run=self.run,
            repeat=max(1, self._repeat),
            repeats=self.repeats,
            at=time.time(),
            pid=os.getpid(),
            born=_born(),
            host=platform.node(),
            **numbers,
        )

    def tell(self, what: str, standing: Standing, *, folder: bool) -> None:
        """Tell the log of a standing, and the folder as well; a folder that cannot be written stops nothing."""
        told = asdict(standing)
        event(what, **{name: value for name, value in told.items() if name not in _HERE})
        if folder and self.out is not None:
            with suppress(OSError):
                write_bytes(self.out / FOLDER / PROGRESS, f"{strict(told)}\n".encode())


class Course:
    """One seed, or a sweep, from its first answer to its last."""

    def __init__(self, telling: Telling, total: int, unit: str) -> None:
        self._telling, self._total, self._unit = telling, total, unit
        self._begin = self._said = time.monotonic()
        self._past: deque[tuple[float, int]] = deque()
        self._last = RunProgress()

    def tell(self, tally: RunProgress) -> None:
        """Tell of a tally: the log whenever a round is over, both where a second has passed."""
        now, over = time.monotonic(), tally.rounds != self._last.rounds
        self._last = tally
        if not (due := now - self._said >= EVERY) and not over:
            return
        self._said = now if due else self._said
        self._telling.tell("round" if over else "progress", self._standing(now), folder=due)

    def end(self) -> None:
        """Tell how it ended."""
        now = time.monotonic()
        self._telling.tell("over", self._standing(now), folder=now - self._begin >= EVERY)

    def _standing(self, now: float) -> Standing:
        tally = self._last
        rate = self._rate(now, tally.count)
        known = tally.planned is not None and (rate > 0 or tally.count >= self._total)
        return self._telling.standing(
            unit=self._unit,
            count=tally.count,
            total=self._total,
            rounds=tally.rounds,
            planned=tally.planned,
            answers=tally.answers,
            refused=tally.refused,
            epsilon=tally.epsilon,
            undecided=tally.undecided,
            seconds=round(now - self._begin, 3),
            rate=rate,
            left=round(max(0, self._total - tally.count) / rate, 1) if known and rate else 0.0 if known else None,
        )

    def _rate(self, now: float, count: int) -> float:
        """Return units a second over the last seconds; what a resumed run takes from its folder comes at once."""
        self._past.append((now, count))
        while len(self._past) > 2 and now - self._past[1][0] >= LATELY:
            self._past.popleft()
        then, before = self._past[0]
        return round(max(0, count - before) / (now - then), 3) if now > then else 0.0
