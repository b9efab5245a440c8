"""The figure of an online sweep: a panel an axis, loss or epsilon with its bounds; and every drawn point as a table."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from coordinator.server.online.recommenders import found
from scenarios.files import write_figure, write_table
from scenarios.sweep.online_axes import AXES
from scenarios.sweep.online_points import AGAINST, BOUND, EXACT, LOWER, MEASURED, OWN, points_of
from scenarios.sweep.online_tables import same

_STYLES: dict[str, dict[str, Any]] = {
    MEASURED: {"linestyle": "-", "marker": "o", "markersize": 3.5, "linewidth": 1.2},
    AGAINST: {"linestyle": "-", "marker": "x", "markersize": 5, "linewidth": 0.7},
    BOUND: {"linestyle": "--", "linewidth": 1.0},
    EXACT: {"linestyle": "", "marker": "D", "markersize": 5.5, "mfc": "none"},
    LOWER: {"linestyle": "-.", "color": "black", "linewidth": 1.4},
    OWN: {"linestyle": ":", "marker": "^", "markersize": 4.5, "linewidth": 1.0},
}
_TOLD = {
    MEASURED: "measured, random environment",
    AGAINST: "measured, Theorem 6's adversary",
    BOUND: "proved upper bound",
    EXACT: "exact worst case (dynamic programme)",
    LOWER: "no algorithm below, Theorem 6's adversary",
    OWN: "epsilon at least that (constructed)",
}
_COLOURS = ("C0", "C1", "C2", "C3", "navy", "C5", "C6", "C4", "C8", "C9", "0.6")
_GOLDEN = (5**0.5 - 1) / 2


def draw(summary: Mapping[str, Any], out: Path) -> None:
    """Write ``figure.png`` and, with every point in it, ``figure.csv``."""
    points = points_of(summary)
    write_table(out / "figure.csv", points)
    write_figure(out / "figure.png", figure_of(summary, points), dpi=130)


def figure_of(summary: Mapping[str, Any], points: pd.DataFrame) -> Figure:
    """Return the figure of points from `points_of`."""
    names = list(summary["axes"])
    columns = min(len(names), 2 if len(names) in (2, 4) else 3)
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.9 * lines + 1.1), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for place, panel in enumerate(grid.flat):
        if place >= len(names):
            panel.axis("off")
            continue
        rows = [row for row in summary["points"] if row["axis"] == names[place]]
        _panel(panel, points[points["axis"] == names[place]], names[place])
        panel.set_title(f"({'abcdef'[place]}) {same(names[place], rows)}", fontsize="small")
    _legend(figure, points)
    return figure


def _panel(panel: Axes, points: pd.DataFrame, name: str) -> None:
    hidden = _hidden(points)
    for (kind, recommender), line in points.groupby(["kind", "recommender"], sort=False):
        ordered = line.sort_values("x")
        style = {"color": colour_of(str(recommender)), **_STYLES[str(kind)]}
        above = hidden[str(kind), str(recommender)]
        if above and kind in (MEASURED, AGAINST):  # a broad line shows below those that coincide with it
            style.update(linewidth=style["linewidth"] + 3 * above, alpha=0.5)
        if ordered["low"].notna().all():
            spans = np.abs(ordered[["low", "high"]].sub(ordered["y"], axis=0).to_numpy(np.float64).T)
            panel.errorbar(ordered["x"], ordered["y"], yerr=spans, capsize=2, elinewidth=1, **style)
        else:
            panel.plot(ordered["x"], ordered["y"], **style)
    ticks = np.unique(points["x"].to_numpy(np.float64))
    if (ticks == 0).any():
        panel.set_xscale("symlog", linthresh=float(ticks[ticks > 0].min(initial=np.inf)) if ticks.size > 1 else 1.0)
    else:
        panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.grid(alpha=0.3)
    panel.set(
        xlabel=AXES[name].label, ylabel="privacy loss [nats]" if AXES[name].epsilon else "disliked recommendations"
    )


def _hidden(points: pd.DataFrame) -> dict[tuple[str, str], int]:
    """Return for every line (kind, recommender) how many later ones of its kind coincide with it."""
    lines = {
        (str(kind), str(recommender)): line.sort_values("x")["y"].to_numpy(np.float64)
        for (kind, recommender), line in points.groupby(["kind", "recommender"], sort=False)
    }
    keys = list(lines)
    return {
        key: sum(other[0] == key[0] and np.array_equal(lines[other], lines[key]) for other in keys[place + 1 :])
        for place, key in enumerate(keys)
    }


def colour_of(recommender: str) -> str:
    """Return a recommender's colour, by its place among all: the same in all panels; black for what is about all.

    Beyond the colours that are named, hues go round by the golden section, so that there is one for any number.
    """
    if recommender not in found():
        return "black"
    place = list(found()).index(recommender)
    if place < len(_COLOURS):
        return _COLOURS[place]
    return to_hex(colorsys.hsv_to_rgb(place * _GOLDEN % 1, 0.75, 0.65))


def _legend(figure: Figure, points: pd.DataFrame) -> None:
    """Explain colours and kinds once, below all panels."""
    panel = figure.axes[0]
    drawn = set(points["recommender"])
    handles = [
        panel.plot([], [], color=colour_of(name), linewidth=3, label=name)[0] for name in found() if name in drawn
    ]
    kinds = dict.fromkeys(points["kind"])
    handles += [
        panel.plot([], [], **{"color": "0.3", **style}, label=_TOLD[kind])[0]
        for kind, style in _STYLES.items()
        if kind in kinds
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize="small", frameon=False)
