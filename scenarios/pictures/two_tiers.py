"""Pictures of two tiers: errors beside those of public users alone, advice beside popularity, how the model fitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from scenarios.pictures.drawing import (
    BESIDE,
    CHANCE,
    MEASURED,
    Mark,
    draw_rows,
    epsilon_told,
    finished,
    interval,
    known,
    look,
    panels,
)
from scenarios.pictures.picture import Picture


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:
    """Yield the pictures of a two-tier folder, or of its record alone."""
    heading = f"{record['mechanism']}{_epsilon(record)}: {record['public']:,} public users"
    heading += f", {record['answered']:,.10g} devices that answered"
    if marks := known(_errors(record)):
        alt = "Errors of held-out ratings: with what private devices told, of public users alone, and of items' means."
        words = "RMSE of held-out ratings [rating points]"
        yield Picture(
            "errors", "What private devices add", alt, partial(draw_rows, marks=marks, title=heading, words=words)
        )
    if marks := known(_advice(record)):
        alt = "Hit rate and NDCG of lists of ten, beside lists by popularity."
        draw = partial(draw_rows, marks=marks, title=heading, words="share", share=True)
        yield Picture("advice", "What recommendations are worth", alt, draw)
    if "iterations" in tables:
        alt = "The server's objective over the EM iterations; it rises where more releases are to be explained."
        yield Picture(
            "iterations", "How the model was fitted", alt, partial(draw_iterations, tables["iterations"], heading)
        )


def _epsilon(record: Mapping[str, Any]) -> str:
    return "" if record.get("epsilon") is None else f", {epsilon_told(record['epsilon'])}"


def _errors(record: Mapping[str, Any]) -> list[Mark]:
    rows = {
        "with private devices": ("rmse", MEASURED),
        "public users alone": ("rmse_public_only", BESIDE),
        "items' means": ("rmse_baseline", CHANCE),
    }
    return [Mark(row, "", record.get(name), look, *interval(record, name)) for row, (name, look) in rows.items()]


def _advice(record: Mapping[str, Any]) -> list[Mark]:
    rows = {"hit rate at 10": "hit_rate", "NDCG at 10": "ndcg"}
    kinds = (("", "measured", MEASURED), ("popularity_", "by popularity", BESIDE))
    return [
        Mark(row, told, record.get(before + name), kind, *interval(record, before + name))
        for row, name in rows.items()
        for before, told, kind in kinds
    ]


def draw_iterations(iterations: pd.DataFrame, heading: str, figure: Figure) -> None:
    """Draw how the server's objective falls; see `scenarios.two_tier.results.tables_of`."""
    (axes,) = panels(figure, 1)
    axes.plot(iterations["iteration"], iterations["objective"], **look(0))
    finished(axes, heading, xlabel="EM iterations", ylabel="objective")
