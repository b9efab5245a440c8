"""What a sweep's figure shows, as a table: measured medians, lower bounds, and predictions along each varied axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from coordinator.protocol.budget import as_float
from scenarios.given.config import Scenario
from scenarios.sweep.axes import TOP
from scenarios.sweep.grid import Grid, fields_of
from scenarios.sweep.threshold import adapts
from scenarios.theory.bounds import all_bounds, binding

AXES: dict[str, Callable[[Scenario], float]] = {
    "items": lambda setting: float(setting.items or 0),
    "rated": lambda setting: float(setting.rated or 0),
    "epsilon": lambda setting: as_float(setting.epsilon),
}


def varied(settings: Sequence[Scenario]) -> list[str]:
    """Return the axes that curves run along, none that goes in step with another; items where there is no curve."""
    chosen: list[str] = []
    for name, value in AXES.items():
        finite = [setting for setting in settings if math.isfinite(value(setting))]
        labels = [_label(setting, name, settings) for setting in finite]
        if len(set(labels)) < len(labels) and not any(_in_step(name, other, finite) for other in chosen):
            chosen.append(name)
    return chosen or ["items"]


def _in_step(name: str, other: str, settings: Sequence[Scenario]) -> bool:
    pairs = {(AXES[name](setting), AXES[other](setting)) for setting in settings}
    return len(pairs) == len({one for one, _ in pairs}) == len({two for _, two in pairs})


def _label(setting: Scenario, axis: str, settings: Sequence[Scenario]) -> str:
    """Return what tells a curve along ``axis`` from others: its design, and what else varies, but in step with it."""
    mine = fields_of(setting)
    every = [fields_of(one) for one in settings]
    rows = [row for row in every if row["design"] == mine["design"]]
    told = [str(mine["design"])]
    for name, value in mine.items():
        values, pairs = {row[name] for row in rows}, {(row[axis], row[name]) for row in rows}
        in_step = len(values) == len({row[axis] for row in rows}) == len(pairs)
        if name not in ("design", axis) and len({row[name] for row in every}) > 1 and not in_step:
            told.append(f"{name} {value}")
    return ", ".join(told)


def curves(grid: Grid, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return every point of the figure.

    Parameters
    ----------
    grid : Grid
        What was measured.
    rows : sequence of dict
        The summary's ``settings``, with what `scenarios.sweep.planned.add_plans` puts beside them.

    Returns
    -------
    DataFrame
        Columns: axis, criterion, kind ("measured", "predicted", "lower bound": the one that binds, "lower bound,
        capacity"), label (one a curve), x, users, low, high. Points that cannot be drawn are left out: epsilon
        infinity on its axis, bounds that say nothing; a median that was not reached is NaN.
    """
    points: list[dict[str, Any]] = []
    for axis in varied(grid.settings):
        for row in rows:
            setting = grid.settings[row["setting"]]
            x = AXES[axis](setting)
            if not math.isfinite(x):
                continue
            curve = _label(setting, axis, grid.settings)
            here = {"axis": axis, "criterion": row["criterion"], "x": x}
            label = f"{curve}, {row['decoder']}"
            measured = {name: math.nan if row[name] is None else row[name] for name in ("users", "low", "high")}
            points.append({**here, "kind": "measured", "label": label, **measured})
            predicted = row.get("predicted")
            if predicted is not None:
                points.append({**here, "kind": "predicted", "label": label, "users": predicted})
            for kind, users in _bounds(setting, row["criterion"], grid.share).items():
                points.append({**here, "kind": kind, "label": curve, "users": users})
    table = pd.DataFrame(points, columns=["axis", "criterion", "kind", "label", "x", "users", "low", "high"])
    table[["users", "low", "high"]] = table[["users", "low", "high"]].astype(float)
    drawn = (table["kind"] == "measured") | (table["users"] > 0)
    return table[drawn].drop_duplicates().reset_index(drop=True)


def _bounds(setting: Scenario, criterion: str, share: float) -> dict[str, float]:
    if not setting.half.bounded or criterion == TOP:  # bounds are about labels
        return {}
    items = setting.items or 0
    found = all_bounds(
        items=items,
        rated=setting.rated or 0,
        epsilon=as_float(setting.epsilon),
        clusters=setting.clusters or 0,
        mistakes=0 if criterion == "exact" else math.floor((1 - share) * items + 1e-9),
        adaptive_queries=adapts(setting),
    )
    best = None if setting.settings.rated_public else binding(found)  # others count on rated items being hidden
    capacity = next(bound.users for bound in found if bound.name == "capacity")
    return {"lower bound": best.users if best else 0.0, "lower bound, capacity": capacity}
