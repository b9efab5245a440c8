"""Pictures of a file of ratings: what recommendations take where nobody is trusted, and how ratings are spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from scenarios.pictures.drawing import finished, legend, panels, ticks
from scenarios.pictures.picture import Picture
from scenarios.pictures.style import look

_SPREAD = {"ratings_per_user": "ratings of a user", "ratings_per_item": "ratings of an item"}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield the pictures of what `blindrec data --json` prints."""
    if record.get("worth"):
        alt = "People like those of the file who are needed, against epsilon, beside those that the file has."
        yield Picture("worth", "What recommendations take", alt, partial(draw_worth, record))
    alt = "Least, quartiles and most ratings of a user and of an item, on a logarithmic axis."
    yield Picture("ratings", "How ratings are spread", alt, partial(draw_spread, record))


def draw_worth(record: Mapping[str, Any], figure: Figure) -> None:
    """Draw the recipe that `blindrec data` ends with; see `scenarios.compare.needs.needs`."""
    (axes,) = panels(figure, 1)
    rows = pd.DataFrame(record["worth"]).assign(epsilon=lambda table: table["epsilon"].astype(float))
    low, high = (rows[name].to_numpy(np.float64) for name in ("people_low", "people_high"))
    axes.fill_between(
        rows["epsilon"], low, high, color=look(0)["color"], alpha=0.15, linewidth=0, label="where measured numbers lie"
    )
    axes.plot(rows["epsilon"], rows["people"], **look(0), label="set: 95 % of plain popularity")
    axes.plot(
        rows["epsilon"],
        rows["people_for_pairs"].astype(float),
        **look(1),
        linestyle="--",
        label="pairs: begin to beat it",
    )
    axes.axhline(rows["people_here"].iloc[0], color="black", linewidth=1, linestyle=":", label="people in this file")
    axes.set_yscale("log")
    ticks(axes, rows["epsilon"])
    title = f"{record['users']:,} users, {record['items']:,} items: formulas, before anything is run"
    finished(axes, title, xlabel="epsilon [nats]", ylabel="people who contribute")
    legend(figure)


def draw_spread(record: Mapping[str, Any], figure: Figure) -> None:
    """Draw least, quartiles and most of the ratings of a user and of an item."""
    (axes,) = panels(figure, 1, size=(6.4, 2.6))
    names = ("min", "lower_quartile", "median", "upper_quartile", "max")
    boxes = [
        dict(zip(("whislo", "q1", "med", "q3", "whishi"), (record[name][one] for one in names), strict=True), fliers=[])
        for name in _SPREAD
    ]
    axes.bxp(
        boxes,
        orientation="horizontal",
        patch_artist=True,
        boxprops={"facecolor": "0.9"},
        medianprops={"color": look(0)["color"], "linewidth": 2},
    )
    axes.set_yticks(np.arange(len(_SPREAD)) + 1, list(_SPREAD.values()))
    axes.set_xscale("log")
    finished(axes, f"{record['ratings']:,} ratings: least, quartiles and most", xlabel="ratings")
