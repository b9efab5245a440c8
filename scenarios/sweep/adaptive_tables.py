"""An adaptive sweep's result as a table on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rich.console import Console

from scenarios.report.tables import interval, ratio, remark, show_table, whole
from scenarios.sweep.adaptive_settings import MOMENTS
from scenarios.sweep.adaptive_summary import whom

_COLUMNS = ("N", "scheme", "users", "95 %", "all right", "rounds", "planned", "ratio", "its 95 %")
_ends = partial(interval, missing="open")


def show(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Print the table: users of every scheme, how often it was right, and what it costs against adaptive sign."""
    rows: list[list[str] | None] = []
    for items in summary["items"]:
        rows += [_cells(row) for row in summary["schemes"] if row["items"] == items]
        rows += [[f"{items:,}", whom(row), whole(row["users"])] for row in summary["bounds"] if row["items"] == items]
        rows.append(None)
    told = f"{title}: users for all labels right with probability {summary['confidence']:g}"
    show_table(console, _COLUMNS, rows, title=told, words=("scheme",), names=2)
    remark(console, "ratio: users over those of adaptive sign sensing; planned: one round, from exact moments")
    if any(row["seeds"] and None in (row["low"], row["high"]) for row in summary["schemes"]):
        remark(console, "an open end: too few seeds for that end of a 95 % interval")
    if summary["statistic"] == MOMENTS:
        told = "statistics were drawn from their exact moments; MaxSense is not emulated, its planned users stand"
        remark(console, told)


def _cells(row: Mapping[str, Any]) -> list[str]:
    short = f" ({row['ran_out']} ran out)" if row["ran_out"] else ""
    ends = _ends(row["low"], row["high"], whole) or "[open, open]"
    planned = f"planned {row['ratio_predicted']:.3f}" if row["ratio_predicted"] is not None else ""
    return [
        f"{row['items']:,}",
        row["label"],
        whole(row["users"]) if row["seeds"] else "not emulated",
        ends + short if row["seeds"] else "",
        "" if row["right"] is None else f"{row['right'] * row['seeds']:.0f} of {row['seeds']}",
        "" if row["rounds"] is None else f"{row['rounds']:.3g}",
        "" if row["predicted"] is None else whole(row["predicted"]),
        planned if row["ratio"] is None else ratio(row["ratio"]),
        "" if row["ratio"] in (None, 1.0) else _ends(row["ratio_low"], row["ratio_high"], ratio) or "[open, open]",
    ]
