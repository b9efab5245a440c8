"""Lower bounds as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def failing(failure: float, mistakes: int) -> str:
    """Return in words what lower bounds allow a learner.

    >>> failing(0.5, 0), failing(0.05, 3)
    ('to fail with probability 0.5 at most', 'to have more than 3 items wrong with probability 0.05 at most')
    """
    what = f"have more than {mistakes:,} item{'s' if mistakes > 1 else ''} wrong" if mistakes else "fail"
    return f"to {what} with probability {failure:g} at most"


def show_bounds(console: Console, record: Mapping[str, Any]) -> None:
    """Print lower bounds as a table, the one that binds marked, and below it what each of them holds for."""
    rows: Sequence[Mapping[str, Any]] = record["bounds"]
    title = f"users that any epsilon-LDP learner needs\n{failing(record['failure'], record['mistakes'])}"
    table = Table("bound", "users", "source", title=title, title_justify="left")
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
