"""Lower bounds as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def show_bounds(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print lower bounds as a table, the one that binds marked, and below it what each of them holds for."""
    table = Table("bound", "users", "source", title="users that any epsilon-LDP learner needs", title_justify="left")
    table.columns[1].no_wrap = True
    holds: dict[str, list[str]] = {}
    for row in rows:
        users = f"{row['users']:,.0f}" if row["valid"] else "out of range"
        table.add_row(row["name"] + (" *" if row["binds"] else ""), users, row["source"])
        holds.setdefault(row["range"], []).append(row["name"])
    console.print(table)
    console.print("* the one that binds")
    for held, names in holds.items():
        console.print(f"{', '.join(names)}: {'hold' if len(names) > 1 else 'holds'} for {held}", highlight=False)
