"""The table and the figure of an online sweep on real ratings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coordinator.server.online.recommenders import compared_in, recommender_of
from scenarios.files import write_figure, write_table
from scenarios.sweep.online_figure import colour_of
from scenarios.sweep.online_ratings import RATINGS
from scenarios.sweep.online_tables import interval, number

DIFFERENCE, EPSILON = "difference to random", "epsilon"
_LOSS = ("recommender", "loss", "95 %", "share", "95 % ", "less random", "95 %  ", "less plurality", "95 %   ")
_PRIVACY = ("recommender", "bound (L)", "epsilon", "least", "most", "run leaks", "most ", "kicked")
_WORLD = {
    "rounds": "rounds T", "skipped": "rounds skipped", "voters": "voters N", "peers": "peers P",
    "diversity": "diversity D", "radius": "radius R", "radius_share": "R / T",
    "random_share": "random's loss / T",
}  # fmt: skip


def show(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Print what was measured of the clients, and every recommender beside random and plurality."""
    told = (
        f"{title}: {summary['distinct_clients']} clients, {summary['seeds']} seed{'s' if summary['seeds'] > 1 else ''}"
    )
    console.print(told, highlight=False, soft_wrap=True)
    world = _table(("measured of clients", "mean", "least", "median", "most"))
    for name, label in _WORLD.items():
        spread = summary["world"][name]
        world.add_row(label, *(number(spread[which]) for which in ("mean", "least", "median", "most")))
    console.print(world)
    loss, privacy = _table(_LOSS), _table(_PRIVACY)
    for row in summary["recommenders"]:
        loss.add_row(*map(Text, _loss_cells(row)))
        privacy.add_row(*map(Text, _privacy_cells(row)))
    console.print(loss)
    console.print(privacy)
    for line in _REMARKS:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _table(columns: tuple[str, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 or "95" in name else "right", no_wrap=True)
    return table


_REMARKS = (
    "share: of the rounds; less random, less plurality: differences of shares, client by client, below 0 is better",
    "random's loss is its expectation where others are compared with it",
    "bound (L): mean over clients; epsilon: proved; run leaks: exact loss of any voter in a run; medians [nats]",
)


def _loss_cells(row: Mapping[str, Any]) -> list[str]:
    cells = [row["recommender"], number(row["loss"]), interval(row["loss_low"], row["loss_high"])]
    for name in ("share", "to_random_share", "to_plurality_share"):
        cells += [_percent(row.get(name)), interval(row.get(f"{name}_low"), row.get(f"{name}_high"), _percent)]
    return cells


def _privacy_cells(row: Mapping[str, Any]) -> list[str]:
    names = ("epsilon_median", "epsilon_least", "epsilon_most", "privacy_loss_any_median", "privacy_loss_any_most")
    sizes = [number(row[name]) for name in names]
    return [row["recommender"], number(row["loss_bound"]), *sizes, str(row["peers_kicked"])]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def points_of(summary: Mapping[str, Any], units: pd.DataFrame) -> pd.DataFrame:
    """Return every point of the figure.

    Returns
    -------
    DataFrame
        Columns: panel, recommender, kind ("mean", "proved", "run"), x, y, low, high. Differences are percentage points
        of the rounds; of epsilon x is nats and y the share of services that need at most that.
    """
    points: list[dict[str, Any]] = []
    for row in summary["recommenders"]:
        x, low, high = (row[f"to_random_share{end}"] for end in ("", "_low", "_high"))
        ends = {"low": None if low is None else 100 * low, "high": None if high is None else 100 * high}
        own = {"panel": DIFFERENCE, "recommender": row["recommender"], "kind": "mean"}
        points.append({**own, "x": 100 * x, "y": -len(points), **ends})
    bounded = [name for name in compared_in(RATINGS) if recommender_of(name).bounded]
    for name, kind in itertools.product(bounded, _KINDS):
        values = units.loc[units["recommender"] == name, _KINDS[kind]].to_numpy(np.float64)
        every = np.sort(values[np.isfinite(values) & (values > 0)])
        shares = (np.arange(every.size) + 1 + values.size - every.size) / max(values.size, 1)
        own = {"panel": EPSILON, "recommender": name, "kind": kind}
        points += [{**own, "x": float(x), "y": float(y)} for x, y in zip(every, shares, strict=True)]
    return pd.DataFrame(points, columns=["panel", "recommender", "kind", "x", "y", "low", "high"]).astype(
        dict.fromkeys(("x", "y", "low", "high"), float)
    )


_KINDS = {"proved": "epsilon_proved", "run": "privacy_loss_of_peers"}


def draw(summary: Mapping[str, Any], out: Path) -> None:
    """Write ``figure.png`` and, with every point in it, ``figure.csv``."""
    points = points_of(summary, pd.read_parquet(out / "units.parquet"))
    write_table(out / "figure.csv", points)
    write_figure(out / "figure.png", figure_of(summary, points), dpi=130)


def figure_of(summary: Mapping[str, Any], points: pd.DataFrame) -> Figure:
    """Return the figure of points from `points_of`."""
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for _, row in points[points["panel"] == DIFFERENCE].iterrows():
        span = None if np.isnan(row["low"]) else [[row["x"] - row["low"]], [row["high"] - row["x"]]]
        left.errorbar([row["x"]], [row["y"]], xerr=span, fmt="o", capsize=3, color=colour_of(row["recommender"]))
    names = [row["recommender"] for row in summary["recommenders"]]
    left.axvline(0, color="0.5", linewidth=1)
    left.set_yticks([-float(place) for place in range(len(names))], names)
    left.set(xlabel="loss less random's expected loss [% of rounds]")
    left.set_title(f"{summary['distinct_clients']} clients, paired, 95 % intervals", fontsize="medium")
    lines = points[points["panel"] == EPSILON]
    for (name, kind), line in lines.groupby(["recommender", "kind"], sort=False):
        style = "--" if kind == "proved" else "-"
        told = f"{name}, {'epsilon, proved' if kind == 'proved' else 'exact loss in the run'}"
        right.plot(line["x"], line["y"], style, color=colour_of(str(name)), label=told, drawstyle="steps-post")
    right.set(xlabel="privacy loss [nats]", ylabel="share of clients with at most that")
    if len(lines):
        right.set_xscale("log")
        right.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    for panel in (left, right):
        panel.grid(alpha=0.3)
    return figure
