"""An online sweep's summary as a table on a terminal, and as rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coordinator.server.online.recommenders import still_names
from scenarios.sweep.online_axes import AXES, OnlineSetting

_COLUMNS = ["recommender", "loss", "s.e.", "95 %", "bound (L)", "Theorem 6", "epsilon", "exact", "at least"]
_COLUMNS += ["run leaks", "most", "peers alive", "kicked"]


def rows_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return all points, one row each; NaN: not known, inf: no finite number."""
    table = pd.DataFrame(summary["points"])
    names = [name for name in table if table[name].map(lambda value: value == "inf").any()]
    return table.astype(dict.fromkeys(names, float))


def show(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Print a table an axis: the loss of every recommender beside its bounds, and what it leaks."""
    console.print(f"{title}: means over {summary['seeds']} seeds", highlight=False, soft_wrap=True)
    for name in summary["axes"]:
        console.print(_table(name, [row for row in summary["points"] if row["axis"] == name]))
    for line in _REMARKS:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


_REMARKS = (
    "bound (L): proved for any world; Theorem 6: no algorithm expects less against its adversary (rows with *)",
    "epsilon: proved; exact: worst case of p-rec-sim by dynamic programme, <= where T < N: an upper bound",
    "at least: what epsilon is at least, by a constructed environment, or a chain of adjacent voters",
    "run leaks: exact privacy loss of a run, mean and largest over seeds [nats]; kicked: peers, all seeds together",
)


def _table(axis: str, rows: list[dict[str, Any]]) -> Table:
    heading = f"{axis}: {same(axis, rows)}"
    table = Table(title=Text(heading), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(AXES[axis].label.rpartition(" ")[2], justify="right")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("recommender", "95 %") else "right")
    last = rows[0]["x"]
    for row in rows:
        if row["x"] != last:
            table.add_section()
        last = row["x"]
        against = " *" if row["environment"] != rows[0]["environment"] else ""
        table.add_row(f"{row['x']:,}", row["recommender"] + against, *map(Text, _cells(row)))
    return table


def same(axis: str, rows: list[dict[str, Any]]) -> str:
    """Return what all points of an axis share."""
    shared = {name: max(row[name] for row in rows) for name in OnlineSetting._fields}
    return AXES[axis].told.format(**shared, ratio=shared["voters"] / shared["peers"], still=", ".join(still_names()))


def _cells(row: Mapping[str, Any]) -> list[str]:
    exact = number(row["epsilon_exact"]) + (" <=" if row["exact_is_bound"] else "")
    return [
        number(row["loss"]),
        number(row["loss_se"]),
        interval(row["loss_low"], row["loss_high"]),
        number(row["loss_bound"]),
        number(row["loss_lower_bound"]),
        number(row["epsilon_proved"]),
        exact,
        number(row["epsilon_lower"]),
        number(row["privacy_loss"]),
        number(row["privacy_loss_most"]),
        number(row["peers_alive"]),
        str(row["peers_kicked"]),
    ]


def number(value: float | str | None) -> str:
    """Return a number with four digits; nothing for None."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def interval(low: float | None, high: float | None, write: Any = number) -> str:
    """Return an interval; nothing where there is none."""
    return "" if low is None or high is None else f"[{write(low)}, {write(high)}]"
