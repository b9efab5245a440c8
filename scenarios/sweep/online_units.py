"""The units of an online sweep: one recommender's run in one planted world, and how it stands in the folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from scenarios.online.adversaries import halving_world
from scenarios.online.config import OnlineScenario
from scenarios.online.results import digest
from scenarios.online.run import build_world, privacy_losses, run_online
from scenarios.online.worlds import World
from scenarios.places.in_process import InProcess
from scenarios.places.session import Session
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.sweep.folder import measure_units
from scenarios.sweep.online_axes import HALVING, RANDOM, OnlineSetting
from scenarios.sweep.online_settings import OnlineSweep

WORLDS: dict[str, Callable[[OnlineScenario], World]] = {RANDOM: build_world, HALVING: halving_world}


class Key(NamedTuple):
    """A unit's name."""

    recommender: str
    setting: OnlineSetting
    seed: int


class Unit(NamedTuple):
    """What is measured at one go, in one process."""

    scenario: OnlineScenario
    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one run found.

    Attributes
    ----------
    loss : int
        Disliked recommendations.
    privacy_loss : float
        Largest exact privacy loss of a voter [nats]; of those that are no peers, where there are no more than P. NaN
        where weights differ, so that it is not computed.
    peers_alive, peers_kicked, survivors : int
        At the end.
    seconds : float
    recommendations_sha256 : str
        Equal on every backend.
    """

    loss: int
    privacy_loss: float
    peers_alive: int
    peers_kicked: int
    survivors: int
    seconds: float
    recommendations_sha256: str


Units = dict[Key, Measured]


def measure(unit: Unit) -> Measured:
    """Measure one unit, in this process."""
    world = WORLDS[unit.environment](unit.scenario)
    run = run_online(world.scenario, InProcess(1), world=world, over=lambda _: stop_if_abandoned())
    (client,) = run.clients
    alive, peers = client.served.alive, client.world.peer[client.served.electors]
    return Measured(
        loss=client.served.loss,
        privacy_loss=privacy_losses(client)[0],
        peers_alive=int(np.count_nonzero(alive & peers)),
        peers_kicked=int(np.count_nonzero(~alive & peers)),
        survivors=int(np.count_nonzero(alive)),
        seconds=run.seconds,
        recommendations_sha256=digest(run),
    )


def units_of(wanted: OnlineSweep) -> dict[Key, Unit]:
    """Return every unit once, seed by seed, so that an unfinished sweep tells something of all settings."""
    first = {(point.recommender, point.setting): point for point in wanted.points}
    return {
        Key(recommender, setting, seed): Unit(point.scenario(seed), setting.environment)
        for seed in range(wanted.seeds)
        for (recommender, setting), point in first.items()
    }


def run_sweep(wanted: OnlineSweep, session: Session, out: Path, console: Console) -> Units:
    """Measure every unit that the folder does not hold yet; see `folder.measure_units`."""
    return measure_units(units_of(wanted), measure, session, out, console, read=_read, write=_written)


def units_table(units: Units) -> pd.DataFrame:
    """Return every measured unit, one row each; ``privacy_loss`` is NaN where it is not computed."""
    return pd.DataFrame(
        [
            {"recommender": key.recommender, **key.setting._asdict(), "seed": key.seed, **asdict(one)}
            for key, one in units.items()
        ]
    )


def _read(line: dict[str, Any]) -> tuple[Key, Measured]:
    recommender, seed = str(line.pop("recommender")), int(line.pop("seed"))
    setting = OnlineSetting(**{name: line.pop(name) for name in OnlineSetting._fields})
    return Key(recommender, setting, seed), Measured(**{**line, "privacy_loss": float(line["privacy_loss"])})


def _written(key: Key, measured: Measured) -> dict[str, Any]:
    told = {"recommender": key.recommender, **key.setting._asdict(), "seed": key.seed, **asdict(measured)}
    return {**told, "privacy_loss": str(measured.privacy_loss)}  # strict JSON has no inf and no NaN
