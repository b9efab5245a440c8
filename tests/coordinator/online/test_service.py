"""A client's service round by round, and services of voters that move."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import evidence
import numpy as np
import pytest
from evidence import sample
from faults import DEATHS, Actor, Fate, at, lives, stand_in
from runs import Written, liking, served

from actors.host import DeviceHost
from actors.keeper import Keeper
from actors.voters import TableVoters, VoterCohort
from coordinator.protocol.ballots import Offer, Service
from coordinator.protocol.errors import InputError
from coordinator.server.fleet.cohorts import Cohorts, Layout, dealt
from coordinator.server.fleet.coordinator_actor import Coordinator
from coordinator.server.online import service
from coordinator.server.online.recommenders import PublicFacts
from coordinator.server.online.service import CLIENTS, ClientPlan, ServedClient, ServingPlan, by_coin
from coordinator.server.online.service import VOTERS as VOTING
from scenarios.families.online.online_bounds import epsilon_proved

VOTES = [[0, 0, 1, 1, 1], [0, 1, 0, 0, 1], [0, 1, 1, 0, 0], [1, 1, 0, 1, 0]]
WITH_EXTRA = [[*row, extra] for row, extra in zip(VOTES, [1, 0, 1, 1], strict=True)]
SIM_LIKES, PREC_LIKES = liking(2, [0], [0], [0], [1]), liking(2, [0, 1], [0], [0], [1])


@pytest.mark.parametrize(
    ("name", "sequence", "log_likelihood", "privacy_loss", "alive"),
    [
        ("p-rec-sim", (0, 0, 0, 1), -2.311155170482, -0.417642407907, [0]),
        ("p-rec-sim", (1, 0, 0, 0), -3.205868481536, 0.112727302508, [0]),
        ("p-rec-sim", (0, 1, 1, 1), -4.257065319537, -0.417642407907, [0]),
        ("p-rec", (0, 0, 0, 1), -2.250190304688, -0.585586616780, [0, 1, 2, 3, 4]),
        ("p-rec", (0, 1, 1, 0), -5.403780818693, -0.595129199607, [0, 1, 2, 3, 4]),
        ("p-rec-lean", (0, 1, 1, 0), -4.745982794579, -0.835284815814, [0, 3]),
    ],
)
def test_check_values(
    name: str, sequence: Sequence[int], log_likelihood: float, privacy_loss: float, alive: list[int]
) -> None:
    """Section 9, item 2: to all twelve digits."""
    likes, limit = (SIM_LIKES, 0) if name == "p-rec-sim" else (PREC_LIKES, 1)
    without, extra = (
        served(name, Written(votes, likes), sequence, diversity=limit, radius=limit) for votes in (VOTES, WITH_EXTRA)
    )
    assert without.log_likelihood == pytest.approx(log_likelihood, abs=5.1e-13)
    assert extra.log_likelihood - without.log_likelihood == pytest.approx(privacy_loss, abs=5.1e-13)
    assert extra.exposure[-1] == pytest.approx(privacy_loss, abs=5.1e-13)
    assert np.flatnonzero(without.alive).tolist() == alive


def lively(seed: int) -> Written:
    """A world in which voters die all the time."""
    world = np.random.default_rng(seed)
    votes, liked = world.integers(3, size=(17, 12)), world.integers(3, size=17)
    votes[:, :4] = np.where(world.random((17, 4)) < 0.8, liked[:, None], votes[:, :4])
    return Written(votes.tolist(), liking(3, *liked[:, None].tolist()))


def numbers_of(name: str, written: Written) -> list[object]:
    """All that a service leaves behind."""
    over = served(name, written, by_coin(bytes(range(16))), diversity=1, radius=2)
    exposure = None if np.isnan(over.exposure).any() else over.exposure.tolist()
    parts = [over.chosen, over.liked, over.survivors, over.alive, over.first_strikes, over.second_strikes]
    return [over.log_likelihood, exposure, *(part.tolist() for part in parts)]


@pytest.mark.parametrize("most", [1, 7, 40, 1 << 22])
@pytest.mark.parametrize("name", ["p-rec", "p-rec-lean", "plurality", "multiplicative-weights"])
def test_the_size_of_ballots_never_changes_the_result(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for written in map(lively, range(5)):
        usual = numbers_of(name, written)
        with monkeypatch.context() as patch:
            patch.setattr(service, "MOST_VOTES", most)
            patch.setattr(service, "MOST_ROUNDS", 5)
            written.ballots.clear()
            assert numbers_of(name, written) == usual
        assert [number for first, stop, _ in written.ballots for number in range(first, stop)] == list(range(17))
        assert all(stop - first <= max(1, min(5, most // max(len(who), 1))) for first, stop, who in written.ballots)


def test_only_survivors_are_asked_by_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [2, 3, 5, 11, 20]
    written = Written(VOTES, SIM_LIKES, addresses)
    monkeypatch.setattr(service, "MOST_ROUNDS", 1)
    over = served("p-rec-sim", written, (0, 0, 0, 1))
    assert over.electors.tolist() == addresses
    assert [who for _, _, who in written.ballots] == [addresses, [2, 3], [2], [2]]


def test_an_invited_voter_that_stays_away_shows_and_one_that_is_not_invited_does_not() -> None:
    """What the threat model says of it, in numbers: p-REC_sim, 20 voters of one mind, 100 rounds of two objects.

    Between attendance and absence of one of them lie far more than what is proved of 19 peers; between two invitations,
    of 20 voters and of 19 who all come, less.
    """
    agreed, likes = [[0] * 20] * 100, liking(2, *[[0]] * 100)
    fewer = [row[1:] for row in agreed]
    everybody, missing, uninvited = (
        served("p-rec-sim", Written(votes, likes), [0] * 100, voters=invited).log_likelihood
        for votes, invited in ((agreed, 20), (fewer, 20), (fewer, 19))
    )
    assert missing == pytest.approx(-100 * math.log(2))  # nobody's votes are used
    proved = epsilon_proved("p-rec-sim", 100, 2, 20, 19, 0, 0)
    assert proved is not None
    assert abs(everybody - uninvited) <= proved
    page = (Path(__file__).parents[3] / "docs/explanation/threat-model.md").read_text(encoding="utf-8")
    sentence = f"by {everybody - missing:.1f} nats, although the bound for two lists is {proved:.2f}."
    assert sentence in " ".join(page.split())


@pytest.mark.parametrize(("addresses", "voter"), [(None, 2), ([4, 7, 9], 9)])
def test_a_wrong_vote_is_the_voters_at_its_address(addresses: list[int] | None, voter: int) -> None:
    """Where not all devices take part, a voter's place among the others is not its address."""
    written = Written([[0, 1, 1], [1, 0, 2], [0, 0, 0]], liking(2, [0], [0], [0]), addresses)
    with pytest.raises(InputError, match=rf"^round 1: voter {voter} votes for object 2, .* from 0 to 1$"):
        served("p-rec", written, (0, 0, 0), radius=3)


def test_a_vote_of_the_dead_is_not_looked_at() -> None:
    """Ballots ask for several rounds ahead, so votes of voters that die meanwhile are there, too."""
    votes = [[0, 0, 1], [0, 0, 200]]
    over = served("p-rec-sim", Written(votes, liking(2, [0], [0])), (0, 0))
    assert over.survivors.tolist() == [3, 2]


def test_an_object_without_probability_is_never_recommended() -> None:
    pick = by_coin(bytes(16))
    assert {pick(number, np.array([0.0, 1.0, 0.0])) for number in range(200)} == {1}


VOTERS, ROUNDS, BUDGET = 12, 6, Fraction(2)
SECRET, COIN = evidence.derive(2, "devices"), evidence.derive(3, "coin")
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
    facts = PublicFacts(rounds=ROUNDS, objects=2)
    services = [
        Service(client=number, recommender="p-rec", rounds=ROUNDS, objects=2, epsilon=epsilon, own_device=own_device)
        for number, (epsilon, own_device) in enumerate(COSTS)
    ]
    clients = tuple(ClientPlan(service=service, facts=facts, coin=COIN) for service in services)
    return ServingPlan(clients=clients, voters=VOTERS)


def run(fate: Fate = lives, coordinators: int = 1) -> tuple[list[tuple[list[int], list[int]]], int]:
    """Serve the clients; return who took part and what was recommended, and how many processes died.

    Further coordinators go on after some clients that were served before, and serve all others once more.
    """
    keeper, bounds = Keeper(), [(0, 4), (4, 6), (6, VOTERS)]
    kind = partial(VoterCohort, budget=BUDGET)
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


@pytest.mark.few(1)
@pytest.mark.parametrize("coordinators", sample([1, 2, 4], 2))
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
            for k in {*sample(range(number), 4), number - 1}:
                assert run(at(name, k, how), coordinators) == (undisturbed, 1), (how, name, k)
