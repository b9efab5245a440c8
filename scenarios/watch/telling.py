"""Telling how far a run has come: to its terminal, its folder, and whoever listens to the structured log."""

from __future__ import annotations

import os
import platform
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from coordinator.server.rounds.tally import Tally
from scenarios.log import event, strict, verbose
from scenarios.report.printing import progress
from scenarios.store.files import write_bytes
from scenarios.store.mark import FOLDER, PROGRESS
from scenarios.watch.standing import Standing

if TYPE_CHECKING:
    from rich.console import Console

    from scenarios.places.session import Progress

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
    """Tells how far an experiment has come, seed after seed.

    Attributes
    ----------
    kind : str
        The experiment's command.
    run : str
        The run's public name.
    console : Console
        Where a bar moves, or lines appear now and then.
    repeats : int
        Number of seeds.
    out : Path or None
        Folder that is told as well.
    """

    kind: str
    run: str
    console: Console
    repeats: int = 1
    out: Path | None = None
    _repeat: int = field(default=0, init=False)

    @contextmanager
    def progress(
        self, total: int, label: str, done: str = "devices answered", unit: str = "devices"
    ) -> Iterator[Progress]:
        """Tell about one seed.

        Parameters
        ----------
        total : int
            How much there is to count, at most.
        label, done : str
            What a bar or a line calls the seed, and what is counted.
        unit : str
            The same in a word.

        Yields
        ------
        callable
            Takes a `Tally`.
        """
        self._repeat += 1
        with progress(self.console, total, label, done) as show:
            course = Course(self, total, unit)

            def tell(tally: Tally) -> None:
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
    """One seed, or a sweep, from its first answer to its last.

    Parameters
    ----------
    telling : Telling
        Whose it is.
    total : int
        How much there is to count, at most.
    unit : str
        What is counted.
    """

    def __init__(self, telling: Telling, total: int, unit: str) -> None:
        self._telling, self._total, self._unit = telling, total, unit
        self._begin = self._said = time.monotonic()
        self._past: deque[tuple[float, int]] = deque()
        self._last = Tally()

    def tell(self, tally: Tally) -> None:
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
