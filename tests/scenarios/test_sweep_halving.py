"""The online sweep's halving adversary costs what Theorem 6 and the exact worst case say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from statistical import normal_radius, rate_fits

from scenarios.places.in_process import InProcess
from scenarios.sweep.folder import claim, measure_units
from scenarios.sweep.online import OnlineSweep, check_grid
from scenarios.sweep.online_planted import HALVING, OnlineGrid, OnlineSetting, parse_axes


def halved(tmp_path: Path, *, seeds: int) -> dict[str, Any]:
    base = OnlineSetting(20, 2, 16, 1, 0, 0)
    names = ("plurality", "p-rec-sim")
    wanted = OnlineGrid(base=base, axes=parse_axes("ratio=16"), recommenders=names, seeds=seeds)
    check_grid(wanted)
    sweep = OnlineSweep(wanted)
    claim(tmp_path, sweep.content())
    units = measure_units(sweep, InProcess(1), tmp_path, Console(quiet=True))
    return {row["recommender"]: row for row in sweep.result(units)["points"]}


def test_the_halving_adversary_attains_theorem_6(tmp_path: Path) -> None:
    """Plurality errs at each of 4 splits with probability 1/2: the bound of 2. One false alarm in a million.

    One in three is rejected. The mean of p-rec-sim is taken as normal; it lies below the exact worst case, above 2.
    """
    rows, seeds = halved(tmp_path, seeds=160), 160
    errors = round(rows["plurality"]["loss"] * seeds)
    assert rows["plurality"]["loss_lower_bound"] == 2.0
    assert rate_fits(errors, 4 * seeds, 1 / 2)
    assert not rate_fits(errors, 4 * seeds, 1 / 3)
    sim = rows["p-rec-sim"]
    radius = normal_radius(sim["loss_se"], comparisons=2)
    assert sim["loss_lower_bound"] - radius <= sim["loss"] <= sim["loss_exact"] + radius
    assert sim["environment"] == HALVING
