"""The summary of a sweep: thresholds with intervals, exponents, and what one decoder costs against another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from coordinator.protocol.arrays import Floats
from scenarios.block_world import settle
from scenarios.config import Scenario
from scenarios.experiment import own_of
from scenarios.sweep.fitting import fit_rows
from scenarios.sweep.grid import Grid, fields_of
from scenarios.sweep.threshold import Measured

CONFIDENCE = 0.95
PAIR = ("paper", "centred")
"""Decoders whose users are divided, seed by seed."""


def thresholds(grid: Grid, units: Mapping[tuple[int, int], Measured]) -> pd.DataFrame:
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
            "decoder": decoder,
            "criterion": criterion,
            "users": math.nan if users is None else float(users),
            "devices": measured.devices,
            "seconds": measured.seconds,
        }
        for (place, seed), measured in units.items()
        for (decoder, criterion), users in measured.users.items()
    ]
    table = pd.DataFrame(rows)
    table["epsilon"] = table["epsilon"].astype(float)  # "inf" is a float to pandas, and no number to JSON
    return table


def median_rank(count: int) -> int:
    """Return which of ``count`` thresholds in ascending order is U*, from 1: half of the seeds succeed there."""
    return math.ceil(count / 2)


def interval_ranks(count: int, confidence: float = CONFIDENCE) -> tuple[int, int, float]:
    """Return the ranks, from 1, of the thresholds that enclose the median, and the level that they reach.

    The interval of order statistics j and ``count + 1 - j`` misses a median with probability ``2 P(B < j)``, B
    binomial with 1/2, whatever the distribution. The largest j that keeps to the confidence is taken; where even the
    smallest and the largest value do not reach it, these are, and the level says what they reach.

    Parameters
    ----------
    count : int
        Number of thresholds, at least 1.
    confidence : float
        Wanted level.

    Returns
    -------
    low, high : int
        Ranks.
    level : float
        Coverage that they have.
    """
    tails = 2 * scipy.stats.binom.cdf(np.arange(count), count, 0.5)  # of j = 1, 2, ...: 2 P(B <= j - 1)
    low = max(1, int(np.count_nonzero(tails[: (count + 1) // 2] <= 1 - confidence)))
    return low, count + 1 - low, max(0.0, 1 - float(tails[low - 1]))


def median_interval(users: Floats | Sequence[float]) -> dict[str, Any]:
    """Return U* with its interval: ``users``, ``low``, ``high`` (None: not reached), ``level``; seeds and unreached.

    Parameters
    ----------
    users : sequence of float
        One threshold a seed, NaN where it was not reached: larger than all others.
    """
    ordered = np.sort(np.where(np.isnan(users), np.inf, users))
    low, high, level = interval_ranks(ordered.size)

    def at(rank: int) -> int | None:
        value = float(ordered[rank - 1])
        return int(value) if math.isfinite(value) else None

    return {
        "users": at(median_rank(ordered.size)),
        "low": at(low),
        "high": at(high),
        "level": level,
        "seeds": int(ordered.size),
        "unreached": int(np.isinf(ordered).sum()),
    }


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
    own = own_of(settle(setting.complete()))
    return {"channel": own[1].how} if own else {}


def _of(table: pd.DataFrame, place: int, decoder: str, criterion: str) -> Floats:
    chosen = table[
        (table["setting"] == place) & (table["decoder"] == decoder) & (table["criterion"] == criterion)
    ].sort_values("seed")
    return chosen["users"].to_numpy(dtype=np.float64)


def _ratios(grid: Grid, table: pd.DataFrame, place: int) -> list[dict[str, Any]]:
    if not set(PAIR) <= set(grid.decoders_of(grid.settings[place])):
        return []
    rows: list[dict[str, Any]] = []
    for criterion in grid.criteria:
        over, under = (_of(table, place, decoder, criterion) for decoder in PAIR)
        rows.append(
            {
                "setting": place,
                **fields_of(grid.settings[place]),
                "criterion": criterion,
                "over": PAIR[0],
                "under": PAIR[1],
                **paired_ratio(over, under),
            }
        )
    return rows


def paired_ratio(over: Floats, under: Floats) -> dict[str, Any]:
    """Return the geometric mean of ratios seed by seed, with Student's interval of the mean logarithm.

    Parameters
    ----------
    over, under : ndarray of float64, shape (seeds,)
        Thresholds of the same seeds; NaN where not reached: the seed is left out.

    Returns
    -------
    dict
        ``ratio``, ``low``, ``high`` (None where there are too few seeds), ``seeds``.
    """
    logs = np.log(over / under)
    logs = logs[np.isfinite(logs)]
    if not logs.size:
        return {"ratio": None, "low": None, "high": None, "seeds": 0}
    mean, low, high = float(logs.mean()), None, None
    if logs.size > 1:
        reach = float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, logs.size - 1) * scipy.stats.sem(logs))
        low, high = math.exp(mean - reach), math.exp(mean + reach)
    return {"ratio": math.exp(mean), "low": low, "high": high, "seeds": int(logs.size)}
