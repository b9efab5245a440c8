"""Reports: progress while a run lasts, and a table at its end."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from scenarios.given.parsing import printable
from scenarios.report.columns import Column
from scenarios.report.records import STDOUT, deliver

if TYPE_CHECKING:
    from coordinator.server.rounds.state import RunProgress
    from scenarios.places.session import Progress as Told

EVERY = 5.0
"""Seconds between progress lines where there is no terminal."""


def report_record(
    result: Mapping[str, Any], json_target: str | None, title: str, columns: Sequence[Column] = ()
) -> None:
    """Deliver a result as JSON where that was asked for, and as a table where standard output is free."""
    deliver(json_target, dict(result))
    if json_target != STDOUT:
        show(Console(), result, title, columns)
    sys.stdout.flush()


def show(console: Console, result: Mapping[str, Any], title: str, columns: Sequence[Column]) -> None:
    """Print a result as a table: a line a column that it has, with the interval where there is one."""
    table = _table(title)
    for words, text in lines_of(result, columns):
        table.add_row(Text(words), Text(printable(text)))  # Text: brackets are no markup
    console.print(table)


def lines_of(result: Mapping[str, Any], columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Return what `show` prints, as words and values."""
    intervals = result.get("intervals", {})
    return [
        (column.words, text_of(result[column.name]) + _reach(intervals.get(column.name)))
        for column in columns
        if column.shown(result)
    ]


def _reach(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"  [{text_of(interval[0])}, {text_of(interval[1])}]"


def show_description(console: Console, described: Mapping[str, Any], title: str) -> None:
    """Print what `scenarios.data.rating_split.describe` says as a table."""
    table = _table(title)
    for name, value in described.items():
        inner = (
            ", ".join(f"{key} {text_of(number)}" for key, number in value.items()) if isinstance(value, dict) else None
        )
        description = "above each user's own mean" if value is None else inner or text_of(value)
        table.add_row(name.replace("_", " "), Text(printable(description)))
    console.print(table)


def _table(title: str) -> Table:
    """Return an empty table of two columns; a long value goes on in the next line, digests are not cut off."""
    table = Table(title=Text(title), show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    return table


def text_of(value: Any) -> str:
    """Return a number, a truth or a word as reports show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{int(value):,}" if isinstance(value, (int, float)) else str(value)


def shows_bars(console: Console) -> bool:
    """Return whether a bar can move there: on a terminal, or in a notebook that has the widgets it is made of."""
    return console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None)


@contextmanager
def progress(console: Console, devices: int, label: str, done: str = "devices answered") -> Iterator[Told]:
    """Show progress on ``console``: a bar where one can move (`shows_bars`), a plain line now and then elsewhere."""
    if shows_bars(console):
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(label, total=devices)
            yield lambda tally: bar.update(task, completed=tally.count)
        return
    said, counted = time.monotonic(), 0

    def line(tally: RunProgress) -> None:
        nonlocal said, counted
        if tally.count != counted and time.monotonic() - said >= EVERY:
            said, counted = time.monotonic(), tally.count
            console.print(f"{label}: {tally.count:,} of {devices:,} {done}", highlight=False)

    yield line
