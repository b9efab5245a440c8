"""The figures of an adaptive sweep: users against items, and one run's course."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from scenarios.sweep.adaptive_summary import ANY, MEASURED, PREDICTED
from scenarios.sweep.drawing import POINTS, Style, explained, finished, lines, panels, ticks

_PLANNED: Style = {"linestyle": ":", "marker": "x", "markersize": 5, "linewidth": 1}
_COURSE = {"pool": "items in the round's pool", "undecided": "items undecided", "wrong": "labels in error"}


def draw_users(summary: Mapping[str, Any], points: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of users; see `scenarios.sweep.adaptive_summary.points_of`."""
    (axes,) = panels(figure, 1, size=(10, 5.6))
    labels = dict.fromkeys(row["label"] for row in summary["schemes"])
    colours = {label: f"C{place}" for place, label in enumerate(labels)}
    measured = set(points.loc[points["kind"] == MEASURED, "label"])

    def style(kind: str, label: str) -> Style:
        if kind == MEASURED:
            return {**POINTS, "color": colours[label], "label": label}
        if kind == PREDICTED:
            alone = None if label in measured else f"{label}, from exact moments"
            return {**_PLANNED, "color": colours[label], "label": alone}
        grey = "0.2" if label == ANY else "0.6"
        return {"linestyle": "--", "color": grey, "marker": ".", "label": f"lower bound, {label}", "zorder": 1}

    axes.set_yscale("log")
    lines(axes, points, style, x="items", y="users")
    if (points["kind"] == PREDICTED).any():
        explained(axes, {"one round, from exact moments": _PLANNED}, ["one round, from exact moments"])
    ticks(axes, points["items"])
    axes.set_xlim(points["items"].min() / 1.2, points["items"].max() * 1.2)
    told = f"all labels right with probability {summary['confidence']:g}"
    told += f", w = {summary['rated']}, epsilon {float(summary['epsilon']):g}"
    finished(axes, told, xlabel="items N", ylabel="users")
    figure.legend(fontsize="small", loc="outside right upper")


def draw_course(trajectory: Mapping[str, Any], steps: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of a trajectory's steps."""
    (axes,) = panels(figure, 1, size=(8, 4.8))
    for place, (name, told) in enumerate(_COURSE.items()):
        axes.plot(steps["users"], steps[name], marker=".", label=told, color=f"C{place}")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    title = f"one run of {trajectory['label']}, {trajectory['items']:,} items, round by round"
    finished(axes, title, xlabel="users asked", ylabel="items")
    axes.legend(fontsize="small")
