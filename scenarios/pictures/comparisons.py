"""The pictures of a comparison: NDCG against people, a curve for each trust model, and the coordinator's panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from scenarios.pictures import sweep_clients
from scenarios.pictures.drawing import GREY, POINTS, Style, beside, finished, legend, lines, look, panels
from scenarios.pictures.picture import Picture

_DASHES = {True: "--", False: "-"}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield NDCG against people, and what the coordinator's recommenders save."""
    if not (points := points_of(record)).empty:
        alt = "NDCG at 10 against the people who contribute, a curve for each trust model, a panel for each epsilon."
        yield Picture("figure", "What recommendations are worth", alt, partial(draw_worth, record, points), points)
    if panel := record.get("coordinator"):
        alt = "What each recommender of a trusted coordinator saves its clients against random lists, with intervals."
        draw = partial(sweep_clients.draw_clients, panel, sweep_clients.points_of(panel, None))
        yield Picture("coordinator", "What a trusted coordinator saves its clients", alt, draw)


def points_of(result: Mapping[str, Any]) -> pd.DataFrame:
    """Return the points of the figure: of each trust model the best row at every number of people who contribute.

    Rows that know more than their trust model's others, and say that they are not compared, are none of these.
    """
    best: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in result["rows"]:
        level = row["trust_model"] == "none"
        if not row.get("compared", True):
            continue
        if level and (row["mechanism"] == "chance" or (row["features"] and row["mechanism"] != "popularity")):
            continue
        people = row["users"] if row["public"] is None else round(row["public"] * row["users"])
        label = f"{row['trust_model']}{': popularity' if level and row['mechanism'] == 'popularity' else ''}"
        label += " + features" if row["features"] else ""
        name = (label, "" if row["epsilon"] is None else str(row["epsilon"]), people)
        if name not in best or row["ndcg"] > best[name]["ndcg"]:
            best[name] = row
    return pd.DataFrame(
        {
            "kind": "level" if row["trust_model"] == "none" else "curve",
            "label": label,
            "x": people,
            "y": row["ndcg"],
            "low": row["ndcg_low"],
            "high": row["ndcg_high"],
            "epsilon": epsilon,
            "mechanism": row["mechanism"],
        }
        for (label, epsilon, people), row in best.items()
    )


def draw_worth(result: Mapping[str, Any], points: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of a comparison."""
    levels = points[points["kind"] == "level"]
    curves = points[points["kind"] == "curve"]
    epsilons = [one for one in dict.fromkeys(curves["epsilon"]) if one] or [""]
    places = {name: place for place, name in enumerate(dict.fromkeys(curves["label"].map(_plain)))}

    def style(_: str, label: str) -> Style:
        return {**POINTS, **look(places[_plain(label)]), "linestyle": _DASHES[_plain(label) != label], "label": label}

    for axes, epsilon in zip(panels(figure, len(epsilons), size=(5.2, 4.4)), epsilons, strict=True):
        here = (
            curves[curves["epsilon"].isin([epsilon, ""])].sort_values("y").drop_duplicates(["label", "x"], keep="last")
        )
        for _, one in levels.iterrows():
            axes.axhline(one["y"], linewidth=1, color=GREY, linestyle=_DASHES["features" in one["label"]], zorder=1)
        if not here.empty:
            lines(axes, here, style)
            axes.set_xscale("log")
        axes.set_ylim(0, 1.06 * min(points["high"].max(), 1.5 * points["y"].max()))
        told = f"epsilon {epsilon.removesuffix('.0')}{' nats' * (epsilon != 'inf')}" if epsilon else "no privacy"
        finished(axes, told, xlabel="people who contribute; in two tiers, publicly", ylabel="NDCG at 10")
    named = {f"no privacy{str(one['label']).removeprefix('none')}": one["y"] for _, one in levels.iterrows()}
    beside(figure.axes[-1], named)
    legend(figure)
    told = f"{result['people_in_file']:,} people, {result['items']:,} items"
    figure.suptitle(f"{result['ratings']}: {told}; the best mechanism of each trust model, chosen afterwards")


def _plain(label: str) -> str:
    return label.replace(" + features", "")
