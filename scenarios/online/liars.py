"""Worlds of online runs in which a share of the voters lies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from actors.lying.crowds import LyingVoters
from coordinator.protocol.coins import as_words
from scenarios.given.attacks import HALVING
from scenarios.online.config import OnlineScenario
from scenarios.online.worlds import World


def with_liars(world: World) -> World:
    """Return a world whose voters lie as its scenario says; a peer that lies is none.

    With slow halving a group lies for as many rounds as strikes can keep it alive, ``2 (D + R) + 1``.
    """
    scenario = world.scenario
    if scenario.malicious is None:
        return world
    strikes = max(2 * (client.diversity + client.radius) + 1 for client in world.clients)
    voters = LyingVoters(
        honest=world.voters,
        share=scenario.malicious,
        likes={client.client.number: client.client.likes for client in world.clients},
        stage=strikes if scenario.attack == HALVING else 0,
    )
    lying = voters.lying(as_words(world.secret), 0, voters.users)
    clients = tuple(replace(client, peer=client.peer & ~lying) for client in world.clients)
    return replace(world, voters=voters, clients=clients)


def lies_of(world: World) -> int:
    """Return how many voters of a world lie."""
    if not isinstance(world.voters, LyingVoters):
        return 0
    return int(np.count_nonzero(world.voters.lying(as_words(world.secret), 0, world.voters.users)))


def honest_peers(scenario: OnlineScenario, promised: int, there: int) -> int:
    """Return on how many peers a bound of the loss may count: those that are promised, without liars among them."""
    return promised if scenario.malicious is None else min(promised, there)
