"""The figure of a sweep over users: U* against what varies, on log axes, with the bounds."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scenarios.sweep.curves import varied
from scenarios.sweep.drawing import POINTS, Style, explained, finished, lines, panels, ticks
from scenarios.sweep.grid import Grid

_NAMES = {"items": "items N", "rated": "rated items w", "epsilon": "epsilon [nats]"}
_SUCCESS = {
    "exact": "all labels right",
    "share": "{:.4g} of labels right",
    "top": "{:.4g} of the top 50 right",
}
_STYLES: dict[str, Style] = {
    "predicted": {"linestyle": ":", "marker": ".", "zorder": 1},
    "lower bound": {"linestyle": "-", "marker": ".", "zorder": 1},
    "lower bound, capacity": {"linestyle": "--", "marker": ".", "zorder": 1},
}


def draw_users(grid: Grid, points: pd.DataFrame, figure: Figure) -> None:
    """Draw all panels, one a name that varies and a criterion, into an empty figure.

    Parameters
    ----------
    grid : Grid
        What was measured.
    points : DataFrame
        From `scenarios.sweep.curves.curves`.
    figure : Figure
        Gets the size that the panels need.
    """
    names, criteria = varied(grid.settings), list(dict.fromkeys(points["criterion"]))
    pairs = [(criterion, name) for criterion in criteria for name in names]
    every = panels(figure, len(pairs), across=len(names))
    for axes, (criterion, name) in zip(every, pairs, strict=True):
        chosen = points[(points["axis"] == name) & (points["criterion"] == criterion)]
        _panel(axes, chosen, most=max(setting.users or 0 for setting in grid.settings))
        success = _SUCCESS[criterion].format(grid.share)
        finished(axes, f"{success}, half of the seeds", xlabel=_NAMES[name], ylabel="users U*")


def _panel(axes: Axes, points: pd.DataFrame, *, most: int) -> None:
    """Draw medians with intervals; where the median was not reached, a hollow triangle at the most users."""
    measured = points[points["kind"] == "measured"]
    colours = {label: f"C{place % 10}" for place, label in enumerate(dict.fromkeys(measured["label"]))}

    def style(kind: str, label: str) -> dict[str, Any]:
        if kind == "measured":
            return {**POINTS, "color": colours[label], "label": label}
        return {**_STYLES[kind], "color": colours.get(label, "grey")}

    axes.set_yscale("log")
    lines(axes, points[points["users"].notna()], style, y="users", top=most)
    for label, lost in measured[measured["users"].isna()].groupby("label", sort=False):
        axes.plot(lost["x"], [most] * len(lost), "^", mfc="none", color=colours[label], label=f"{label}, not reached")
    explained(axes, _STYLES, list(points["kind"]))
    ticks(axes, points["x"])
    axes.legend(fontsize="small")
