"""The picture of a sweep over users: U* against what varies, on log axes, with the bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scenarios.pictures.drawing import (
    DARK,
    POINTS,
    Style,
    explained,
    finished,
    legend,
    lines,
    look,
    panels,
    setting_of,
    ticks,
)
from scenarios.pictures.picture import Picture

_NAMES = {"items": "items N", "rated": "rated items w", "epsilon": "epsilon [nats]"}
_SUCCESS = {
    "exact": "all labels right",
    "share": "{:.4g} of labels right",
    "top": "{:.4g} of the top 50 right",
}
_STYLES: dict[str, Style] = {
    "predicted": {"linestyle": ":", "marker": "", "zorder": 1.5},
    "lower bound": {"linestyle": "-", "color": "0.75", "linewidth": 4, "zorder": 1},
    "lower bound, capacity": {"linestyle": "--", "color": DARK, "linewidth": 1, "zorder": 1.2},
}
"""A broad line below a thin dashed one: both are seen where the capacity is the bound that binds."""


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:
    """Yield the picture of a folder, whose ``figure`` has the points; see `scenarios.sweep.users.curves`."""
    if "figure" not in tables:
        return
    points = tables["figure"]
    alt = (
        "Users at which half of the seeds succeed, with intervals, against what varies; beside predictions and bounds."
    )
    yield Picture("figure", "Users that it takes", alt, partial(draw_users, record, points), points)


def draw_users(record: Mapping[str, Any], points: pd.DataFrame, figure: Figure) -> None:
    """Draw all panels, one a name that varies and a criterion, into an empty figure."""
    names, criteria = (list(dict.fromkeys(points[column])) for column in ("axis", "criterion"))
    pairs = [(criterion, name) for criterion in criteria for name in names]
    every = panels(figure, len(pairs), across=max(len(names), min(len(pairs), 2)))
    measured = points.loc[points["kind"] == "measured", "label"]
    looks = {label: look(place) for place, label in enumerate(dict.fromkeys(measured))}
    for axes, (criterion, name) in zip(every, pairs, strict=True):
        chosen = points[(points["axis"] == name) & (points["criterion"] == criterion)]
        _panel(axes, chosen, looks, most=record["most_users"])
        success = _SUCCESS[criterion].format(record["share"])
        ticks(axes, chosen["x"])
        finished(axes, f"{success}, half of the seeds", xlabel=_NAMES[name], ylabel="users U*")
    same = {one: {str(row[one]): row[one] for row in record["settings"]} for one in ("items", "rated", "epsilon")}
    figure.suptitle(setting_of({name: next(iter(found.values())) for name, found in same.items() if len(found) == 1}))
    legend(figure)


def _panel(axes: Axes, points: pd.DataFrame, looks: Mapping[str, Style], *, most: int) -> None:
    """Draw medians with intervals; where the median was not reached, a hollow triangle at the most users."""
    measured = points[points["kind"] == "measured"]

    def style(kind: str, label: str) -> dict[str, Any]:
        if kind == "measured":
            return {**POINTS, **looks[label], "label": label}
        return {"color": looks.get(label, {}).get("color"), **_STYLES[kind]}

    axes.set_yscale("log")
    lines(axes, points[points["users"].notna()], style, y="users", top=most)
    for label, lost in measured[measured["users"].isna()].groupby("label", sort=False):
        how = {**looks[str(label)], "linestyle": "", "marker": "^", "mfc": "none"}
        axes.plot(lost["x"], [most] * len(lost), **how, label=f"{label}, not reached")
    explained(axes, _STYLES, list(points["kind"]))
