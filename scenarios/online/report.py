"""Rows of numbers as a table on the terminal that stands on its side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenarios.report import text_of


def show_rows(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print rows as a table that stands on its side: names down, a column a row; what does not apply is left out."""
    table = Table(title=Text(title), title_justify="left", show_header=False)
    for _ in range(len(rows) + 1):
        table.add_column()
    for name in rows[0]:
        if any(row[name] is not None for row in rows):
            table.add_row(name.replace("_", " "), *("" if row[name] is None else text_of(row[name]) for row in rows))
    console.print(table)
