"""The figure of a sweep: U* against what varies, on log axes, with the bounds; and every drawn point as a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scenarios.files import write_figure, write_table
from scenarios.sweep.curves import curves, panels
from scenarios.sweep.grid import Grid

_NAMES = {"items": "items N", "rated": "rated items w", "epsilon": "epsilon [nats]"}
_SUCCESS = {
    "exact": "all labels right",
    "share": "{:.4g} of labels right",
    "top": "{:.4g} of the top 50 right",
}
_STYLES = {"predicted": ":", "lower bound": "-", "lower bound, capacity": "--"}


def draw(grid: Grid, summary: Mapping[str, Any], out: Path) -> None:
    """Write ``figure.png`` and, with every point in it, ``figure.csv``.

    Parameters
    ----------
    grid : Grid
        What was measured.
    summary : dict
        From `scenarios.sweep.summary.summarize`.
    out : Path
        Folder.
    """
    points = curves(grid, summary["settings"])
    write_table(out / "figure.csv", points)
    figure = Figure()
    fill(figure, grid, points)
    write_figure(out / "figure.png", figure)


def fill(figure: Figure, grid: Grid, points: pd.DataFrame) -> list[Axes]:
    """Draw all panels: one a name that varies and a criterion.

    Parameters
    ----------
    figure : Figure
        Empty; it gets the size that the panels need.
    grid : Grid
        What was measured.
    points : DataFrame
        From `scenarios.sweep.curves.curves`.

    Returns
    -------
    list of Axes
        Row by row.
    """
    names, criteria = panels(grid.settings), list(dict.fromkeys(points["criterion"]))
    figure.set_size_inches(6.4 * len(names), 4.8 * len(criteria))
    figure.set_layout_engine("constrained")
    grid_of_axes = figure.subplots(len(criteria), len(names), squeeze=False)
    for row, criterion in enumerate(criteria):
        for column, name in enumerate(names):
            axes = grid_of_axes[row, column]
            chosen = points[(points["axis"] == name) & (points["criterion"] == criterion)]
            _panel(axes, chosen, most=max(setting.users or 0 for setting in grid.settings))
            success = _SUCCESS[criterion].format(grid.share)
            axes.set(xlabel=_NAMES[name], ylabel="users U*", title=f"{success}, half of the seeds")
    return [axes for row in grid_of_axes for axes in row]


def _panel(axes: Axes, points: pd.DataFrame, *, most: int) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    colours = {label: f"C{place % 10}" for place, label in enumerate(dict.fromkeys(_measured(points)["label"]))}
    for (kind, label), line in points.groupby(["kind", "label"], sort=False):
        ordered = line.sort_values("x")
        if kind == "measured":
            _points(axes, ordered, str(label), colours[str(label)], most)
        else:
            colour = colours.get(str(label), "grey")
            axes.plot(ordered["x"], ordered["users"], _STYLES[str(kind)], color=colour, marker=".", zorder=1)
    for kind in dict.fromkeys(points.loc[points["kind"] != "measured", "kind"]):
        axes.plot([], [], _STYLES[str(kind)], color="grey", label=str(kind))
    ticks = np.unique(points["x"].to_numpy(dtype=np.float64))
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _measured(points: pd.DataFrame) -> pd.DataFrame:
    return points[points["kind"] == "measured"]


def _points(axes: Axes, line: pd.DataFrame, label: str, colour: str, most: int) -> None:
    """Draw medians with intervals; where the median was not reached, a hollow triangle at the most users."""
    reached = line[line["users"].notna()]
    high = reached["high"].fillna(most)
    spans = np.array([reached["users"] - reached["low"], high - reached["users"]], dtype=np.float64)
    style: dict[str, Any] = {"color": colour, "capsize": 3, "marker": "o", "markersize": 4, "linewidth": 1}
    axes.errorbar(reached["x"], reached["users"], yerr=spans, label=label, **style)
    lost = line[line["users"].isna()]
    if len(lost):
        axes.plot(lost["x"], [most] * len(lost), "^", mfc="none", color=colour, label=f"{label}, not reached")
