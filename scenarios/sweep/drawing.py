"""One style for the figures of all sweeps: lines with intervals, open ends, axes with a tick at every value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coordinator.protocol.arrays import Floats

Style = Mapping[str, Any]
"""Keywords of the plotting library for a line."""
POINTS: Style = {"linestyle": "-", "marker": "o", "markersize": 4, "linewidth": 1.2}


def panels(figure: Figure, count: int, *, across: int = 3, size: tuple[float, float] = (6.4, 4.8)) -> list[Axes]:
    """Give an empty figure so many panels of a size, and return them row by row."""
    columns = min(count, across)
    rows = -(-count // columns)
    figure.set_size_inches(size[0] * columns, size[1] * rows)
    figure.set_layout_engine("constrained")
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in every[count:]:
        unused.axis("off")
    return every[:count]


def lines(
    axes: Axes,
    points: pd.DataFrame,
    style: Callable[[str, str], Style],
    *,
    name: str = "label",
    x: str = "x",
    y: str = "y",
    top: float = math.nan,
) -> None:
    """Draw every line of a table of points.

    Parameters
    ----------
    axes : Axes
    points : DataFrame
        Columns: kind, that of the lines' names, x and y, and the intervals' ends low and high, NaN where open.
    style : callable
        Takes a line's kind and name; returns the keywords of its style, with ``label`` for the legend.
    name, x, y : str
        The columns.
    top : float
        Where a bar ends whose upper end is open; NaN: an arrow stands there instead.
    """
    for (kind, label), line in points.groupby(["kind", name], sort=False):
        ordered = line.sort_values(x)
        how = dict(style(str(kind), str(label)))
        if not ordered[["low", "high"]].notna().to_numpy().any():
            axes.plot(ordered[x], ordered[y], **how)
            continue
        height, low = (ordered[column].to_numpy(dtype=np.float64) for column in (y, "low"))
        high = ordered["high"].fillna(top).to_numpy(dtype=np.float64)
        spans = np.abs(np.nan_to_num(np.array([height - low, high - height]), nan=0.0))
        axes.errorbar(ordered[x], height, yerr=spans, capsize=2.5, elinewidth=1, **how)
        opened = np.isnan(high) & np.isfinite(low)
        axes.plot(ordered[x][opened], 1.12 * height[opened], "^", color=how.get("color"), markersize=4)


def ticks(axes: Axes, values: Floats | pd.Series[float], *, logarithmic: bool = True) -> None:
    """Put a tick at every value of x, on a logarithmic axis; one that holds 0 is linear up to the next value."""
    every = np.unique(np.asarray(values, dtype=np.float64))
    if logarithmic and (every == 0).any():
        axes.set_xscale("symlog", linthresh=float(every[every > 0].min()) if every.size > 1 else 1.0)
    elif logarithmic:
        axes.set_xscale("log")
    axes.set_xticks(every, [f"{value:g}" for value in every])
    axes.xaxis.minorticks_off()


def finished(axes: Axes, title: str, **words: Any) -> None:
    """Give a panel its title, its words and its grid."""
    axes.set(**words)
    axes.set_title(title, fontsize="medium")
    axes.grid(alpha=0.3)


def explained(axes: Axes, styles: Mapping[str, Style], drawn: Sequence[str]) -> None:
    """Explain kinds of lines in the legend, in grey, where they are drawn."""
    for words, style in styles.items():
        if words in drawn:
            axes.plot([], [], **{"color": "0.3", **style}, label=words)
