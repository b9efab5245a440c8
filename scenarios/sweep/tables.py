"""The result of a sweep over users as tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from scenarios.report.tables import interval_of, ratio, remark, show_table, whole

_SETTING = ("design", "items", "rated", "epsilon", "clusters", "theta", "like")
_ALWAYS = ("items", "rated", "epsilon")
_WORDS = ("design", "theta", "like", "success", "decoder", "channel")


def show(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Print U* of every setting, the exponents, and what the paper's decoder costs."""
    settings: Sequence[Mapping[str, Any]] = summary["settings"]
    share = float(summary["share"])
    names = [name for name in _SETTING if name in _ALWAYS or len({row[name] for row in settings}) > 1]
    own = ["channel"] if any("channel" in row for row in settings) else []
    show_table(
        console,
        [*names, "success", "U*", "95 %", "planned", *own],
        [
            [
                *_fields(row, names),
                _success(row, share),
                whole(row["users"]),
                interval_of(row, write=whole, missing="not reached"),
                _planned(row),
            ]
            + [str(row.get(name, "")) for name in own]
            for row in settings
        ],
        title=f"{title}: users U*, success in half of the seeds",
        words=_WORDS,
        names=len(names) + 1,
    )
    if any(row.get("inside") is False for row in settings):
        remark(console, "! the measured interval does not hold the planner's number")
    if summary["fits"]:
        _show_fits(console, summary["fits"], share)
    if summary.get("probes"):
        rows = [
            [
                *(*_fields(row, names), row["decoder"], whole(row["users"])),
                *(f"{row[name]:.4f}" for name in ("accuracy", "standard_error", "predicted")),
                "yes" if row["within"] else "no",
            ]
            for row in summary["probes"]
        ]
        columns = [*names, "decoder", "users", "measured", "error", "planned", "within 3"]
        show_table(console, columns, rows, title="share of items right", words=_WORDS, names=len(names) + 1)
    if summary["ratios"]:
        first = summary["ratios"][0]
        rows = [
            [
                *(*_fields(row, names), _success({**row, "decoder": ""}, share)),
                *(ratio(row["ratio"]), interval_of(row, write=ratio)),
            ]
            for row in summary["ratios"]
        ]
        columns, told = [*names, "success", "ratio", "95 %"], f"users, {first['over']} over {first['under']}"
        show_table(console, columns, rows, title=told, words=_WORDS, names=len(names) + 1)
    few = min((float(row["level"]) for row in settings), default=1.0)
    if few < summary["confidence"]:
        remark(console, f"too few seeds for intervals of {summary['confidence']:.0%}: those of U* reach {few:.1%}")


def _show_fits(console: Console, fits: Sequence[Mapping[str, Any]], share: float) -> None:
    rows: list[list[str]] = []
    last = None
    for row in fits:
        left_out = f" ({row['left_out']} settings not reached)" if row["left_out"] else ""
        if row["label"] != last:
            last = row["label"]
            rows.append([f"{last}{left_out}"])
        expected = "" if row["expected"] is None else f"{row['expected']:g}"
        covered = {None: "", True: "yes", False: "no"}[row["covers"]]
        told = [ratio(row["slope"]), interval_of(row, write=ratio), ratio(row.get("predicted")), expected, covered]
        rows.append(["  " + _success(row, share), *told])
    show_table(
        console,
        ["success", "slope", "95 %", "planned", "expected", "covered"],
        rows,
        title="exponents",
        words=_WORDS,
    )


def _planned(row: Mapping[str, Any]) -> str:
    """Return the planner's number, marked where the measured interval does not hold it."""
    predicted = row.get("predicted")
    return "" if predicted is None else f"{whole(predicted)}{' !' if row['inside'] is False else ''}"


def _fields(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in names]


def _success(row: Mapping[str, Any], share: float) -> str:
    """Return decoder and criterion in words."""
    told = {"exact": "all right", "share": f"{share:.4g} right", "top": f"{share:.4g} of the top 50"}[row["criterion"]]
    return ", ".join(filter(None, [row["decoder"], told]))
