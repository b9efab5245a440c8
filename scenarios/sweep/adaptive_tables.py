"""An adaptive sweep's summary as a table on a terminal, and as rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenarios.sweep.adaptive_settings import MOMENTS


def rows_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return the one table of the sweep: schemes, then lower bounds, one row each a catalogue; NaN: not known."""
    bounds = [
        {
            "items": row["items"],
            "scheme": "lower bound",
            "label": _whom(row),
            "adaptive": row["adaptive"],
            "users": row["users"],
        }
        for row in summary["bounds"]
    ]
    table = pd.DataFrame([*summary["schemes"], *bounds])
    return table.sort_values("items", kind="stable", ignore_index=True).convert_dtypes()


def show(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Print the table: users of every scheme, how often it was right, and what it costs against adaptive sign."""
    told = f"{title}: users for all labels right with probability {summary['confidence']:g}"
    table = Table(title=Text(told), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("N", "scheme", "users", "95 %", "all right", "rounds", "planned", "ratio", "95 % "):
        table.add_column(name, justify="left" if name in ("scheme", "95 %", "95 % ") else "right", overflow="fold")
    for items in summary["items"]:
        for row in summary["schemes"]:
            if row["items"] == items:
                table.add_row(f"{items:,}", row["label"], *map(Text, _cells(row)))
        for row in summary["bounds"]:
            if row["items"] == items:
                table.add_row(f"{items:,}", Text(_whom(row), style="italic"), Text(_number(row["users"])))
        table.add_section()
    console.print(table)
    for line in _remarks(summary):
        console.print(line, highlight=False, soft_wrap=True)


def _cells(row: Mapping[str, Any]) -> list[str]:
    right = "" if row["right"] is None else f"{row['right'] * row['seeds']:.0f} of {row['seeds']}"
    rounds = "" if row["rounds"] is None else f"{row['rounds']:.3g}"
    short = f" ({row['ran_out']} ran out)" if row["ran_out"] else ""
    return [
        _number(row["users"]) if row["seeds"] else "not emulated",
        _interval(row["low"], row["high"], _number) + short if row["seeds"] else "",
        right,
        rounds,
        "" if row["predicted"] is None else _number(row["predicted"]),
        _ratio(row["ratio"]) if row["ratio"] is not None else _planned_ratio(row),
        _interval(row["ratio_low"], row["ratio_high"], _ratio) if row["ratio"] not in (None, 1.0) else "",
    ]


def _remarks(summary: Mapping[str, Any]) -> list[str]:
    rows = summary["schemes"]
    lines = ["ratio: users over those of adaptive sign sensing; planned: one round, from exact moments"]
    if any(row["seeds"] and None in (row["low"], row["high"]) for row in rows):
        lines.append("an open end: too few seeds for that end of a 95 % interval")
    if summary["statistic"] == MOMENTS:
        lines.append(
            "statistics were drawn from their exact moments; MaxSense is not emulated, its planned users stand"
        )
    return lines


def _whom(row: Mapping[str, Any]) -> str:
    told = f" ({row['name']})" if row["name"] else ""
    return f"lower bound, {'any protocol' if row['adaptive'] else 'one round'}{told}"


def _number(users: float | None) -> str:
    return "not reached" if users is None else f"{users:,.0f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _planned_ratio(row: Mapping[str, Any]) -> str:
    return "" if row["ratio_predicted"] is None else f"planned {row['ratio_predicted']:.3f}"


def _interval(low: float | None, high: float | None, write: Any) -> str:
    return f"[{'open' if low is None else write(low)}, {'open' if high is None else write(high)}]"
