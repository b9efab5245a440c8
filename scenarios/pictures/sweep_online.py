"""The picture of an online sweep: a panel an axis, loss or epsilon with its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from coordinator.server.online.recommenders import named_recommenders
from scenarios.pictures.drawing import Style, broad, covering, explained, finished, legend, lines, look, panels, ticks
from scenarios.pictures.online_points import AGAINST, BOUND, EXACT, LOWER, MEASURED, OWN, points_of
from scenarios.pictures.picture import Picture

_STYLES: dict[str, dict[str, Any]] = {
    MEASURED: {"linestyle": "-"},
    AGAINST: {"linestyle": "-", "linewidth": 0.7, "mfc": "white", "markersize": 5},
    BOUND: {"linestyle": "--", "linewidth": 1.0, "markersize": 3},
    EXACT: {"linestyle": "", "mfc": "none", "markersize": 8},
    LOWER: {"linestyle": "-.", "linewidth": 1.4, "marker": ""},
    OWN: {"linestyle": ":", "mfc": "white"},
}
_TOLD = {
    MEASURED: "measured, random environment",
    AGAINST: "measured, Theorem 6's adversary",
    BOUND: "proved upper bound",
    EXACT: "exact worst case (dynamic programme)",
    LOWER: "no algorithm below, Theorem 6's adversary",
    OWN: "epsilon at least that (chain of voters)",
}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield a panel an axis."""
    points = points_of(record)
    alt = "Loss or privacy loss of every recommender along each axis, beside proved bounds and exact worst cases."
    yield Picture("figure", "Loss and epsilon beside their bounds", alt, partial(draw_axes, record, points), points)


def draw_axes(summary: Mapping[str, Any], points: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of points from `points_of`."""
    names = list(summary["axes"])
    every = panels(figure, len(names), across=2 if len(names) in (2, 4) else 3, size=(4.6, 4.0))
    for place, (axes, name) in enumerate(zip(every, names, strict=True)):
        panel, mine = summary["panels"][name], points[points["axis"] == name]
        lines(axes, mine, partial(_style, covering(mine, "kind", "recommender", "y")), name="recommender")
        ticks(axes, mine["x"])
        axes.set_yscale("log")
        told = "privacy loss [nats]" if panel["epsilon"] else "disliked recommendations"
        finished(axes, f"({'abcdef'[place]}) {panel['same']}", xlabel=panel["x"], ylabel=told)
        axes.title.set_fontsize("small")
    _explain(figure, points)


def _style(covered: Mapping[tuple[str, str], int], kind: str, recommender: str) -> Style:
    style = {"linewidth": 1.2, **look_of(recommender), **_STYLES[kind]}
    return {**style, **broad(style["linewidth"], covered.get((kind, recommender), 0))}


def look_of(recommender: str) -> dict[str, Any]:
    """Return a recommender's look, by its place among all: the same in all pictures; black for what is about all."""
    names = list(named_recommenders())
    return look(names.index(recommender)) if recommender in names else {"color": "black"}


def _explain(figure: Figure, points: pd.DataFrame) -> None:
    """Explain looks and kinds once, below all panels."""
    panel, drawn = figure.axes[0], set(points["recommender"])
    for name in (name for name in named_recommenders() if name in drawn):
        panel.plot([], [], **look_of(name), linewidth=2, label=name)
    grey = {words: {**_STYLES[kind], "marker": "o" if kind != LOWER else ""} for kind, words in _TOLD.items()}
    explained(panel, grey, [_TOLD[kind] for kind in dict.fromkeys(points["kind"])])
    legend(figure)
