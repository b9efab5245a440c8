"""Figures of results, for who calls `.plot()`: made with pyplot, so that a notebook shows them; never shown here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from scenarios.planner.tables import SAFE, name_of, trust_of
from scenarios.sweep.folder import Swept

_MOST_NAMED = 12
"""Lines that a legend names."""


def draw_items(items: pd.DataFrame) -> Axes:
    """Draw every item's score with its standard error, in order of scores, a colour for each cluster.

    Parameters
    ----------
    items : DataFrame
        As `scenarios.run.tables.items_table` returns it.
    """
    axes: Axes = plt.subplots(layout="constrained")[1]
    ordered = items.sort_values("score", ascending=False, ignore_index=True)
    for cluster, rows in ordered.groupby("cluster"):
        errors = rows["standard_error"].fillna(0.0)
        axes.errorbar(rows.index, rows["score"], yerr=errors, fmt=".", capsize=2, label=f"cluster {cluster}")
    axes.set(xlabel="items, by score", ylabel="score, with its standard error")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return axes


def draw_losses(rounds: pd.DataFrame) -> Axes:
    """Draw the disliked recommendations of every client so far, round by round.

    Parameters
    ----------
    rounds : DataFrame
        As `scenarios.online.results.rounds_table` returns it.
    """
    axes: Axes = plt.subplots(layout="constrained")[1]
    for client, rows in rounds.groupby("client", sort=False):
        axes.plot(rows["round"] + 1, (~rows["liked"].astype(bool)).cumsum(), label=str(client))
    axes.set(xlabel="rounds", ylabel="loss: disliked recommendations so far")
    axes.grid(alpha=0.3)
    if rounds["client"].nunique() <= _MOST_NAMED:
        axes.legend(fontsize="small")
    return axes


def draw_iterations(iterations: pd.DataFrame) -> Axes:
    """Draw how the server's objective falls over the EM iterations.

    Parameters
    ----------
    iterations : DataFrame
        As `scenarios.two_tier.results.tables_of` returns it.
    """
    axes: Axes = plt.subplots(layout="constrained")[1]
    axes.plot(iterations["iteration"], iterations["objective"], marker=".")
    axes.set(xlabel="EM iterations", ylabel="objective")
    axes.grid(alpha=0.3)
    return axes


def draw_needs(plan: Mapping[str, Any]) -> Axes:
    """Draw the users that each design of a plan needs; designs that no plan recommends are grey.

    Parameters
    ----------
    plan : mapping
        What `blindrec plan --json` prints.
    """
    rows = [row for row in plan["designs"] if row["users"] is not None]
    best = plan["recommended"]
    colours = ["C2" if row == best else "C0" if trust_of(row) == SAFE else "lightgrey" for row in rows]
    height = 1.0 + 0.3 * max(len(rows), 1)
    axes: Axes = plt.subplots(figsize=(7.0, height), layout="constrained")[1]
    axes.barh(np.arange(len(rows)), [float(row["users"]) for row in rows], color=colours)
    axes.set_yticks(np.arange(len(rows)), [name_of(row) for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set(xlabel="users needed", title=plan["target"])
    axes.grid(axis="x", alpha=0.3)
    return axes


def draw_sweep(swept: Swept) -> Axes:
    """Draw a sweep's first figure, as its folder holds it; return the first panel."""
    figure = plt.figure()
    next(swept.sweep.figures(swept.units, swept.result))[2](figure)
    return figure.axes[0]
