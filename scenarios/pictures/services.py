"""Pictures of online recommendation: clients' losses round by round, loss and privacy loss beside their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from scenarios.pictures.drawing import (
    CHANCE,
    GREY,
    LEAST,
    MEASURED,
    PREDICTED,
    PROVED,
    Mark,
    colour,
    draw_rows,
    finished,
    interval,
    known,
    legend,
    panels,
)
from scenarios.pictures.picture import Picture

_MOST_NAMED = 7
"""Clients that a legend names: as many as there are colours."""
_LOSS = {
    "loss": ("measured", MEASURED),
    "loss_bound": ("proved, any world", PROVED),
    "loss_random": ("a random list, expected", CHANCE),
}
_PRIVACY = {
    "epsilon_proved": ("epsilon as proved", PROVED),
    "epsilon_exact": ("epsilon, exact worst case", PREDICTED),
    "epsilon_needed": ("epsilon that any such loss needs", LEAST),
    "privacy_loss_of_peers": ("this run's exact privacy loss", MEASURED),
}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:
    """Yield the pictures of an online folder, or of its record alone."""
    world = ", ".join(
        f"{symbol} = {record[name]:,.10g}"
        for symbol, name in (
            ("T", "rounds"),
            ("m", "objects"),
            ("N", "voters"),
            ("P", "peers"),
            ("D", "diversity"),
            ("R", "radius"),
        )
        if isinstance(record.get(name), (int, float))
    )
    heading = f"{record['recommender']}: {world}"
    if "rounds" in tables:
        alt = "Disliked recommendations of every client so far, round by round."
        yield Picture("losses", "Clients' losses so far", alt, partial(draw_losses, tables["rounds"], heading))
    draw = partial(draw_rows, title=heading, logarithmic=True)
    if marks := known(_marks(record, _LOSS, "loss")):
        alt = "The loss of a client that was measured, beside what is proved and what random lists lose."
        words = "disliked recommendations of a client"
        yield Picture("loss", "Loss beside its bound", alt, partial(draw, marks=marks, words=words))
    if marks := known(_marks(record, _PRIVACY, "privacy loss")):
        alt = "The exact privacy loss of this run beside what is proved of the recommender."
        yield Picture(
            "privacy", "Privacy loss beside epsilon", alt, partial(draw, marks=marks, words="privacy loss [nats]")
        )


def _marks(record: Mapping[str, Any], columns: Mapping[str, tuple[str, str]], row: str) -> list[Mark]:
    every = [Mark(row, told, record.get(name), kind, *interval(record, name)) for name, (told, kind) in columns.items()]
    return [one for one in every if one.value]  # the axis is logarithmic


def draw_losses(rounds: pd.DataFrame, heading: str, figure: Figure) -> None:
    """Draw the disliked recommendations of every client so far; see `scenarios.online.results.rounds_table`."""
    (axes,) = panels(figure, 1)
    named = rounds["client"].nunique() <= _MOST_NAMED
    losses = rounds.assign(loss=(~rounds["liked"].astype(bool)).groupby(rounds["client"], sort=False).cumsum())
    for place, (client, mine) in enumerate(losses.groupby("client", sort=False)):
        how: dict[str, Any] = (
            {"color": colour(place), "label": str(client)} if named else {"color": GREY, "linewidth": 0.7}
        )
        axes.plot(mine["round"] + 1, mine["loss"], drawstyle="steps-post", **how)
    if not named:
        mean = losses.groupby("round")["loss"].mean()
        axes.plot(mean.index + 1, mean, color="black", linewidth=2, label="mean of clients")
    finished(axes, heading, xlabel="rounds", ylabel="loss: disliked recommendations so far")
    legend(figure)
