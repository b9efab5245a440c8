"""Exponents: least squares on logarithms over the thresholds of all seeds, with a bootstrap over seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import scipy

from coordinator.protocol.arrays import Floats
from scenarios.sweep.axes import Fit, concerns, divisor, value
from scenarios.sweep.grid import Grid

RESAMPLES = 2000
SEED = 20_121
TAIL = 0.025


def slope(x: Floats, y: Floats) -> float:
    """Return the least-squares slope of the mean of ``y`` on ``x``.

    Parameters
    ----------
    x : ndarray of float64, shape (settings,)
        Abscissae.
    y : ndarray of float64, shape (settings, seeds)
        Ordinates; as many a setting.
    """
    return float(_slopes(x, y.mean(axis=1)[None, :])[0])


def _slopes(x: Floats, means: Floats) -> Floats:
    centred = x - x.mean()
    slopes: Floats = means @ centred / (centred @ centred)
    return slopes


def bootstrap(x: Floats, y: Floats) -> tuple[float, float] | None:
    """Return the 95 % interval of `slope`, seeds drawn anew `RESAMPLES` times; None for a single seed.

    A seed is drawn for all settings together: its world is related from setting to setting, so that thresholds of one
    seed need not be independent.

    Parameters
    ----------
    x, y
        As for `slope`.

    Notes
    -----
    The expanded percentile interval (Hesterberg, *What Teachers Should Know About the Bootstrap*, 2015): plain
    percentiles are too narrow for few seeds, by ``sqrt((n - 1) / n)`` and by the normal's quantile for Student's t.
    """
    seeds = y.shape[1]
    if seeds < 2:
        return None
    drawn = np.random.default_rng(SEED).multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
    tail = float(scipy.stats.norm.cdf(math.sqrt(seeds / (seeds - 1)) * scipy.stats.t.ppf(TAIL, seeds - 1)))
    low, high = np.quantile(_slopes(x, drawn @ y.T), [tail, 1 - tail])
    return float(low), float(high)


def fit_rows(fit: Fit, grid: Grid, table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one row a decoder and criterion: slope, interval, and whether it covers what is expected.

    Settings that some seed did not reach are left out and counted: their median would be that of the lucky seeds. The
    slope is None where fewer than two values of x are left.
    """
    places = [place for place, setting in enumerate(grid.settings) if concerns(fit, setting)]
    decoders = sorted({decoder for place in places for decoder in grid.decoders_of(grid.settings[place])})
    criteria = [criterion for criterion in fit.criteria if criterion in grid.criteria]
    return [_row(fit, grid, table, places, decoder, criterion) for decoder in decoders for criterion in criteria]


def _row(fit: Fit, grid: Grid, table: pd.DataFrame, places: list[int], decoder: str, criterion: str) -> dict[str, Any]:
    places = [place for place in places if decoder in grid.decoders_of(grid.settings[place])]
    chosen = table[
        table["setting"].isin(places) & (table["decoder"] == decoder) & (table["criterion"] == criterion)
    ].pivot(index="setting", columns="seed", values="users")
    whole = chosen.dropna()
    x = np.log([value(fit.x, grid.settings[place]) for place in whole.index])
    per = np.array([divisor(fit, grid.settings[place]) for place in whole.index])
    row: dict[str, Any] = {
        "label": fit.name,
        "decoder": decoder,
        "criterion": criterion,
        "x": fit.x,
        "per": list(fit.per),
        "slope": None,
        "low": None,
        "high": None,
        "expected": fit.expected,
        "covers": None,
        "settings": [int(place) for place in whole.index],
        "left_out": len(places) - len(whole),
    }
    if np.unique(x).size < 2:
        return row
    y = np.log(whole.to_numpy(dtype=np.float64) / per[:, None])
    row["slope"] = slope(x, y)
    if found := bootstrap(x, y):
        row["low"], row["high"] = found
        row["covers"] = None if fit.expected is None else found[0] <= fit.expected <= found[1]
    return row
