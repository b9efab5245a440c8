"""The points of a two-tier sweep's figures: every seed's, and means over seeds with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from scenarios.report.intervals import mean_interval
from scenarios.sweep.two_tier_units import ATTACK, SECOND, SETTINGS, Key, Measured

BASELINE = "items' means"


def points_of(found: Mapping[Key, Measured]) -> pd.DataFrame:
    """Return every seed's points: figure, curve, x, seed, rmse and the settings behind them."""
    rows: list[dict[str, Any]] = []
    for (figure, curve, place, seed), measured in found.items():
        settings = {name: getattr(measured, name) for name in ("rank", "kappa", "weight", "public")}
        if figure in (SETTINGS, ATTACK):
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
