"""The figure of a sweep of results: a panel each column."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from scenarios.sweep.drawing import POINTS, Style, finished, lines, panels, ticks


def draw_columns(axis: str, columns: Mapping[str, str], points: pd.DataFrame, figure: Figure) -> None:
    """Draw every column, by its name and its words, against an axis, from `scenarios.sweep.results.points_of`."""
    labels = list(dict.fromkeys(points["label"]))

    def style(_: str, label: str) -> Style:
        return {**POINTS, "color": f"C{labels.index(label) % 10}", "label": label or None}

    names = [name for name in columns if (points["column"] == name).any()]
    for axes, name in zip(panels(figure, max(len(names), 1), size=(4.6, 3.9)), names, strict=False):
        mine = points[points["column"] == name]
        lines(axes, mine, style)
        ticks(axes, mine["x"], logarithmic=bool(mine["x"].max() > 4 * mine["x"].min() > 0))
        finished(axes, columns[name], xlabel=axis, ylabel=name)
        if any(labels):
            axes.legend(fontsize="small")
