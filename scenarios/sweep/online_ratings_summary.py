"""What recommenders cost and save on clients of a ratings file: means over clients, paired differences, epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from scenarios.report.intervals import CONFIDENCE, mean_interval, named, standard_error
from scenarios.sweep.online_ratings import Key, Measured, RatingsGrid, clients_table
from scenarios.sweep.online_summary import rows_table, told

WORLD = ("rounds", "skipped", "voters", "peers", "diversity", "radius", "loss_random", "radius_share", "random_share")
"""What is measured of each client."""
BESIDE = "plurality"
"""Whose loss is set beside every other's, client by client: ``to_plurality`` is a key of the result."""
_SIZES = {
    "epsilon": "epsilon_proved",
    "privacy_loss": "privacy_loss_of_run",
    "privacy_loss_any": "privacy_loss_of_peers",
}


def summarize(wanted: RatingsGrid, units: Mapping[Key, Measured]) -> dict[str, Any]:
    """Return what `--json` prints.

    Returns
    -------
    dict
        What was asked for; ``world``: mean, least, median and most over clients of what was measured of them;
        ``recommenders``: a row each. None: not known, or not proved; "inf": no finite number.

    Notes
    -----
    A client that several seeds drew counts once, with its means: intervals are Student's, over clients. ``share`` is
    the loss as a share of the client's rounds. ``to_random`` and ``to_plurality`` are paired differences, client by
    client: below 0 is better. Random recommendations' loss is the exact expectation, not a run's. ``epsilon`` is what
    is proved, with its ``_mean``, ``_least``, ``_median`` and ``_most`` over clients, ``privacy_loss``
    what the runs leaked of voters that are no peers where there are no more than P, ``privacy_loss_any`` of any voter.
    """
    table = clients_table(units)
    table["share"] = table["loss"] / table["rounds"]
    table["random_share"] = table["loss_random"] / table["rounds"]
    table["radius_share"] = table["radius"] / table["rounds"]
    means = table.groupby(["recommender", "client"], sort=False).mean(numeric_only=True)
    first = means.loc[wanted.names[0]]
    world = {name: _spread(first[name]) for name in WORLD}
    rows = [_row(name, means, table[table["recommender"] == name]) for name in wanted.names]
    asked = {"seeds": wanted.seeds, "interval": CONFIDENCE, "distinct_clients": len(first)}
    return {**wanted.content(), **asked, "world": world, "recommenders": rows}


def _spread(values: pd.Series[float]) -> dict[str, float]:
    some = {"mean": values.mean(), "least": values.min(), "median": values.median(), "most": values.max()}
    return {which: float(value) for which, value in some.items()}


def _row(name: str, means: pd.DataFrame, every: pd.DataFrame) -> dict[str, Any]:
    mine = means.loc[name]
    row: dict[str, Any] = {"recommender": name, "clients": len(mine), "services": len(every)}
    row |= {**_interval("loss", mine["loss"]), "loss_se": standard_error(list(mine["loss"]))}
    row |= _interval("share", mine["share"])
    row |= _interval("to_random", mine["loss"] - mine["loss_random"])
    row |= _interval("to_random_share", mine["share"] - mine["random_share"])
    if BESIDE in means.index.get_level_values("recommender"):
        other = means.loc[BESIDE]
        row |= _interval("to_plurality", mine["loss"] - other["loss"])
        row |= _interval("to_plurality_share", mine["share"] - other["share"])
    row["loss_bound"] = told(float(mine["loss_bound"].mean(skipna=False)))
    for shown, column in _SIZES.items():
        row |= {f"{shown}_{which}": value for which, value in _sizes(every[column]).items()}
    return {**row, "peers_alive": float(mine["peers_alive"].mean()), "peers_kicked": int(every["peers_kicked"].sum())}


def _interval(name: str, values: pd.Series[float]) -> dict[str, float | None]:
    return named(mean_interval(list(values)), name)


def _sizes(values: pd.Series[float]) -> dict[str, float | str | None]:
    """Return mean, least, median and most; all None where it is not known of every service."""
    found = values.to_numpy(np.float64)
    if np.isnan(found).any():
        return dict.fromkeys(("mean", "least", "median", "most"))
    some = {"mean": found.mean(), "least": found.min(), "median": np.median(found), "most": found.max()}
    return {which: told(float(value)) for which, value in some.items()}


def clients_and_rows(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return all recommenders, one row each, and in every row what was measured of the clients; NaN: not known."""
    spread = {f"{name}_{which}": value for name, found in summary["world"].items() for which, value in found.items()}
    return rows_table([{**row, **spread} for row in summary["recommenders"]])
