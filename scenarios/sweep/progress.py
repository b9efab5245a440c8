"""Progress of a sweep: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from coordinator.server.rounds.tally import Tally
from scenarios.log import verbose
from scenarios.report import printing as report
from scenarios.watch.telling import Course, Telling


@contextmanager
def counted(telling: Telling, done: int, total: int, *, before: int) -> Iterator[Callable[[], None]]:
    """Show how many of ``total`` units are done; ``done`` of them are when it begins, ``before`` by an earlier sweep.

    Yields
    ------
    callable
        Is called when one more is done.
    """
    console, course, now = telling.console, Course(telling, total, "units"), done

    def over() -> None:
        nonlocal now
        now += 1
        course.tell(Tally(count=now, rounds=now, planned=total, answers=None, refused=None, epsilon=None))

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
