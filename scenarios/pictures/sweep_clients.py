"""The picture of an online sweep on real ratings: what is saved against random, and what is leaked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from coordinator.server.online.recommenders import compared_in, recommender_of
from scenarios.pictures.drawing import finished, legend, panels
from scenarios.pictures.picture import Picture
from scenarios.pictures.sweep_online import look_of

DIFFERENCE, EPSILON = "difference to random", "epsilon"
RATINGS = "ratings"
"""What recommenders are compared in that serve clients of a file."""
_KINDS = {"proved": "epsilon_proved", "run": "privacy_loss_of_peers"}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:
    """Yield what is saved; and where ``units`` are known what is leaked."""
    points = points_of(record, tables.get("units"))
    alt = "What each recommender saves against random lists, with intervals, and the share of clients by privacy loss."
    yield Picture("figure", "What is saved, and what is leaked", alt, partial(draw_clients, record, points), points)


def points_of(summary: Mapping[str, Any], units: pd.DataFrame | None) -> pd.DataFrame:
    """Return every point of the figure; of the result alone only differences."""
    points: list[dict[str, Any]] = []
    for row in summary["recommenders"]:
        x, low, high = (row[f"to_random_share{end}"] for end in ("", "_low", "_high"))
        ends = {"low": None if low is None else 100 * low, "high": None if high is None else 100 * high}
        own = {"panel": DIFFERENCE, "recommender": row["recommender"], "kind": "mean"}
        points.append({**own, "x": 100 * x, "y": -len(points), **ends})
    served = pd.DataFrame(columns=["recommender", *_KINDS.values()]) if units is None else units
    bounded = [name for name in compared_in(RATINGS) if recommender_of(name).bounded]
    for name, kind in itertools.product(bounded, _KINDS):
        values = served.loc[served["recommender"] == name, _KINDS[kind]].to_numpy(np.float64)
        every = np.sort(values[np.isfinite(values) & (values > 0)])
        shares = (np.arange(every.size) + 1 + values.size - every.size) / max(values.size, 1)
        own = {"panel": EPSILON, "recommender": name, "kind": kind}
        points += [{**own, "x": float(x), "y": float(y)} for x, y in zip(every, shares, strict=True)]
    return pd.DataFrame(points, columns=["panel", "recommender", "kind", "x", "y", "low", "high"]).astype(
        dict.fromkeys(("x", "y", "low", "high"), float)
    )


def draw_clients(summary: Mapping[str, Any], points: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of points from `points_of`."""
    lines = points[points["panel"] == EPSILON]
    left, *others = panels(figure, 2 if len(lines) else 1, size=(6, 4.0))
    for _, row in points[points["panel"] == DIFFERENCE].iterrows():
        span = None if np.isnan(row["low"]) else [[row["x"] - row["low"]], [row["high"] - row["x"]]]
        left.errorbar([row["x"]], [row["y"]], xerr=span, linestyle="", **look_of(row["recommender"]))
    names = [row["recommender"] for row in summary["recommenders"]]
    left.axvline(0, color="0.5", linewidth=1)
    left.set_yticks([-float(place) for place in range(len(names))], names)
    told = f"{summary['distinct_clients']} clients, paired, 95 % intervals"
    finished(left, told, xlabel="loss less random's expected loss [% of rounds]")
    drawn = list(dict.fromkeys(lines["recommender"]))
    for right in others:
        for (name, kind), line in lines.groupby(["recommender", "kind"], sort=False):
            told = f"{name}, {'epsilon as proved' if kind == 'proved' else 'exact loss in the run'}"
            how: dict[str, Any] = {
                "linestyle": "--" if kind == "proved" else "-",
                "drawstyle": "steps-post",
                "markevery": [-1],
            }
            how["linewidth"] = 1.3 + 1.3 * (len(drawn) - 1 - drawn.index(name))  # is seen below those that cover it
            right.plot(line["x"], line["y"], **how, **look_of(str(name)), label=told)
        right.set_xscale("log")
        finished(right, "", xlabel="privacy loss [nats]", ylabel="share of clients with at most that")
        legend(figure)
