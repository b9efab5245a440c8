"""What private advice takes among people like a file's, as a table, 80 columns wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console

from scenarios.compare.needs import BEATS, advice_of
from scenarios.report.tables import interval_of, remark, short, show_table

HONEST = (
    "drawn from exact laws of what devices would answer, on this file's own split; intervals of 95 % cover splits, "
    "coins and the choice of people, but from few people pairs look easier than they are; blindrec compare "
    "measures it, with volunteers and a curator beside it, who need far fewer people"
)


def show_needs(console: Console, rows: Sequence[Mapping[str, Any]], why: str | None) -> None:
    """Print the rows of `scenarios.compare.needs.needs`, or why there are none."""
    title = "what private advice takes among people like this file's"
    if not rows:
        remark(console, f"{title}: nothing can be told; {why}")
        return
    first, cells = rows[0], list[list[str] | None]()
    for epsilon, group in groupby(rows, key=lambda row: row["epsilon"]):
        for place, row in enumerate(group):
            people = (_reach(row, name) for name in ("people", "people_to_beat"))
            cells.append(["" if place else _epsilon(epsilon), advice_of(row), *people, f"{100 * row['here']:.0f} %"])
        cells.append(None)
    users = int(first["users_here"])
    columns = ("epsilon", "advice", f"people for {first['worth']:.0%}", f"for {BEATS:.0%}", f"with {short(users)}")
    show_table(console, columns, cells[:-1], title=f"{title}, in plain popularity's NDCG", words=("advice",), names=2)
    for use in dict.fromkeys(row["use"] for row in rows):
        named = dict.fromkeys(_epsilon(row["epsilon"]) for row in rows if row["use"] == use)
        remark(console, f"to use with {users:,} people at epsilon {', '.join(named)}: {use}")
    remark(console, HONEST)


def _epsilon(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _reach(row: Mapping[str, Any], name: str) -> str:
    return "never" if row[name] is None else f"{short(row[name])} {interval_of(row, name, short)}"
