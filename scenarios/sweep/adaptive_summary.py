"""The summary of an adaptive sweep: users of every scheme with intervals, ratios, predictions and lower bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from coordinator.protocol.budget import as_float
from scenarios.report.intervals import (
    CONFIDENCE,
    Interval,
    mean_interval,
    named,
    quantile_interval,
    ratio_interval,
    share_interval,
)
from scenarios.sweep.adaptive_measure import Key, Measured
from scenarios.sweep.adaptive_settings import Comparison
from scenarios.sweep.schemes import BASE, SCHEMES
from scenarios.theory.bounds import all_bounds, binding

Units = Mapping[Key, Measured]
NOTHING: Interval = (None, None, None)
PREFERRED = (BASE, "adaptive-vectors", "adaptive-maxsense")
"""Schemes whose run the trajectory may be of; the first of them that there is."""


def summarize(wanted: Comparison, units: Units) -> dict[str, Any]:
    """Return what `--json` prints.

    Returns
    -------
    dict
        What was asked for; ``schemes``: a row a catalogue and scheme; ``bounds``: a row a catalogue, for any learner,
        and one more for those that ask everybody at once where that says more; ``trajectory`` of one adaptive run,
        None where there is none.

    Notes
    -----
    ``users`` with ``low`` and ``high`` is the mean over seeds of the users that an adaptive run asked, with Student's
    interval; of one round the quantile of thresholds at the confidence, with an interval of order statistics. Ends are
    None where there are too few seeds. ``right`` is an adaptive scheme's share of seeds with all labels right,
    ``ran_out`` the number of seeds whose users were not enough, ``predicted`` what exact moments say. Ratios are to
    adaptive sign sensing; see `intervals.ratio_interval`.
    """
    rows: list[dict[str, Any]] = []
    for items in wanted.items:
        found = {name: _of(units, name, items) for name in wanted.schemes}
        users = {name: _users(wanted, name, every) for name, every in found.items()}
        base = users.get(BASE, NOTHING)
        rows += [_row(wanted, name, items, found[name], users[name], base) for name in wanted.schemes]
    asked = {**wanted.content(), "items": list(wanted.items), "seeds": wanted.seeds, "interval": CONFIDENCE}
    bounds = [row for items in wanted.items for row in _bounds(wanted, items)]
    return {**asked, "schemes": rows, "bounds": bounds, "trajectory": _trajectory(wanted, units)}


def _of(units: Units, name: str, items: int) -> list[Measured]:
    return [one for key, one in units.items() if key[:2] == (name, items)]


def _users(wanted: Comparison, name: str, every: Sequence[Measured]) -> Interval:
    if not every:
        return NOTHING
    values = [math.nan if one.users is None else float(one.users) for one in every]
    if SCHEMES[name].adaptive:
        return mean_interval(values)
    return quantile_interval(values, wanted.confidence)


def _row(
    wanted: Comparison, name: str, items: int, every: Sequence[Measured], users: Interval, base: Interval
) -> dict[str, Any]:
    scheme, setting = SCHEMES[name], wanted.scenario(name, items)
    predicted = None if scheme.adaptive else wanted.planned(name, items)
    ratio = (1.0, 1.0, 1.0) if name == BASE and every else ratio_interval(users, base)
    right: Interval = NOTHING
    if scheme.adaptive and every:
        right = share_interval(sum(bool(one.right) for one in every), len(every))
    return {
        "items": items,
        "rated": setting.rated,
        "scheme": name,
        "label": wanted.label(name),
        "adaptive": scheme.adaptive,
        "seeds": len(every),
        "users": users[0],
        "low": users[1],
        "high": users[2],
        **named(right, "right"),
        "rounds": sum(one.rounds for one in every) / len(every) if every else None,
        "most_rounds": max((one.rounds for one in every), default=None),
        "ran_out": sum(one.users is None or one.undecided > 0 for one in every),
        "predicted": predicted,
        **named(ratio, "ratio"),
        **named(ratio_interval((predicted, predicted, predicted), base), "ratio_predicted"),
    }


def _bounds(wanted: Comparison, items: int) -> list[dict[str, Any]]:
    """Return the lower bounds that bind on those who learn all labels with the chance asked for."""
    one = wanted.scenario(wanted.schemes[0], items)

    def bound(*, adaptive: bool) -> dict[str, Any]:
        found = all_bounds(
            items=items,
            rated=one.rated or 0,
            epsilon=as_float(one.epsilon),
            clusters=one.clusters or 0,
            failure=1 - wanted.confidence,
            adaptive_queries=adaptive,
        )
        best = binding(found)
        told = {"name": best.name, "users": best.users} if best else {"name": None, "users": None}
        return {"items": items, "adaptive": adaptive, **told}

    everybody, at_once = bound(adaptive=True), bound(adaptive=False)
    return [everybody] if everybody["users"] == at_once["users"] else [everybody, at_once]


def _trajectory(wanted: Comparison, units: Units) -> dict[str, Any] | None:
    """Return seed 0's run in the largest catalogue, of adaptive sign sensing if it ran, with where it stood."""
    items = max(wanted.items)
    for name in PREFERRED:
        one = units.get(Key(name, items, 0))
        if one is not None and one.steps:
            told = [asdict(step) for step in one.steps]
            return {"scheme": name, "label": wanted.label(name), "items": items, "seed": 0, "steps": told}
    return None


def whom(row: Mapping[str, Any]) -> str:
    """Return what a lower bound is called, and about whom it is."""
    told = f" ({row['name']})" if row["name"] else ""
    return f"lower bound, {'any protocol' if row['adaptive'] else 'one round'}{told}"


def rows_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return the one table of the sweep: schemes, then lower bounds, one row each a catalogue; NaN: not known."""
    shown = ("items", "adaptive", "users")
    bounds = [
        {"scheme": "lower bound", "label": whom(row), **{name: row[name] for name in shown}}
        for row in summary["bounds"]
    ]
    table = pd.DataFrame([*summary["schemes"], *bounds])
    return table.sort_values("items", kind="stable", ignore_index=True).convert_dtypes()
