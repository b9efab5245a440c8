"""An online sweep on real ratings: all recommenders serve the same clients of a file, a unit each and seed."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from coordinator.server.online.recommenders import compared_in, recommender_of
from scenarios.given.settings import BadLines, Duplicates
from scenarios.given.validation import validated
from scenarios.online.config import REFERENCE, OnlineScenario
from scenarios.online.results import client_record
from scenarios.online.run import build_world, proved, run_online
from scenarios.online.worlds import World
from scenarios.places.in_process import InProcess
from scenarios.places.worker_threads import stop_if_abandoned

RATINGS = "ratings"
"""What recommenders that are compared on ratings files say in `NamedRecommender.compared`."""
KEPT = ["client", "rounds", "voters", "peers", "diversity", "radius", "skipped", "loss", "loss_random", "loss_bound"]
KEPT += ["epsilon_proved", "privacy_loss_of_run", "privacy_loss_of_peers", "peers_alive", "peers_kicked"]


@dataclass(frozen=True, kw_only=True)
class RatingsGrid:
    """A sweep on clients of a ratings file.

    Attributes
    ----------
    ratings, columns, duplicates, bad_lines, like_from, clients, rounds, objects
        As in `scenarios.online.config.OnlineScenario`.
    sha256 : str
        Of the file: it is known by its content, not by its name.
    recommenders : tuple of str or None
        None: all that apply.
    seeds : int
        Each draws its own clients.
    """

    ratings: Path
    sha256: str
    columns: tuple[str, ...] | None
    duplicates: Duplicates | None = None
    bad_lines: BadLines = "refuse"
    like_from: float | None
    clients: int
    rounds: int | None
    objects: int
    recommenders: tuple[str, ...] | None
    seeds: int

    @property
    def names(self) -> tuple[str, ...]:
        """The recommenders that are compared."""
        return self.recommenders or tuple(
            name for name in compared_in(RATINGS) if not recommender_of(name).sharp or self.objects == 2
        )

    def scenario(self, recommender: str, seed: int) -> OnlineScenario:
        """Return what is run."""
        names = ("ratings", "columns", "duplicates", "bad_lines", "like_from", "clients", "rounds", "objects")
        shared = {name: getattr(self, name) for name in names}
        return validated(OnlineScenario, None, {"recommender": recommender, "seed": seed, **shared})

    def content(self) -> dict[str, Any]:
        """Return what every unit depends on, as JSON values."""
        shared = {
            name: getattr(self, name)
            for name in ("like_from", "duplicates", "bad_lines", "clients", "rounds", "objects")
        }
        columns = None if self.columns is None else list(self.columns)
        return {"sweep": "online ratings", "ratings_sha256": self.sha256, "columns": columns, **shared}


class Key(NamedTuple):
    """A unit's name."""

    recommender: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one recommender found with all clients: a row each, with the columns `KEPT`."""

    clients: tuple[dict[str, Any], ...]
    seconds: float


def check_file(wanted: RatingsGrid) -> None:
    """Refuse what cannot be run, before anything runs; the first seed's clients are drawn for that.

    Raises
    ------
    InputError
        One line that names the value and the remedy.
    """
    for recommender in wanted.names:
        scenario = wanted.scenario(recommender, 0)
        for client in world_of(scenario.model_copy(update={"recommender": REFERENCE})).clients:
            proved(scenario, client, recommender)


@functools.lru_cache(maxsize=1)
def world_of(scenario: OnlineScenario) -> World:
    """Return a scenario's world; the last one is kept, since all recommenders serve the same clients."""
    return build_world(scenario)


def measure(scenario: OnlineScenario) -> Measured:
    """Measure one unit, in this process."""
    begin = time.perf_counter()
    world = world_of(scenario.model_copy(update={"recommender": REFERENCE}))
    run = run_online(scenario, InProcess(1), world=world, over=lambda _: stop_if_abandoned())
    rows = [client_record(run, client) for client in run.clients]
    kept = tuple({name: row[name] for name in KEPT} for row in rows)
    return Measured(clients=kept, seconds=time.perf_counter() - begin)


def clients_table(units: Mapping[Key, Measured]) -> pd.DataFrame:
    """Return every client of every unit, one row each; NaN: not computed or not proved."""
    table = pd.DataFrame([{**key._asdict(), **row} for key, one in units.items() for row in one.clients])
    return table.astype(
        dict.fromkeys(("loss_bound", "epsilon_proved", "privacy_loss_of_run", "privacy_loss_of_peers"), float)
    )
