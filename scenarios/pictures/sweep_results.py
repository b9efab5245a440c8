"""The picture of a sweep of results: a panel each column."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from scenarios.pictures.drawing import POINTS, Style, finished, legend, lines, look, panels, ticks
from scenarios.pictures.picture import Picture
from scenarios.report.tables import is_number

_UNITS = {"epsilon": "epsilon [nats]", "items": "items N", "rated": "rated items w"}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield every column against the first number that varies."""
    points = points_of(record)
    alt = "Every measured column with its interval over seeds, a panel each, against the first number that varies."
    draw = partial(draw_columns, axis_of(record), record["columns"], points)
    yield Picture("figure", "What was measured over settings", alt, draw, points)


def points_of(result: Mapping[str, Any]) -> pd.DataFrame:
    """Return every point of the figure."""
    rows, axis = result["settings"], axis_of(result)
    points = [
        {
            "column": name,
            "kind": "measured",
            "label": ", ".join(f"{one} {row[one]}" for one in result["varied"] if axis not in (one, "setting")),
            "x": float(row[axis]),
            "y": row[name],
            **{end: row[f"{name}_{end}"] for end in ("low", "high")},
        }
        for name in result["columns"]
        for row in rows
    ]
    table = pd.DataFrame(points, columns=["column", "kind", "label", "x", "y", "low", "high"])
    for name in ("y", "low", "high"):
        table[name] = pd.to_numeric(table[name], errors="coerce").astype(float)
    return table[table["y"].map(math.isfinite)].reset_index(drop=True)


def axis_of(result: Mapping[str, Any]) -> str:
    """Return the first field that varies and whose values are finite numbers; ``"setting"`` where there is none."""
    found = (name for name in result["varied"] if all(is_number(row[name]) for row in result["settings"]))
    return next(found, "setting")


def draw_columns(axis: str, columns: Mapping[str, str], points: pd.DataFrame, figure: Figure) -> None:
    """Draw every column, by its name and its words, against an axis, from `points_of`."""
    labels = list(dict.fromkeys(points["label"]))

    def style(_: str, label: str) -> Style:
        return {**POINTS, **look(labels.index(label)), "label": label or None}

    names = [name for name in columns if (points["column"] == name).any()]
    for axes, name in zip(panels(figure, max(len(names), 1), size=(4.6, 3.6)), names, strict=False):
        mine = points[points["column"] == name]
        lines(axes, mine, style)
        ticks(axes, mine["x"], logarithmic=bool(mine["x"].max() > 4 * mine["x"].min() > 0))
        finished(axes, columns[name], xlabel=_UNITS.get(axis, axis), ylabel=name)
    legend(figure)
