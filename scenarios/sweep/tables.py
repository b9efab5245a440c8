"""A sweep's summary as tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_SETTING = ("design", "items", "rated", "epsilon", "clusters", "theta", "like")
_ALWAYS = ("items", "rated", "epsilon")


def show(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Print U* of every setting, the exponents, and what the paper's decoder costs."""
    settings: Sequence[Mapping[str, Any]] = summary["settings"]
    names = _told(settings)
    own = ["channel"] if any("channel" in row for row in settings) else []
    columns = [*names, "success", "U*", "95 %", "planned", *own]
    table = _table(f"{title}: users U*, success in half of the seeds", columns)
    for row in settings:
        told: list[str | Text] = [_success(row, summary["share"]), _number(row["users"]), _interval(row), _planned(row)]
        table.add_row(*_fields(row, names), *told, *(Text(row.get(name, "")) for name in own))
    console.print(table)
    if any(row.get("inside") is False for row in settings):
        console.print("! the measured interval does not hold the planner's number")
    if summary["fits"]:
        _show_fits(console, summary)
    if summary.get("probes"):
        _show_probes(console, summary["probes"], names)
    if summary["ratios"]:
        _show_ratios(console, summary, names)
    few = min((float(row["level"]) for row in settings), default=1.0)
    if few < summary["confidence"]:
        console.print(f"too few seeds for intervals of {summary['confidence']:.0%}: those of U* reach {few:.1%}")


def _show_fits(console: Console, summary: Mapping[str, Any]) -> None:
    table = _table("exponents", ["success", "slope", "95 %", "planned", "expected", "covered"])
    last = None
    for row in summary["fits"]:
        covered = {None: "", True: "yes", False: "no"}[row["covers"]]
        expected = "" if row["expected"] is None else f"{row['expected']:g}"
        left_out = f" ({row['left_out']} settings not reached)" if row["left_out"] else ""
        if row["label"] != last:
            last = row["label"]
            table.add_row(Text(f"{last}{left_out}", style="italic"))
        success = "  " + _success(row, summary["share"])
        planned = _ratio(row.get("predicted"))
        table.add_row(success, _ratio(row["slope"]), _interval(row, _ratio), planned, expected, covered)
    console.print(table)


def _show_probes(console: Console, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    table = _table("share of items right", [*names, "decoder", "users", "measured", "error", "planned", "within 3"])
    for row in rows:
        told = [f"{row['accuracy']:.4f}", f"{row['standard_error']:.4f}", f"{row['predicted']:.4f}"]
        table.add_row(
            *_fields(row, names), row["decoder"], _number(row["users"]), *told, "yes" if row["within"] else "no"
        )
    console.print(table)


def _planned(row: Mapping[str, Any]) -> str:
    """Return the planner's number, marked where the measured interval does not hold it."""
    predicted = row.get("predicted")
    if predicted is None:
        return ""
    return f"{predicted:,.0f}{' !' if row['inside'] is False else ''}"


def _show_ratios(console: Console, summary: Mapping[str, Any], names: Sequence[str]) -> None:
    first = summary["ratios"][0]
    table = _table(f"users, {first['over']} over {first['under']}", [*names, "success", "ratio", ""])
    for row in summary["ratios"]:
        success = _success({**row, "decoder": ""}, summary["share"])
        table.add_row(*_fields(row, names), success, _ratio(row["ratio"]), _interval(row, _ratio))
    console.print(table)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        right = name in {"U*", "slope", "ratio", *_ALWAYS}
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    return table


def _told(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields that say which setting a row is about: what varies, and what is always told."""
    return [name for name in _SETTING if name in _ALWAYS or len({row[name] for row in rows}) > 1]


def _fields(row: Mapping[str, Any], names: Sequence[str]) -> list[Text]:
    return [Text(f"{row[name]:,}" if isinstance(row[name], int) else str(row[name])) for name in names]


def _success(row: Mapping[str, Any], share: float) -> str:
    """Return decoder and criterion in words."""
    told = {"exact": "all right", "share": f"{share:.4g} right", "top": f"{share:.4g} of the top 50"}[row["criterion"]]
    return ", ".join(filter(None, [row["decoder"], told]))


def _number(users: int | None) -> str:
    return "not reached" if users is None else f"{users:,}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(row: Mapping[str, Any], write: Any = _number) -> Text:
    if row["low"] is None and row["high"] is None:
        return Text("")
    return Text(f"[{write(row['low'])}, {write(row['high'])}]")
