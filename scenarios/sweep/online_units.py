"""The units of an online sweep: one recommender's run in one planted world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scenarios.online.adversaries import halving_world
from scenarios.online.config import OnlineScenario
from scenarios.online.results import digest
from scenarios.online.run import build_world, privacy_losses, run_online
from scenarios.online.worlds import World
from scenarios.places.in_process import InProcess
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.sweep.online_axes import HALVING, RANDOM, OnlineSetting

WORLDS: dict[str, Callable[[OnlineScenario], World]] = {RANDOM: build_world, HALVING: halving_world}


class Key(NamedTuple):
    """A unit: a recommender, the numbers of an `OnlineSetting`, and a seed."""

    recommender: str
    rounds: int
    objects: int
    voters: int
    peers: int
    diversity: int
    radius: int
    environment: str
    seed: int

    @property
    def setting(self) -> OnlineSetting:
        """The setting."""
        return OnlineSetting(*self[1:-1])


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
