"""The pictures of a two-tier sweep: all curves of a figure in one picture, and what an attack tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scenarios.pictures.drawing import DARK, POINTS, Style, finished, legend, lines, look, panels
from scenarios.pictures.picture import Picture
from scenarios.report.attack_tables import PANELS, attack_table

_SECOND, _BASELINE, _NOTHING = "2", "items' means", "none"
_AXES = {
    "1-left": ("public users, those with most ratings first", "Figure 1, left: how many public users it takes"),
    "1-right": ("training ratings of public users", "Figure 1, right: users with most ratings, or random ones"),
    _SECOND: ("private devices that answered once", "Figure 2: what private devices add"),
}
_TOLD = {"most": "most ratings first", "random": "random users", _NOTHING: "public users only"}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield the paper's figures, whose points stand in the summary, and the attack."""
    base, summary = record["base"], pd.DataFrame(record["summary"])
    title = PurePath(base["ratings"]).name if base["ratings"] else "planted {:,} x {:,}".format(*base["planted"][:2])
    for name, rows in summary.groupby("figure", sort=False) if len(summary) else ():
        alt = f"Errors of held-out ratings with intervals, a line for each curve, against {_AXES[str(name)][0]}."
        draw = partial(draw_curves, str(name), rows, title)
        yield Picture(f"figure-{name}", _AXES[str(name)][1], alt, draw)
    if record["attack"]:
        attacked = attack_table(record["attack"])
        alt = "How well a server guesses a rating from one release, against the ratings that it knows already."
        yield Picture("attack", "What one release tells", alt, partial(draw_attack, attacked), attacked)


def draw_curves(name: str, rows: pd.DataFrame, title: str, figure: Figure) -> None:
    """Draw a figure with every curve and its intervals, from the summary's rows."""
    places = {str(curve): place for place, curve in enumerate(dict.fromkeys(rows["curve"]))}

    def style(kind: str, curve: str) -> Style:  # noqa: ARG001 (all lines are of one kind)
        dashed = {"linestyle": "--"} if curve == _BASELINE else {}
        told = _TOLD.get(curve, curve.replace(":", ", epsilon "))
        return {**POINTS, **look(places[curve]), "label": told, **dashed}

    (axes,) = panels(figure, 1, size=(8, 5.2))
    ends = rows.assign(kind="", low=rows["low"].fillna(rows["rmse"]), high=rows["high"].fillna(rows["rmse"]))
    lines(axes, ends.astype({"low": float, "high": float}), style, name="curve", y="rmse")
    words, heading = _AXES[name]
    if name != _SECOND:
        axes.set_xscale("log")
    finished(axes, f"{heading} ({title})", xlabel=words, ylabel="RMSE of held-out ratings [rating points]")
    legend(figure)


def draw_attack(points: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of guesses against known ratings, a line a mechanism; from `attack_table`."""
    every = panels(figure, len(PANELS), size=(4, 4.2))
    places = {known: place for place, known in enumerate(sorted(points["known"].unique()))}
    for axes, (name, words) in zip(every, PANELS.items(), strict=True):
        for place, (label, line) in enumerate(points.groupby("label", sort=False)):
            if line[name].isna().any():
                continue
            style = {"color": DARK, "linestyle": "--"} if label == _NOTHING else look(place)
            axes.plot(line["known"].map(places), line[name].astype(float), label=str(label), **style)
        axes.set_xticks(list(places.values()), [str(known) for known in places])
        axes.yaxis.set_major_locator(MaxNLocator(6))
        finished(axes, words, xlabel="ratings that the server knows", ylabel=_UNITS[name])
    legend(figure)


_UNITS = {"flip_found": "share of releases", "like_right": "share of guesses", "rmse": "RMSE [rating points]"}
