"""The points of an online sweep's figure: what was measured at every value of an axis, and every bound beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from coordinator.server.online.recommenders import recommender_of

MEASURED, AGAINST, BOUND, EXACT = "measured", "measured, halving", "upper bound", "exact worst case"
HALVING = "halving"
"""The environment of Theorem 6's adversary, as rows of a record name it."""
LOWER, OWN = "lower bound, any algorithm", "lower bound, itself"
_COLUMNS = ("axis", "kind", "recommender", "x", "y", "low", "high")


def points_of(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return every point of the figure."""
    points: list[dict[str, Any]] = []
    for row in summary["points"]:
        if not recommender_of(row["recommender"]).in_figures:
            continue
        points += _leaks(row) if summary["panels"][row["axis"]]["epsilon"] else _losses(row)
    table = pd.DataFrame(points, columns=list(_COLUMNS)).drop_duplicates(ignore_index=True)
    table = table.astype(dict.fromkeys(("x", "y", "low", "high"), float))
    drawn: pd.DataFrame = table[np.isfinite(table["y"]) & (table["y"] > 0)]
    return drawn.reset_index(drop=True)


def _losses(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    own = {"axis": row["axis"], "x": row["x"], "recommender": row["recommender"]}
    bound = row["loss_bound"] if recommender_of(row["recommender"]).bound_in_figures else None
    measured = AGAINST if row["environment"] == HALVING else MEASURED
    return [
        {**own, "kind": measured, "y": row["loss"], "low": row["loss_low"], "high": row["loss_high"]},
        {**own, "kind": BOUND, "y": bound},
        {**own, "kind": EXACT, "y": row["loss_exact"]},
        {**own, "kind": LOWER, "recommender": "", "y": row["loss_lower_bound"]},
    ]


def _leaks(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    own = {"axis": row["axis"], "x": row["x"], "recommender": row["recommender"]}
    return [
        {**own, "kind": MEASURED, "y": row["privacy_loss"]},
        {**own, "kind": BOUND, "y": row["epsilon_proved"]},
        {**own, "kind": EXACT, "y": row["epsilon_exact"]},
        {**own, "kind": OWN, "y": row["epsilon_lower"]},
    ]
