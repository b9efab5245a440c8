"""A trusted coordinator and curious clients: p-REC on a file's rounds, a panel beside the rows, in losses, not lists.

It is what `blindrec sweep online --ratings` measures, on the same ratings as the comparison's other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.compare.settings import COORDINATOR, Comparison
from scenarios.compare.worlds import table_of
from scenarios.given.files import file_sha256
from scenarios.online.config import REFERENCE
from scenarios.online.worlds import OnlineWorld, world_of_table
from scenarios.report.tables import number, percent, remark, show_table
from scenarios.sweep.online import BESIDE, ClientsKey, RatingsSweep, client_rows
from scenarios.sweep.online import ClientsMeasurement as Served

SERVED = (REFERENCE, "p-rec-lean", "p-rec-sharp", BESIDE)
"""The recommenders of the panel."""


def grid_of(settings: Comparison) -> RatingsSweep:
    """Return the panel as a sweep of online recommenders."""
    named = tuple(name for name in SERVED if settings.includes(COORDINATOR, name))
    return RatingsSweep(
        base={"ratings": settings.ratings, "like_from": settings.liked_from, "clients": settings.clients},
        sha256=file_sha256(settings.ratings, "ratings file"),
        recommenders=named,
        seeds=settings.seeds,
    )


@lru_cache(maxsize=2)
def clients_of(settings: Comparison, seed: int) -> OnlineWorld:
    """Return a seed's clients, whom all recommenders serve."""
    return world_of_table(grid_of(settings).scenario(REFERENCE, seed), table_of(settings))


def served_in(settings: Comparison) -> tuple[tuple[str, ...], str | None]:
    """Return which recommenders can serve clients of the file, and why none can."""
    names = grid_of(settings).recommenders or ()
    try:
        for seed in range(settings.seed, settings.seed + settings.seeds) if names else ():
            clients_of(settings, seed)
    except InputError as error:
        return (), f"{COORDINATOR}: {error}"
    return names, None


def serve(settings: Comparison, recommender: str, seed: int) -> tuple[dict[str, Any], ...]:
    """Serve a seed's clients, and return a record of each."""
    return client_rows(grid_of(settings).scenario(recommender, seed), clients_of(settings, seed))


def panel_of(settings: Comparison, served: Mapping[tuple[str, int], Served]) -> dict[str, Any]:
    """Return what all seeds say, as JSON values; see `scenarios.sweep.online.RatingsSweep.summary`."""
    return grid_of(settings).summary({ClientsKey(*key): one for key, one in served.items()})


def show_panel(console: Console, panel: Mapping[str, Any]) -> None:
    """Print the panel's table, 80 columns wide."""
    columns = ("recommender", "loss", "less random", "less plurality", "epsilon")
    cells = [
        [
            row["recommender"],
            percent(row["share"]),
            *(_difference(row, name) for name in ("to_random_share", "to_plurality_share")),
            number(row["epsilon_median"]),
        ]
        for row in panel["recommenders"]
    ]
    title = f"{COORDINATOR}: hides votes from {panel['distinct_clients']} clients; disliked of one in two items"
    show_table(console, columns, cells, title=title, words=("recommender",))
    remark(console, "differences are in per cent of the rounds, client by client, below 0 is better; epsilon: median")


def _difference(row: Mapping[str, Any], name: str) -> str:
    """Return a difference and half of its interval, in per cent."""
    mean, low, high = (row.get(f"{name}{end}") for end in ("", "_low", "_high"))
    if mean is None or low is None or high is None:
        return ""
    return f"{100 * mean:.1f} ± {50 * (high - low):.1f}"
