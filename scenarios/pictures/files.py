"""Pictures of a file of ratings: what recommendations take where nobody is trusted, and how ratings are spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from scenarios.pictures.drawing import POINTS, finished, legend, lines, look, panels, ticks
from scenarios.pictures.picture import Picture

_SPREAD = {"ratings_per_user": "ratings of a user", "ratings_per_item": "ratings of an item"}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield the pictures of what `blindrec data --json` prints."""
    yield from worth_of(record)
    alt = "Least, quartiles and most ratings of a user and of an item, on a logarithmic axis."
    yield Picture("ratings", "How ratings are spread", alt, partial(draw_spread, record))


def worth_of(record: Mapping[str, Any]) -> Iterator[Picture]:
    """Yield what recommendations take, where a record of a file says it, `blindrec data`'s or `plan`'s."""
    if any(row["people"] and row["epsilon"] != "inf" for row in record.get("worth") or ()):
        alt = "People like those of the file who are needed, with intervals, against epsilon; beside those there are."
        yield Picture("worth", "What recommendations take", alt, partial(draw_worth, record["worth"]))


def draw_worth(worth: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """Draw the people that private advice takes, a line for each kind; see `scenarios.compare.needs.needs`."""
    (axes,) = panels(figure, 1)
    rows = pd.DataFrame(worth)
    names = {"x": "epsilon", "y": "people", "low": "people_low", "high": "people_high"}
    points = pd.DataFrame({name: rows[column].astype(float) for name, column in names.items()})
    points["label"] = rows["mechanism"] + rows["features"].map({True: " + features", False: ""})
    points = points[np.isfinite(points["x"]) & points["y"].notna()].assign(kind="")
    labels = list(dict.fromkeys(points["label"]))
    axes.set_yscale("log")
    lines(axes, points, lambda _, label: {**POINTS, **look(labels.index(label)), "label": label})
    axes.axhline(rows["users_here"].iloc[0], color="black", linewidth=1, linestyle=":", label="people there are")
    ticks(axes, points["x"])
    title = f"until advice is worth {worth[0]['worth']:.3g} of plain popularity, forecast"
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
