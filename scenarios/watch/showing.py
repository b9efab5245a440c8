"""Showing where a run stands: rows that move on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scenarios.given.values import printable
from scenarios.log import strict
from scenarios.report import printing as report

Show = Callable[[Mapping[str, str], str], None]
"""Takes all rows, and the same in a line."""


def table(rows: Mapping[str, str]) -> Table:
    """Return rows as a table without lines."""
    sheet = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        sheet.add_row(Text(name), Text(value))
    return sheet


@contextmanager
def moving() -> Iterator[Show]:
    """Show rows in their place on a terminal; elsewhere a line as soon as the last one is old enough, and the last."""
    console = Console()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2) as live:
            yield lambda rows, _: live.update(table(rows))
        return
    said, unsaid = -report.EVERY, ""

    def show(_: Mapping[str, str], line: str) -> None:
        nonlocal said, unsaid
        unsaid = line
        if time.monotonic() - said >= report.EVERY:
            said, unsaid = time.monotonic(), ""
            _write(line)

    yield show
    if unsaid:
        _write(unsaid)


def _write(line: str) -> None:
    sys.stdout.write(f"{printable(line)}\n")
    sys.stdout.flush()


def as_json(told: Mapping[str, Any]) -> None:
    """Write one line of JSON."""
    _write(strict(dict(told)))
