"""The figure of an online sweep: a panel an axis, loss or epsilon with its bounds."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from coordinator.server.online.recommenders import found
from scenarios.sweep.drawing import Style, finished, lines, panels, ticks
from scenarios.sweep.online_axes import AXES
from scenarios.sweep.online_points import AGAINST, BOUND, EXACT, LOWER, MEASURED, OWN
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


def draw_axes(summary: Mapping[str, Any], points: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of points from `points_of`."""
    names = list(summary["axes"])
    every = panels(figure, len(names), across=2 if len(names) in (2, 4) else 3, size=(4.6, 4.3))
    for place, (axes, name) in enumerate(zip(every, names, strict=True)):
        rows = [row for row in summary["points"] if row["axis"] == name]
        mine = points[points["axis"] == name]
        lines(axes, mine, partial(_style, _hidden(mine)), name="recommender")
        ticks(axes, mine["x"])
        axes.set_yscale("log")
        told = "privacy loss [nats]" if AXES[name].epsilon else "disliked recommendations"
        finished(axes, f"({'abcdef'[place]}) {same(name, rows)}", xlabel=AXES[name].label, ylabel=told)
        axes.title.set_fontsize("small")
    _legend(figure, points)


def _style(hidden: Mapping[tuple[str, str], int], kind: str, recommender: str) -> Style:
    """Return the style of a line; a broad one shows below those that coincide with it."""
    style = {"color": colour_of(recommender), **_STYLES[kind]}
    above = hidden[kind, recommender]
    if above and kind in (MEASURED, AGAINST):
        style.update(linewidth=style["linewidth"] + 3 * above, alpha=0.5)
    return style


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
