"""The summary of a sweep: thresholds with intervals, exponents, and what one decoder costs against another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from coordinator.protocol.arrays import Floats
from scenarios.data.block_world import settle
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.report.intervals import CONFIDENCE, median_interval, paired_ratio
from scenarios.sweep.fitting import fit_rows
from scenarios.sweep.grid import Grid, fields_of
from scenarios.sweep.threshold import Key, Measured

Units = Mapping[Key, Measured]
PAIR = ("paper", "centred")
"""Decoders whose users are divided, seed by seed."""


def thresholds(grid: Grid, units: Units) -> pd.DataFrame:
    """Return the measured thresholds, one row a setting, seed, decoder and criterion.

    Returns
    -------
    DataFrame
        Columns: setting, those of `grid.fields_of`, seed, decoder, criterion, users (NaN where the most users did not
        do), devices and seconds (of the whole unit).
    """
    rows = [
        {
            "setting": place,
            **fields_of(grid.settings[place]),
            "seed": seed,
            "decoder": one.decoder,
            "criterion": one.criterion,
            "users": math.nan if one.users is None else float(one.users),
            "devices": measured.devices,
            "seconds": measured.seconds,
        }
        for (place, seed), measured in units.items()
        for one in measured.thresholds
    ]
    table = pd.DataFrame(rows)
    table["epsilon"] = table["epsilon"].astype(float)  # "inf" is a float to pandas, and no number to JSON
    return table


def summarize(grid: Grid, table: pd.DataFrame) -> dict[str, Any]:
    """Return what `--json` prints.

    Parameters
    ----------
    grid : Grid
        What was measured.
    table : DataFrame
        From `thresholds`.

    Returns
    -------
    dict
        ``settings``: U* of every setting, decoder and criterion, and of one's own designs how far their ``channel``
        was checked; ``fits``: exponents; ``ratios``: paper over centred.
    """
    settings = [
        {"setting": place, **told, "decoder": decoder, "criterion": criterion, **median_interval(users)}
        for place, setting in enumerate(grid.settings)
        for told in [fields_of(setting) | _channel(setting)]
        for decoder in grid.decoders_of(setting)
        for criterion in grid.criteria
        if len(users := _of(table, place, decoder, criterion))
    ]
    ratios = [row for place in range(len(grid.settings)) for row in _ratios(grid, table, place)]
    return {
        "share": grid.share,
        "resolution": grid.resolution,
        "most_users": max(setting.users or 0 for setting in grid.settings),
        "confidence": CONFIDENCE,
        "settings": settings,
        "fits": [row for fit in grid.fits for row in fit_rows(fit, grid, table)],
        "ratios": ratios,
    }


def settings_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return a summary's ``settings`` as a table; what was not reached is NaN."""
    table = pd.DataFrame(summary["settings"])
    numbers = ["users", "low", "high", "epsilon"]
    table[numbers] = table[numbers].astype(float)
    return table


def _channel(setting: Scenario) -> dict[str, str]:
    own = RunSpec(settle(setting.complete())).own
    return {"channel": own[1].how} if own else {}


def _of(table: pd.DataFrame, place: int, decoder: str, criterion: str) -> Floats:
    chosen = table[
        (table["setting"] == place) & (table["decoder"] == decoder) & (table["criterion"] == criterion)
    ].sort_values("seed")
    return chosen["users"].to_numpy(dtype=np.float64)


def _ratios(grid: Grid, table: pd.DataFrame, place: int) -> list[dict[str, Any]]:
    if not set(PAIR) <= set(grid.decoders_of(grid.settings[place])):
        return []
    own = {"setting": place, **fields_of(grid.settings[place])}
    pair = {"over": PAIR[0], "under": PAIR[1]}
    return [
        {**own, "criterion": criterion, **pair, **paired_ratio(*(_of(table, place, one, criterion) for one in PAIR))}
        for criterion in grid.criteria
    ]
