"""What the planner says about a sweep's settings: users, accuracy at the probes, and slopes, beside the measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from scenarios.data.block_world import settle
from scenarios.given.config import Scenario
from scenarios.planner.needs import Target
from scenarios.report.intervals import standard_error
from scenarios.sweep.axes import LABELS, TOP, Fit, divisor, value
from scenarios.sweep.fitting import slope
from scenarios.sweep.grid import Grid, fields_of
from scenarios.sweep.threshold import Key, Measured, adapts, predicted_users
from scenarios.theory.predictors import predictor

Predictions = dict[tuple[int, str, str], float | None]
"""Users by setting, decoder and criterion; None where nothing is predicted."""
REACH = 3
"""Standard errors that a measured share may lie from the predicted one."""


def target_of(criterion: str, share: float, items: int) -> Target:
    """Return what half of the runs reach where a criterion's U* lies.

    With k wrong items allowed, half of the runs have at most k where the expected number is the median's: about
    Poisson, ``P(Poisson(m) <= k) = 1/2``. Without any it is all right with probability 1/2.
    """
    allowed = math.floor((1 - share) * items + 1e-9)
    if criterion == LABELS[0] or allowed == 0:
        return Target(success=0.5, accuracy=None)
    return Target(success=None, accuracy=1 - float(gammaincinv(allowed + 1, 0.5)) / items)


def predictions(grid: Grid) -> Predictions:
    """Return the planner's U* by setting, decoder and criterion; it says nothing of lists by popularity."""
    return {
        (place, decoder, criterion): None
        if criterion == TOP
        else predicted_users(
            setting.model_copy(update={"decoder": decoder}), target_of(criterion, grid.share, setting.items or 0)
        )
        for place, setting in enumerate(grid.settings)
        for decoder in grid.decoders_of(setting)
        for criterion in grid.criteria
    }


def probes_of(grid: Grid, setting: Scenario) -> tuple[int, ...]:
    """Return the users at which a setting's accuracy is measured, one a decoder; 0 for none."""
    if grid.probe is None or adapts(setting):
        return ()
    target = Target(success=None, accuracy=grid.probe)
    found = [
        predicted_users(setting.model_copy(update={"decoder": decoder}), target)
        for decoder in grid.decoders_of(setting)
    ]
    return tuple(round(users) if users and users <= (setting.users or 0) else 0 for users in found)


def probe_rows(grid: Grid, units: Mapping[Key, Measured]) -> list[dict[str, Any]]:
    """Return measured beside predicted accuracy, one row a setting and decoder.

    A setting and decoder whose share is not predicted there have none. ``within`` says whether the mean over seeds lies
    within `REACH` standard errors of the prediction.
    """
    rows = []
    for place, setting in enumerate(grid.settings):
        for decoder, users in zip(grid.decoders_of(setting), probes_of(grid, setting), strict=False):
            found = predictor(settle(setting.model_copy(update={"decoder": decoder}).complete())) if users else None
            found_in = [one.accuracies for key, one in units.items() if key[0] == place]
            shares = np.array([accuracies[decoder] for accuracies in found_in if decoder in accuracies])
            predicted = None if found is None else found.share(users)
            if predicted is None or shares.size < 2:
                continue
            mean, error = float(shares.mean()), standard_error(list(shares)) or 0.0
            told = {"users": users, "predicted": predicted, "accuracy": mean, "standard_error": error}
            within = abs(mean - predicted) <= REACH * error
            rows.append({"setting": place, **fields_of(setting), "decoder": decoder, **told, "within": within})
    return rows


def predicted_slope(fit: Fit, grid: Grid, row: Mapping[str, Any], users: Predictions) -> float | None:
    """Return the slope through the planner's U* at the settings of a fit's row; None where the planner says nothing."""
    found = [(grid.settings[place], users[place, row["decoder"], row["criterion"]]) for place in row["settings"]]
    if row["slope"] is None or any(one is None for _, one in found):
        return None
    x = np.log([value(fit.x, setting) for setting, _ in found])
    y = np.log([float(one or 0) / divisor(fit, setting) for setting, one in found])
    return slope(x, y[:, None])


def add_plans(summary: dict[str, Any], grid: Grid, units: Mapping[Key, Measured]) -> None:
    """Put the planner's numbers beside the measured ones.

    Parameters
    ----------
    summary : dict
        From `scenarios.sweep.summary.summarize`. Its ``settings`` get ``predicted`` (users, or None) and ``inside``
        (whether they lie in the measured interval), its ``fits`` ``predicted`` (a slope); ``probes`` are added.
    grid, units
        What was measured.
    """
    users = predictions(grid)
    for row in summary["settings"]:
        row["predicted"] = users[row["setting"], row["decoder"], row["criterion"]]
        known = None not in (row["predicted"], row["low"], row["high"])
        row["inside"] = row["low"] <= row["predicted"] <= row["high"] if known else None
    by_name = {fit.name: fit for fit in grid.fits}
    for row in summary["fits"]:
        row["predicted"] = predicted_slope(by_name[row["label"]], grid, row, users)
    summary["probes"] = probe_rows(grid, units)
