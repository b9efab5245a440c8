"""The sweeps of online recommenders: along axes over planted worlds, or on clients of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scenarios.data.datasets import lines_skipped, read_for
from scenarios.online.config import OnlineScenario
from scenarios.sweep.kind import Sweep
from scenarios.sweep.online_ratings import Key as ClientsKey
from scenarios.sweep.online_ratings import Measured as Served
from scenarios.sweep.online_ratings import RatingsGrid, clients_table
from scenarios.sweep.online_ratings import measure as serve
from scenarios.sweep.online_ratings_summary import clients_and_rows
from scenarios.sweep.online_ratings_summary import summarize as summarize_clients
from scenarios.sweep.online_settings import OnlineGrid
from scenarios.sweep.online_summary import points_table, summarize
from scenarios.sweep.online_tables import show, show_clients
from scenarios.sweep.online_units import Key, Measured, Unit, measure


@dataclass(frozen=True, slots=True)
class OnlineSweep(Sweep[Key, Unit, Measured]):
    """Recommenders over planted worlds."""

    wanted: OnlineGrid
    key, found, measure = Key, Measured, staticmethod(measure)
    rows, show = staticmethod(points_table), staticmethod(show)

    def units(self, done: Mapping[Key, Measured]) -> dict[Key, Unit]:
        """Return every unit once, seed by seed, so that an unfinished sweep tells something of all settings."""
        return {
            Key(point.recommender, *point.setting, seed): Unit(point.scenario(seed), point.setting.environment)
            for seed in range(self.wanted.seeds)
            for point in self.wanted.points
        }

    def result(self, units: Mapping[Key, Measured]) -> dict[str, Any]:
        """Return loss and privacy loss at every point, beside their bounds; see `summarize`."""
        return summarize(self.wanted, units)


@dataclass(frozen=True, slots=True)
class RatingsSweep(Sweep[ClientsKey, OnlineScenario, Served]):
    """Recommenders on clients of a file."""

    wanted: RatingsGrid
    key, found, measure = ClientsKey, Served, staticmethod(serve)
    table, rows, show = staticmethod(clients_table), staticmethod(clients_and_rows), staticmethod(show_clients)

    def units(self, done: Mapping[ClientsKey, Served]) -> dict[ClientsKey, OnlineScenario]:
        """Return a unit a recommender and seed."""
        seeds, names = range(self.wanted.seeds), self.wanted.names
        return {ClientsKey(name, seed): self.wanted.scenario(name, seed) for seed in seeds for name in names}

    def result(self, units: Mapping[ClientsKey, Served]) -> dict[str, Any]:
        """Return means and paired differences over clients; see `summarize_clients`."""
        told = lines_skipped(self.wanted, read_for(self.wanted).table)
        return {**summarize_clients(self.wanted, units), **told}

    def drawn(self, units: Mapping[ClientsKey, Served], result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
        """Return every service, for what is leaked."""
        return {"units": self.table(units)}
