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
    """Show rows in their place on a terminal; where there is none, a line as soon as the last one is old enough."""
    console = Console()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2) as live:
            yield lambda rows, _: live.update(table(rows))
        return
    said = -report.EVERY

    def show(_: Mapping[str, str], line: str) -> None:
        nonlocal said
        if time.monotonic() - said >= report.EVERY:
            said = time.monotonic()
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    yield show


def as_json(told: Mapping[str, Any]) -> None:
    """Write one line of JSON."""
    sys.stdout.write(f"{strict(dict(told))}\n")
    sys.stdout.flush()
