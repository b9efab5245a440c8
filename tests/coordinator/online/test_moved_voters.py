"""Voters' processes die and forget, without Ray: nobody enters a service that the budget did not hold."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import reference
from mortal import DEATHS, Actor, Fate, at, by_chance, lives, stand_in

from actors.host import DeviceHost
from actors.keeper import Keeper
from actors.voters import TableVoters, VotingDevices
from coordinator.protocol.ballots import Offer, Service
from coordinator.server.fleet.cohorts import Cohorts, Layout, dealt
from coordinator.server.fleet.coordinator_actor import Coordinator
from coordinator.server.online.recommenders import Promise
from coordinator.server.online.service import CLIENTS, ClientPlan, ServedClient, ServingPlan
from coordinator.server.online.service import VOTERS as VOTING

VOTERS, ROUNDS, BUDGET = 12, 6, Fraction(2)
SECRET, COIN = reference.derive(2, "devices"), reference.derive(3, "coin")
TABLE = TableVoters(
    table=np.random.default_rng(1).integers(2, size=(ROUNDS, VOTERS), dtype=np.uint8),
    group=np.arange(VOTERS, dtype=np.int32),
)
COSTS = [(Fraction(1), 3), (Fraction(3, 2), 5), (Fraction(1, 2), None), (Fraction(1, 2), 7)]
"""Each service's epsilon and its client's own device. The second one most voters cannot afford, later ones they can."""


class Clients:
    """Like every other recommendation."""

    def ask(self, offer: Offer, _first: int, _stop: int) -> bool:
        return (offer.client + offer.round + offer.recommendation) % 2 == 0


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    monkeypatch.setattr("coordinator.server.online.service.MOST_ROUNDS", 2)


def plan_of() -> ServingPlan:
    """All services."""
    promise = Promise(rounds=ROUNDS, objects=2)
    services = [
        Service(client=number, recommender="p-rec", rounds=ROUNDS, objects=2, epsilon=epsilon, own_device=own_device)
        for number, (epsilon, own_device) in enumerate(COSTS)
    ]
    clients = tuple(ClientPlan(service=service, promise=promise, coin=COIN) for service in services)
    return ServingPlan(clients=clients, voters=VOTERS)


def run(fate: Fate = lives, coordinators: int = 1) -> tuple[list[tuple[list[int], list[int]]], int]:
    """Serve the clients; return who took part and what was recommended, and how many processes died.

    Further coordinators go on after some clients that were served before, and serve all others once more.
    """
    keeper, bounds = Keeper(), [(0, 4), (4, 6), (6, VOTERS)]
    kind = VotingDevices(budget=BUDGET)
    hosts = [Actor(partial(DeviceHost, kind, TABLE, SECRET, own, keeper), fate) for own in dealt(bounds, 2)]
    devices = {
        VOTING: Cohorts(bounds=bounds, hosts=hosts),
        CLIENTS: Cohorts(bounds=[(0, len(COSTS))], hosts=[Actor(Clients)]),
    }
    layout, over = Layout(devices=VOTERS, workers=2, devices_per_actor=4), list[ServedClient]()
    for number in range(coordinators):
        server = Coordinator(plan_of(), devices, layout)
        for one in over[: number * len(COSTS) // coordinators]:
            server.replay(one)
        over = server.run()[0]
    seen = [(one.served.electors.tolist(), one.served.chosen.tolist()) for one in over]
    return seen, sum(host.deaths for host in hosts)


def test_a_budget_keeps_voters_away() -> None:
    """The client's own device pays nothing, so it can afford the next one."""
    seen, deaths = run()
    assert deaths == 0
    everybody = set(range(VOTERS))
    assert [set(electors) for electors, _ in seen] == [everybody - {3}, {3}, everybody, everybody - {3, 7}]


@pytest.mark.parametrize("coordinators", [1, 2, 4])
def test_voters_that_forget_know_from_their_keeper(coordinators: int) -> None:
    """Whenever they die, and whether the coordinator is another one meanwhile."""
    undisturbed, called = run()[0], Counter[str]()

    def counting(name: str) -> str:
        called[name] += 1
        return "lives"

    assert run(counting, coordinators) == (undisturbed, 0)
    assert called["ask"] > 24
    for how in DEATHS:
        for name, number in called.items():
            for k in range(number):
                assert run(at(name, k, how), coordinators) == (undisturbed, 1), (how, name, k)


def test_voters_that_die_by_chance_change_nothing() -> None:
    undisturbed, deaths = run()[0], 0
    for seed in range(150):
        seen, died = run(by_chance(seed, share=0.05))
        assert seen == undisturbed, seed
        deaths += died
    assert deaths > 100
