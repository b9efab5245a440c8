"""The figures of an adaptive sweep, with every point in them as a table: users against items, and one run's course."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scenarios.files import write_figure, write_table

MEASURED, PREDICTED, BOUND = "measured", "predicted", "lower bound"
ANY = "any protocol"
_COURSE = {"pool": "items in the round's pool", "undecided": "items undecided", "wrong": "labels in error"}


def points_of(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return every point of the figure of users.

    Returns
    -------
    DataFrame
        Columns: kind ("measured", "predicted", "lower bound"), label (one a line), items, users, low, high. Points
        that are not known are left out; an open interval has a NaN.
    """
    points: list[dict[str, Any]] = []
    for row in summary["schemes"]:
        here = {"label": row["label"], "items": row["items"]}
        if row["users"] is not None:
            points.append({"kind": MEASURED, **here, **{name: row[name] for name in ("users", "low", "high")}})
        if row["predicted"] is not None:
            points.append({"kind": PREDICTED, **here, "users": row["predicted"]})
    for row in summary["bounds"]:
        if row["users"] is not None:
            whom = ANY if row["adaptive"] else "one round"
            points.append({"kind": BOUND, "label": whom, "items": row["items"], "users": row["users"]})
    table = pd.DataFrame(points, columns=["kind", "label", "items", "users", "low", "high"])
    return table.astype(dict.fromkeys(("users", "low", "high"), float))


def draw(summary: Mapping[str, Any], out: Path) -> None:
    """Draw both figures into a folder; the second one only where an adaptive scheme ran."""
    draw_users(summary, out)
    if summary["trajectory"] is not None:
        draw_trajectory(summary["trajectory"], out)


def draw_users(summary: Mapping[str, Any], out: Path) -> None:
    """Write ``users.png`` and, with every point in it, ``users.csv``."""
    points = points_of(summary)
    write_table(out / "users.csv", points)
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel="items N", ylabel="users")
    told = f"all labels right with probability {summary['confidence']:g}"
    axes.set_title(f"{told}, w = {summary['rated']}, epsilon {float(summary['epsilon']):g}", fontsize="medium")
    colours = {
        label: f"C{place}" for place, label in enumerate(dict.fromkeys(row["label"] for row in summary["schemes"]))
    }
    measured = set(points.loc[points["kind"] == MEASURED, "label"])
    for (kind, label), line in points.groupby(["kind", "label"], sort=False):
        ordered, colour = line.sort_values("items"), colours.get(str(label), "")
        if kind == MEASURED:
            _measured(axes, ordered, str(label), colour)
        elif kind == PREDICTED:
            alone = None if label in measured else f"{label}, from exact moments"
            axes.plot(ordered["items"], ordered["users"], ":x", color=colour, markersize=5, linewidth=1, label=alone)
        else:
            colour, told = "0.2" if label == ANY else "0.6", f"lower bound, {label}"
            axes.plot(ordered["items"], ordered["users"], "--", color=colour, marker=".", label=told, zorder=1)
    if (points["kind"] == PREDICTED).any():
        axes.plot([], [], ":x", color="0.3", markersize=5, linewidth=1, label="one round, from exact moments")
    ticks = np.unique(points["items"].to_numpy(dtype=np.float64))
    axes.set_xlim(ticks.min() / 1.2, ticks.max() * 1.2)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(fontsize="small", loc="outside right upper")
    write_figure(out / "users.png", figure)


def _measured(axes: Axes, line: pd.DataFrame, label: str, colour: str) -> None:
    """Draw numbers with their intervals; an end that is open has no bar, and an arrow upwards if it is the upper."""
    users = line["users"].to_numpy(dtype=np.float64)
    low, high = (line[name].to_numpy(dtype=np.float64) for name in ("low", "high"))
    spans = np.nan_to_num(np.array([users - low, high - users]), nan=0.0)
    axes.errorbar(line["items"], users, yerr=spans, label=label, color=colour, capsize=3, marker="o", markersize=4)
    for items, height, top in zip(line["items"], users, high, strict=True):
        if math.isnan(top):
            axes.plot([items], [height * 1.12], "^", color=colour, markersize=4)


def draw_trajectory(trajectory: Mapping[str, Any], out: Path) -> None:
    """Write ``trajectory.png`` and, with every point in it, ``trajectory.csv``."""
    steps = pd.DataFrame(trajectory["steps"])
    steps.insert(0, "round", range(1, len(steps) + 1))
    write_table(out / "trajectory.csv", steps)
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    for place, (name, told) in enumerate(_COURSE.items()):
        axes.plot(steps["users"], steps[name], marker=".", label=told, color=f"C{place}")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set(xlabel="users asked", ylabel="items")
    axes.set_title(
        f"one run of {trajectory['label']}, {trajectory['items']:,} items, round by round",
        fontsize="medium",
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    write_figure(out / "trajectory.png", figure)
