"""The figures of a two-tier sweep: all curves of a figure in one picture, and what an attack tells."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scenarios.sweep.attack_tables import PANELS
from scenarios.sweep.drawing import POINTS, Style, finished, lines, panels
from scenarios.sweep.two_tier_summary import BASELINE
from scenarios.sweep.two_tier_units import LEFT, RIGHT, SECOND

_AXES = {
    LEFT: ("public users, those with most ratings first", "Figure 1, left: how many public users it takes"),
    RIGHT: ("training ratings of public users", "Figure 1, right: users with most ratings, or random ones"),
    SECOND: ("private devices that answered once", "Figure 2: what private devices add"),
}
_TOLD = {"most": "most ratings first", "random": "random users", "none": "public users only"}
NOTHING = "none"


def draw_curves(name: str, rows: pd.DataFrame, title: str, figure: Figure) -> None:
    """Draw a figure with every curve and its intervals, from the summary's rows."""
    places = {str(curve): place for place, curve in enumerate(dict.fromkeys(rows["curve"]))}

    def style(kind: str, curve: str) -> Style:  # noqa: ARG001 (all lines are of one kind)
        dashed = {"linestyle": "--"} if curve == BASELINE else {}
        told = _TOLD.get(curve, curve.replace(":", ", epsilon "))
        return {**POINTS, "color": f"C{places[curve] % 10}", "label": told, **dashed}

    (axes,) = panels(figure, 1, size=(8.5, 5))
    ends = rows.assign(kind="", low=rows["low"].fillna(rows["rmse"]), high=rows["high"].fillna(rows["rmse"]))
    lines(axes, ends.astype({"low": float, "high": float}), style, name="curve", y="rmse")
    words, heading = _AXES[name]
    if name != SECOND:
        axes.set_xscale("log")
    finished(axes, f"{heading} ({title})", xlabel=words, ylabel="RMSE of held-out ratings")
    figure.legend(fontsize="small", loc="outside right upper")


def draw_attack(points: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of guesses against known ratings, a line a mechanism; from `attack_table`."""
    every = panels(figure, len(PANELS), size=(4, 4.6))
    places = {known: place for place, known in enumerate(sorted(points["known"].unique()))}
    for axes, (name, words) in zip(every, PANELS.items(), strict=True):
        for place, (label, line) in enumerate(points.groupby("label", sort=False)):
            if line[name].isna().any():
                continue
            style: dict[str, Any] = {"color": "0.4", "linestyle": "--"} if label == NOTHING else {"color": f"C{place}"}
            axes.plot(line["known"].map(places), line[name].astype(float), marker="o", label=str(label), **style)
        axes.set_xticks(list(places.values()), [str(known) for known in places])
        axes.yaxis.set_major_locator(MaxNLocator(6))
        finished(axes, words, xlabel="ratings that the server knows")
    handles, labels = figure.axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize="small", loc="outside lower center", ncols=len(labels))
