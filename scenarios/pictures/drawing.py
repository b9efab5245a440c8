"""What pictures are made of: panels, lines with intervals, axes with a tick at every value, legends beside the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from coordinator.protocol.arrays import Floats
from scenarios.pictures.style import DARK, Style

POINTS: Style = {"linestyle": "-"}
"""How what was measured is drawn, beside its look."""
_CAP = 5.0
"""Points between two intervals that would lie on each other."""
_LINE = 0.04
"""Of the height of a panel that a line of small text needs."""
_LETTER, _HANDLE = 4.4, 42.0
"""Points that a letter of a legend takes, and what stands before its words."""


def panels(figure: Figure, count: int, *, across: int = 3, size: tuple[float, float] = (6.4, 4.4)) -> list[Axes]:
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
    """Draw every line of a table of points; lines whose intervals would lie on each other stand side by side.

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
    shifts = _shifts(points, name, x, top)
    for (kind, label), line in points.groupby(["kind", name], sort=False):
        ordered = line.sort_values(x)
        how = dict(style(str(kind), str(label)))
        if not ordered[["low", "high"]].notna().to_numpy().any():
            axes.plot(ordered[x], ordered[y], **how)
            continue
        height, low = (ordered[column].to_numpy(dtype=np.float64) for column in (y, "low"))
        high = ordered["high"].fillna(top).to_numpy(dtype=np.float64)
        spans = np.abs(np.nan_to_num(np.array([height - low, high - height]), nan=0.0))
        drawn = axes.errorbar(ordered[x], height, yerr=spans, elinewidth=1, **how).get_children()
        opened = np.isnan(high) & np.isfinite(low)
        arrow: dict[str, Any] = {"marker": "^", "color": how.get("color"), "markersize": 4, "linestyle": ""}
        drawn += axes.plot(ordered[x][opened], 1.12 * height[opened], **arrow)
        shift(drawn, axes, x=shifts[str(kind), str(label)])


def shift(drawn: Iterable[Artist], axes: Axes, *, x: float = 0.0, y: float = 0.0) -> None:
    """Move what is drawn aside [points], so that marks at the same place do not hide each other; limits stay."""
    aside = offset_copy(axes.transData, fig=axes.get_figure(root=True), x=x, y=y, units="points")
    for artist in drawn:
        artist.set_transform(aside)


def _shifts(points: pd.DataFrame, name: str, x: str, top: float) -> dict[tuple[str, str], float]:
    """Return how far every line stands from its place [points]: 0 for all, unless intervals would lie on each other."""
    barred = points[points[["low", "high"]].notna().any(axis=1)]
    keys = [(str(kind), str(label)) for kind, label in barred[["kind", name]].drop_duplicates().itertuples(index=False)]
    low, high = barred["low"].fillna(-math.inf), barred["high"].fillna(math.inf if math.isnan(top) else top)
    crowded = any(
        len(here) > 1 and bool((ends["low"].iloc[1:].to_numpy() <= ends["high"].cummax().iloc[:-1].to_numpy()).any())
        for _, here in barred.assign(low=low, high=high).groupby(x)
        for ends in [here.sort_values("low")]
    )
    middle = (len(keys) - 1) / 2
    return {key: crowded * _CAP * (place - middle) for place, key in enumerate(keys)}


def ticks(axes: Axes, values: Floats | pd.Series[float], *, logarithmic: bool = True) -> None:
    """Put a tick at every value of x, on a logarithmic axis; one that holds 0 is linear up to the next value."""
    every = np.unique(np.asarray(values, dtype=np.float64))
    if logarithmic and (every == 0).any():
        axes.set_xscale("symlog", linthresh=float(every[every > 0].min()) if every.size > 1 else 1.0)
    elif logarithmic:
        axes.set_xscale("log")
    axes.set_xticks(every, [f"{value:,.10g}" for value in every])
    axes.xaxis.minorticks_off()


def finished(axes: Axes, title: str, **words: Any) -> None:
    """Give a panel its title and the words of its axes."""
    axes.set(**words)
    axes.set_title(title)


def explained(axes: Axes, styles: Mapping[str, Style], drawn: Sequence[str]) -> None:
    """Explain kinds of lines in the legend, in grey, where they are drawn."""
    for words, style in styles.items():
        if words in drawn:
            axes.plot([], [], **{"color": DARK, **style}, label=words)


def beside(axes: Axes, named: Mapping[str, float]) -> None:
    """Write words at heights on the right of a panel whose limits are set, as far apart as lines of text need."""
    low, high = axes.get_ylim()
    free = low
    for words, height in sorted(named.items(), key=lambda one: one[1]):
        free = max(height, free)
        axes.annotate(words, (1.01, free), xycoords=("axes fraction", "data"), fontsize=7, va="center", color=DARK)
        free += (high - low) * _LINE


def legend(figure: Figure) -> None:
    """Explain everything that is named in any panel, once, below all of them."""
    named = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in reversed(named)}
    if handles:
        labels = list(reversed(handles))
        widest = _HANDLE + _LETTER * max(map(len, labels))
        columns = max(1, min(len(labels), int(72 * figure.get_figwidth() / widest)))
        figure.legend([handles[one] for one in labels], labels, loc="outside lower center", ncols=columns)
