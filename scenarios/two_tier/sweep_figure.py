"""Tables and figures of a two-tier sweep: means over seeds with intervals, all curves of a figure in one picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from scenarios.files import write_figure
from scenarios.intervals import mean_interval
from scenarios.two_tier.sweep_units import LEFT, RIGHT, SECOND, SETTINGS, Key, Measured

_AXES = {
    LEFT: ("public users, those with most ratings first", "Figure 1, left: how many public users it takes"),
    RIGHT: ("training ratings of public users", "Figure 1, right: users with most ratings, or random ones"),
    SECOND: ("private devices that answered once", "Figure 2: what private devices add"),
}
_TOLD = {"most": "most ratings first", "random": "random users", "none": "public users only"}
BASELINE = "items' means"


def points_of(found: Mapping[Key, Measured]) -> pd.DataFrame:
    """Return every seed's points: figure, curve, x, seed, rmse and the settings behind them."""
    rows: list[dict[str, Any]] = []
    for (figure, curve, place, seed), measured in found.items():
        settings = {
            "rank": measured.rank,
            "kappa": measured.kappa,
            "weight": measured.weight,
            "public": measured.public,
        }
        if figure == SETTINGS:
            continue
        if figure == SECOND:
            rows += [
                {"figure": figure, "curve": curve, "x": x, "seed": seed, "rmse": error, **settings}
                for x, error in measured.points
            ]
            continue
        row = {"figure": figure, "x": place, "seed": seed, **settings}
        rows.append({**row, "curve": curve, "rmse": measured.points[-1][1]})
        if curve in ("uniform", "most"):
            rows.append({**row, "curve": BASELINE, "rmse": measured.baseline})
    return pd.DataFrame(rows)


def summary_of(points: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds with 95 % intervals; in Figure 2 also the paired gain over public users only."""
    rows = []
    for (figure, curve, x), group in points.groupby(["figure", "curve", "x"], sort=False):
        mean, low, high = mean_interval(group["rmse"].tolist())
        row = {"figure": figure, "curve": curve, "x": x, "seeds": len(group), "rmse": mean, "low": low, "high": high}
        if figure == SECOND:
            alone = points[(points["figure"] == SECOND) & (points["curve"] == "none") & (points["x"] == x)]
            paired = alone.set_index("seed")["rmse"] - group.set_index("seed")["rmse"]
            if len(paired := paired.dropna()):
                row["gain"], row["gain_low"], row["gain_high"] = mean_interval(paired.tolist())
        rows.append(row)
    return pd.DataFrame(rows)


def draw(summary: pd.DataFrame, title: str, out: Path) -> list[Path]:
    """Write ``figure-1-left.png`` and so on, each with every curve and its intervals; return the files."""
    written = []
    for name, group in summary.groupby("figure", sort=False):
        words, heading = _AXES[str(name)]
        figure = Figure(figsize=(8.5, 5), layout="constrained")
        axes = figure.subplots()
        for place, (curve, line) in enumerate(group.groupby("curve", sort=False)):
            ordered = line.sort_values("x")
            spans = [
                (ordered["rmse"] - ordered["low"]).astype(float).fillna(0),
                (ordered["high"] - ordered["rmse"]).astype(float).fillna(0),
            ]
            axes.errorbar(
                ordered["x"],
                ordered["rmse"],
                yerr=spans,
                label=_TOLD.get(str(curve), str(curve).replace(":", ", epsilon ")),
                marker="o",
                markersize=3.5,
                capsize=2,
                linewidth=1.2,
                color=f"C{place % 10}",
                linestyle="--" if curve == BASELINE else "-",
            )
        if name != SECOND:
            axes.set_xscale("log")
        axes.set(xlabel=words, ylabel="RMSE of held-out ratings")
        axes.set_title(f"{heading} ({title})", fontsize="medium")
        axes.grid(alpha=0.3)
        figure.legend(fontsize="small", loc="outside right upper")
        written.append(out / f"figure-{name}.png")
        write_figure(written[-1], figure)
    return written
