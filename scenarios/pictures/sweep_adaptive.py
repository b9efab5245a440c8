"""The pictures of an adaptive sweep: users against items, and one run's course."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from scenarios.pictures.drawing import (
    DARK,
    GREY,
    POINTS,
    Style,
    explained,
    finished,
    legend,
    lines,
    look,
    panels,
    ticks,
)
from scenarios.pictures.picture import Picture

_PLANNED: Style = {"linestyle": ":", "marker": "x", "markersize": 6, "linewidth": 1}
_COURSE = {"pool": "items in the round's pool", "undecided": "items undecided", "wrong": "labels in error"}
MEASURED, PREDICTED, BOUND = "measured", "predicted", "lower bound"
ANY = "any protocol"


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield users against items; and a trajectory, where an adaptive scheme ran."""
    points = points_of(record)
    alt = "Users that each scheme needs for all labels, with intervals, against items; below them the lower bounds."
    yield Picture("users", "Users in one round and in several", alt, partial(draw_users, record, points), points)
    if (course := record["trajectory"]) is not None:
        steps = pd.DataFrame(course["steps"])
        steps.insert(0, "round", range(1, len(steps) + 1))
        alt = "One adaptive run: items in the pool, items undecided and labels in error, against users asked."
        yield Picture("trajectory", "An adaptive run, round by round", alt, partial(draw_course, course, steps), steps)


def points_of(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return every point of the figure of users."""
    points: list[dict[str, Any]] = []
    for row in summary["schemes"]:
        here = {"label": row["label"], "items": row["items"]}
        points.append({"kind": MEASURED, **here, **{name: row[name] for name in ("users", "low", "high")}})
        points.append({"kind": PREDICTED, **here, "users": row["predicted"]})
    for row in summary["bounds"]:
        label = ANY if row["adaptive"] else "one round"
        points.append({"kind": BOUND, "label": label, "items": row["items"], "users": row["users"]})
    table = pd.DataFrame(points, columns=["kind", "label", "items", "users", "low", "high"])
    table = table.astype(dict.fromkeys(("users", "low", "high"), float))
    return table[table["users"].notna()].reset_index(drop=True)


def draw_users(summary: Mapping[str, Any], points: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of users; see `points_of`."""
    (axes,) = panels(figure, 1, size=(8, 5.6))
    labels = dict.fromkeys(row["label"] for row in summary["schemes"])
    looks = {label: look(place) for place, label in enumerate(labels)}
    measured = set(points.loc[points["kind"] == MEASURED, "label"])

    def style(kind: str, label: str) -> Style:
        if kind == MEASURED:
            return {**POINTS, **looks[label], "label": label}
        if kind == PREDICTED:
            alone = None if label in measured else f"{label}, from exact moments"
            return {**_PLANNED, "color": looks[label]["color"], "label": alone}
        how = {"color": DARK, "linestyle": "--"} if label == ANY else {"color": GREY, "linestyle": "-."}
        return {**how, "label": f"lower bound, {label}", "zorder": 1}

    axes.set_yscale("log")
    lines(axes, points, style, x="items", y="users")
    if (points["kind"] == PREDICTED).any():
        explained(axes, {"one round, from exact moments": _PLANNED}, ["one round, from exact moments"])
    ticks(axes, points["items"])
    axes.set_xlim(points["items"].min() / 1.2, points["items"].max() * 1.2)
    told = f"all labels right with probability {summary['confidence']:g}"
    told += f", w = {summary['rated']}, epsilon {float(summary['epsilon']):g} nats"
    finished(axes, told, xlabel="items N", ylabel="users")
    legend(figure)


def draw_course(trajectory: Mapping[str, Any], steps: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of a trajectory's steps."""
    (axes,) = panels(figure, 1)
    for place, (name, told) in enumerate(_COURSE.items()):
        axes.plot(steps["users"], steps[name], **look(place), label=told)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    title = f"one run of {trajectory['label']}, {trajectory['items']:,} items, round by round"
    finished(axes, title, xlabel="users asked", ylabel="items")
    legend(figure)
