"""Pictures of a run: items by score, what was measured beside what was predicted, and the course of several rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scenarios.pictures.drawing import (
    BESIDE,
    CHANCE,
    MEASURED,
    PREDICTED,
    Mark,
    draw_rows,
    finished,
    interval,
    known,
    legend,
    look,
    panels,
    setting_of,
)
from scenarios.pictures.picture import Picture

_MOST_BARS = 60
"""Items beyond which standard errors are a band, since bars would touch."""
_ROWS = {
    "items right": (("accuracy", MEASURED), ("accuracy_predicted", PREDICTED)),
    "all items right": (("exact", MEASURED),),
    "own top 10 liked": (("advice_liked", MEASURED), ("random_liked", CHANCE)),
    "hit rate at 10": (("hit_rate", MEASURED), ("popularity_hit_rate", BESIDE), ("random_hit_rate", CHANCE)),
    "NDCG at 10": (("ndcg", MEASURED), ("popularity_ndcg", BESIDE), ("random_ndcg", CHANCE)),
    "true top 50 found": (("top_50", MEASURED),),
}
_TOLD = {
    MEASURED: "measured",
    PREDICTED: "predicted from exact moments",
    BESIDE: "by popularity, which knows all ratings",
    CHANCE: "by chance",
}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:
    """Yield the pictures of a run's folder, or of its record alone."""
    heading = f"{record['design']}: {setting_of(record)}"
    if "items" in tables:
        alt = "Every item's score with its standard error, in order of scores, a colour and a marker for each cluster."
        yield Picture("items", "What the server learned", alt, partial(draw_items, tables["items"], heading))
    if marks := known(shares_of(record)):
        alt = (
            "Shares that were measured, with intervals where there are several seeds, beside predicted ones and chance."
        )
        draw = partial(draw_rows, marks=marks, title=heading, words="share", share=True)
        yield Picture("shares", "Measured beside predicted", alt, draw)
    if "rounds" in tables and len(tables["rounds"]) > 1:
        alt = "Items in the pool of each round, and devices that have answered until then."
        yield Picture("rounds", "Round by round", alt, partial(draw_rounds, tables["rounds"], heading))


def shares_of(record: Mapping[str, Any]) -> list[Mark]:
    """Return the shares of a record, as marks."""
    return [
        Mark(row, _TOLD[kind] + _between(record, kind), record.get(name), kind, *interval(record, name))
        for row, columns in _ROWS.items()
        for name, kind in columns
    ]


def _between(record: Mapping[str, Any], kind: str) -> str:
    seeds = record.get("repeat", 1)
    return f", {seeds} seeds, 95 %" if kind == MEASURED and seeds > 1 else ""


def draw_items(items: pd.DataFrame, heading: str, figure: Figure) -> None:
    """Draw every item's score with its standard error, in order of scores, a look for each cluster."""
    (axes,) = panels(figure, 1)
    ordered = items.sort_values("score", ascending=False, ignore_index=True)
    errors = ordered["standard_error"].fillna(0.0)
    if banded := len(ordered) > _MOST_BARS:
        ends = (ordered["score"] - errors, ordered["score"] + errors)
        axes.fill_between(ordered.index, *ends, color="0.85", linewidth=0, label="standard error")
    for place, (cluster, rows) in enumerate(ordered.groupby("cluster")):
        how = {"linestyle": "", "markersize": 3.5, **look(place), "label": f"cluster {cluster}"}
        if banded:
            axes.plot(rows.index, rows["score"], **how)
        else:
            axes.errorbar(rows.index, rows["score"], yerr=errors[rows.index], **how)
    finished(axes, heading, xlabel="items, by score", ylabel="score, with its standard error")
    legend(figure)


def draw_rounds(rounds: pd.DataFrame, heading: str, figure: Figure) -> None:
    """Draw the pool of each round and the devices that answered so far; see `scenarios.run.tables.rounds_table`."""
    left, right = panels(figure, 2, size=(4.6, 3.6))
    turns = np.arange(len(rounds)) + 1
    left.plot(turns, rounds["pool"], **look(0))
    right.plot(turns, rounds["answered"].cumsum(), **look(1))
    for axes, told in ((left, "items in the pool"), (right, "devices that have answered")):
        finished(axes, "", xlabel="round", ylabel=told)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.suptitle(heading)
