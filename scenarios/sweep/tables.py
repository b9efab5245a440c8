"""A sweep's summary as tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_SETTING = ("design", "items", "rated", "epsilon", "clusters", "theta", "like")
_ALWAYS = ("items", "rated", "epsilon")


def show(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Print U* of every setting, the exponents, and what the paper's decoder costs."""
    settings: Sequence[Mapping[str, Any]] = summary["settings"]
    names = _told(settings)
    table = _table(f"{title}: users U*, success in half of the seeds", [*names, "decoder", "success", "U*", ""])
    for row in settings:
        success = _success(row["criterion"], summary["share"])
        table.add_row(*_fields(row, names), row["decoder"], success, _number(row["users"]), _interval(row))
    console.print(table)
    if summary["fits"]:
        _show_fits(console, summary)
    if summary["ratios"]:
        _show_ratios(console, summary, names)
    few = min((float(row["level"]) for row in settings), default=1.0)
    if few < summary["confidence"]:
        console.print(f"too few seeds for intervals of {summary['confidence']:.0%}: those of U* reach {few:.1%}")


def _show_fits(console: Console, summary: Mapping[str, Any]) -> None:
    table = _table("exponents", ["fit", "decoder", "success", "slope", "", "expected", "covered"])
    for row in summary["fits"]:
        covered = {None: "", True: "yes", False: "no"}[row["covers"]]
        expected = "" if row["expected"] is None else f"{row['expected']:g}"
        left_out = f" ({row['left_out']} settings not reached)" if row["left_out"] else ""
        success = _success(row["criterion"], summary["share"])
        table.add_row(
            Text(row["label"] + left_out), row["decoder"], success, _ratio(row["slope"]), _interval(row, _ratio),
            expected, covered,
        )  # fmt: skip
    console.print(table)


def _show_ratios(console: Console, summary: Mapping[str, Any], names: Sequence[str]) -> None:
    first = summary["ratios"][0]
    table = _table(f"users, {first['over']} over {first['under']}", [*names, "success", "ratio", ""])
    for row in summary["ratios"]:
        success = _success(row["criterion"], summary["share"])
        table.add_row(*_fields(row, names), success, _ratio(row["ratio"]), _interval(row, _ratio))
    console.print(table)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=Text(title), title_justify="left")
    for name in columns:
        table.add_column(
            name, justify="right" if name in {"U*", "slope", "ratio", *_ALWAYS} else "left", overflow="fold"
        )
    return table


def _told(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields that say which setting a row is about: what varies, and what is always told."""
    return [name for name in _SETTING if name in _ALWAYS or len({row[name] for row in rows}) > 1]


def _fields(row: Mapping[str, Any], names: Sequence[str]) -> list[Text]:
    return [Text(f"{row[name]:,}" if isinstance(row[name], int) else str(row[name])) for name in names]


def _success(criterion: str, share: float) -> str:
    return "all right" if criterion == "exact" else f"{share:.4g} right"


def _number(users: int | None) -> str:
    return "not reached" if users is None else f"{users:,}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(row: Mapping[str, Any], write: Any = _number) -> Text:
    if row["low"] is None and row["high"] is None:
        return Text("")
    return Text(f"[{write(row['low'])}, {write(row['high'])}]")
