"""Rows of numbers as a table on the terminal that stands on its side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenarios.report.printing import text_of


def show_rows(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print rows as a table that stands on its side: names down, a column a row; what does not apply is left out.

    Rows for which a line has no room stand in a table of their own below.
    """
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    words = [name.replace("_", " ") for name in names]
    columns = [["" if row[name] is None else text_of(row[name]) for name in names] for row in rows]
    frame = len(" │ │")
    while columns:
        room, shown = console.width - max(map(len, words)) - frame, 0
        while shown < len(columns) and (room := room - max(map(len, columns[shown])) - len(" │ ")) >= 0:
            shown += 1
        beside, columns = columns[: shown or 1], columns[shown or 1 :]
        table = Table(title=Text(title), title_justify="left", show_header=False)
        for cells in zip(words, *beside, strict=True):
            table.add_row(*map(Text, cells))
        console.print(table)
