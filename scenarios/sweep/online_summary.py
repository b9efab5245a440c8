"""The summary of an online sweep: loss and privacy loss at every point, with intervals, beside their bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from coordinator.server.online.recommenders import recommender_of
from scenarios.online.loss_bounds import loss_bound, loss_lower_bound
from scenarios.online.loss_worst_case import worst_loss_sim
from scenarios.online.privacy_bounds import epsilon_proved
from scenarios.online.privacy_lower_bounds import epsilon_needed, own_lower_bound
from scenarios.online.sim_worst_case import epsilon_exact
from scenarios.report.intervals import CONFIDENCE, mean_interval, named, standard_error
from scenarios.sweep.online_axes import AXES, HALVING, RANDOM, OnlineSetting, same
from scenarios.sweep.online_settings import OnlineGrid, Point
from scenarios.sweep.online_units import Key, Measured

MOST_STEPS = 2e9
"""Steps of the exact loss' dynamic programme: seconds."""


def summarize(wanted: OnlineGrid, units: Mapping[Key, Measured]) -> dict[str, Any]:
    """Return what `--json` prints.

    Returns
    -------
    dict
        What was asked for; ``panels``: what each axis shows; ``points``: a row for every axis, value and recommender.
        None: not known, or not proved; "inf": no finite number.

    Notes
    -----
    ``loss`` is the mean over seeds, ``loss_se`` its standard error, ``low`` and ``high`` Student's interval.
    ``loss_bound`` is (L) or what is sharper, ``loss_exact`` the worst case over all worlds, ``loss_lower_bound`` what
    the adversary of Theorem 6 costs any algorithm. ``epsilon_exact`` is exact from N rounds on and an upper bound
    before (``exact_is_bound``); ``epsilon_lower`` is what p-REC's own chain of voters leaks at least;
    ``epsilon_needed`` is what any algorithm needs whose loss is at most ``loss_bound`` (Theorems 7 and 15).
    ``privacy_loss`` is the mean over runs, with ``privacy_loss_most``; ``peers_alive`` the mean,
    ``peers_kicked`` the sum.
    """
    rows = [_row(point, _of(units, point)) for point in wanted.points]
    asked = {"axes": {name: list(values) for name, values in wanted.axes.items()}, "seeds": wanted.seeds}
    panels = {name: _panel(name, [row for row in rows if row["axis"] == name]) for name in wanted.axes}
    return {**wanted.content(), **asked, "interval": CONFIDENCE, "panels": panels, "points": rows}


def _panel(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what an axis is called, what its points share, and whether epsilon is shown, not the loss."""
    return {"x": AXES[name].label, "same": same(name, rows), "epsilon": AXES[name].epsilon}


def _of(units: Mapping[Key, Measured], point: Point) -> list[Measured]:
    return [one for key, one in units.items() if key[:-1] == (point.recommender, *point.setting)]


def _row(point: Point, every: Sequence[Measured]) -> dict[str, Any]:
    losses = [one.loss for one in every]
    leaks = np.array([one.privacy_loss for one in every])
    return {
        "axis": point.axis,
        "x": point.x,
        "recommender": point.recommender,
        **point.setting._asdict(),
        "seeds": len(every),
        **named(mean_interval(losses), "loss"),
        "loss_se": standard_error(losses),
        **_bounds(point.recommender, point.setting),
        "privacy_loss": told(float(leaks.mean())),
        "privacy_loss_most": told(float(leaks.max())),
        "peers_alive": float(np.mean([one.peers_alive for one in every])),
        "peers_kicked": sum(one.peers_kicked for one in every),
        "seconds": float(np.mean([one.seconds for one in every])),
    }


def _bounds(recommender: str, setting: OnlineSetting) -> dict[str, Any]:
    shape = setting.shape()
    radius = {name: number for name, number in shape.items() if name != "diversity"}
    mine = recommender_of(recommender)
    proved = epsilon_proved(mine.epsilon_of or recommender, **shape)
    exact = epsilon_exact(recommender, **shape)
    bound = loss_bound(recommender, **shape)
    return {
        "loss_bound": bound,
        "loss_exact": _worst_loss(recommender, setting),
        "loss_lower_bound": loss_lower_bound(**radius),
        "epsilon_proved": proved,
        "epsilon_exact": exact,
        "exact_is_bound": "epsilon" in mine.exact and exact is not None and setting.rounds < setting.voters,
        "epsilon_lower": _lower(recommender, setting._replace(environment=RANDOM)),
        "epsilon_needed": epsilon_needed(**shape, loss=bound),
    }


def _worst_loss(recommender: str, setting: OnlineSetting) -> float | None:
    """Return p-REC_sim's exact worst case where the adversary of that very setting is played against."""
    mine = recommender_of(recommender)
    easy = setting.rounds * setting.voters**2 / 2 <= MOST_STEPS
    if setting.environment != HALVING or "loss" not in mine.exact or setting.objects != 2 or not easy:
        return None
    if setting.diversity + setting.radius > 0:
        return None
    return worst_loss_sim(setting.voters, setting.peers, setting.rounds, sharp=mine.sharp)


def _lower(recommender: str, setting: OnlineSetting) -> float | None:
    """Return what epsilon is at least where D + R > 0, by p-REC's own chain."""
    chained = 0 < setting.diversity + setting.radius <= setting.rounds and setting.voters >= 2 * setting.peers
    return own_lower_bound(**setting.shape()) if chained and recommender_of(recommender).bounded else None


def told(value: float) -> float | str | None:
    """Return a number as strict JSON has it: None for NaN, "inf" for infinity."""
    if math.isnan(value):
        return None
    return "inf" if math.isinf(value) else value


def points_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return all points."""
    return rows_table(summary["points"])


def rows_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows of a result as a table; NaN: not known, inf: no finite number."""
    table = pd.DataFrame(rows)
    return table.astype({str(name): float for name in table if table[name].map(lambda value: value == "inf").any()})
