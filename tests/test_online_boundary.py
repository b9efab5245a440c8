"""The trust boundary of online recommendation: who imports whom, and all that crosses, held against a list.
The coordinator is trusted with votes, and with nothing else: not with tastes, ratings, peers or secrets."""

import dataclasses
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from messages import SEED, forged, shows_a_secret
from runs import planted_ratings, write_movielens

from actors.voters import Client, PlantedVoters, RatingVoters, VoterCohort
from coordinator.protocol.arrays import Indices
from coordinator.protocol.ballots import Ballot, Service, Votes
from coordinator.protocol.budget import PrivacyParameter
from coordinator.server.online import service as serving
from coordinator.server.online.recommenders import PublicFacts
from coordinator.server.online.service import Pick, Served, by_coin, serve
from scenarios.backends import on_ray
from scenarios.backends.selection import InProcess
from scenarios.families.online.online_run import OnlineResult, run_online
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_worlds import planted_world

ARRAYS = ["chosen", "liked", "electors", "survivors", "exposure", "alive", "first_strikes", "second_strikes"]
ALLOWED: dict[type, dict[str, tuple[type, ...]]] = {
    Service: {
        "client": (int,),
        "recommender": (str,),
        "rounds": (int,),
        "objects": (int,),
        "epsilon": (PrivacyParameter, type(None)),
        "titles": (np.ndarray, type(None)),
        "own_device": (int, type(None)),
    },
    Ballot: {"service": (Service,), "first": (int,), "stop": (int,)},
    Votes: {"service_id": (bytes,), "first": (int,), "electors": (np.ndarray,), "votes": (np.ndarray,)},
    PublicFacts: {
        **dict.fromkeys(["rounds", "objects", "diversity", "radius", "peers", "voters"], (int,)),
        "epsilon": (float,),
    },
    Served: {**dict.fromkeys(ARRAYS, (np.ndarray,)), "log_likelihood": (float,)},
}
"""What may cross, the names of its fields and what they hold."""


def check(value: object) -> None:
    """Fail at a type, a field or a field's content that is not on the list."""
    fields = ALLOWED[type(value)]
    assert {field.name for field in dataclasses.fields(value)} == set(fields)  # type: ignore[arg-type] # on the list
    assert not hasattr(value, "__dict__"), "something could be put beside the fields"
    for name, kinds in fields.items():
        part = getattr(value, name)
        assert type(part) in kinds, f"{type(value).__name__}.{name} is a {type(part)}"
        if type(part) in ALLOWED:
            check(part)


class Wire:
    """All that crossed: what voters and clients were asked and answered, and what the coordinator was handed."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answered: list[Any] = []
        self.offered: list[tuple[int, int, int, bool]] = []
        self.handed: list[Any] = []


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """A tap on both sides of every run in this process."""
    tap = Wire()

    class Tapped(VoterCohort):
        def enter(self, service: Service) -> Indices:
            found = super().enter(service)
            tap.asked.append(service)
            tap.answered.append(found)
            return found

        def vote(self, ballot: Ballot, electors: Indices) -> Votes:
            votes = super().vote(ballot, electors)
            tap.asked += [ballot, electors]
            tap.answered.append(votes)
            return votes

    truly = Client.answer

    def answer(self: Client, round_number: int, chosen: int) -> bool:
        liked = truly(self, round_number, chosen)
        tap.offered.append((self.number, round_number, chosen, liked))
        return liked

    def tapped(service: Service, facts: PublicFacts, transport: Any, pick: Any, **others: Any) -> Served:
        served = serve(service, facts, transport, pick, **others)
        tap.handed += [service, facts, served]
        return served

    monkeypatch.setattr("scenarios.families.online.online_run.VoterCohort", Tapped)
    monkeypatch.setattr(serving, "serve", tapped)
    monkeypatch.setattr(Client, "answer", answer)
    return tap


def here(**changes: Any) -> OnlineResult:
    """A run in this process whose seed would be recognised."""
    scenario = OnlineScenario.model_validate({"seed": SEED, **changes})
    return run_online(scenario, InProcess(2), devices_per_actor=60)


@pytest.fixture(params=["planted", "ratings"])
def run(request: pytest.FixtureRequest, wire: Wire, tmp_path: Path) -> OnlineResult:
    """Two clients served."""
    if request.param == "planted":
        return here(rounds=70, clients=2, voters=200, budget=1000)
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=150, items=60, each=55))
    return here(ratings=file, clients=2)


def test_nothing_crosses_but_what_is_on_the_list(run: OnlineResult, wire: Wire) -> None:
    assert {type(value) for value in wire.asked} == {Service, Ballot, np.ndarray}
    assert {type(value) for value in wire.answered} == {Votes, np.ndarray}
    assert {type(value) for value in wire.handed} == {Service, PublicFacts, Served}
    for value in [*wire.asked, *wire.answered, *wire.handed]:
        if type(value) is np.ndarray:
            assert (value.dtype, value.ndim) == (np.int32, 1), "addresses"
            assert (np.diff(value) > 0).all()
            assert value.max(initial=0) < run.world.voters.users
        else:
            check(value)


def test_a_vote_is_one_object_a_round_and_no_more(run: OnlineResult, wire: Wire) -> None:
    ballots = {(one.service.id, one.first): one for one in wire.asked if type(one) is Ballot}
    for votes in (value for value in wire.answered if type(value) is Votes):
        ballot = ballots[votes.service_id, votes.first]
        assert votes.votes.dtype == np.uint8
        assert votes.votes.shape == (ballot.stop - ballot.first, votes.electors.size)
        assert votes.votes.max(initial=0) < run.scenario.objects


def test_a_client_is_shown_a_recommendation_a_round_and_answers_it(run: OnlineResult, wire: Wire) -> None:
    """The coordinator learns what the client says of the object that it recommended, and of no other."""
    expected = [
        (client.world.client.number, number, chosen, liked)
        for client in run.clients
        for number, (chosen, liked) in enumerate(
            zip(client.served.chosen.tolist(), client.served.liked.tolist(), strict=True)
        )
    ]
    assert wire.offered == expected
    assert all(type(part) in {int, bool} for offer in wire.offered for part in offer)


def private_parts(run: OnlineResult) -> Iterator[bytes]:
    """What only voters, clients and the experimenter know, as bytes."""
    for client in run.clients:
        rounds, objects = client.world.rounds, client.world.objects
        likes = [[client.world.client.answer(t, k) for k in range(objects)] for t in range(rounds)]
        yield np.array(likes).tobytes()
    voters = run.world.voters
    if isinstance(voters, PlantedVoters):
        yield from (voters.client.tobytes(), voters.taste[0].tobytes(), voters.diverse[0].tobytes())
    elif isinstance(voters, RatingVoters):
        yield from (getattr(voters.rows, name).tobytes() for name in ("items", "values", "starts"))


def peers_of(run: OnlineResult) -> Iterator[bytes]:
    """Who the peers are, as bytes; at the end they may be the only survivors, which is no secret of the coordinator."""
    for client in run.clients:
        peers = np.flatnonzero(client.world.peer)
        yield from (client.world.peer.tobytes(), peers.tobytes(), peers.astype(np.int32).tobytes())


def test_no_taste_no_rating_no_peer_and_no_secret_is_in_what_crosses(run: OnlineResult, wire: Wire) -> None:
    crossed = [*wire.asked, *wire.answered, *wire.handed, *wire.offered]
    stream = pickle.dumps(crossed)
    assert not shows_a_secret(crossed, SEED)
    assert not shows_a_secret([repr(value) for value in crossed], SEED)
    for secret in private_parts(run):
        assert secret not in stream
    handed = pickle.dumps([value for value in wire.handed if type(value) is not Served])
    assert not any(peers in handed for peers in peers_of(run))
    assert run.world.secret not in stream
    for client in run.clients:
        assert client.world.name.encode() not in stream
    assert str(run.scenario.ratings).encode() not in stream or run.scenario.ratings is None


def test_the_search_would_find_them(run: OnlineResult) -> None:
    stream = pickle.dumps([run.world, [client.world for client in run.clients]])
    assert shows_a_secret([run.scenario, run.world.secret], SEED)
    assert any(secret in stream for secret in private_parts(run))
    assert any(peers in stream for peers in peers_of(run))


def test_nobody_sees_coins_of_the_coordinator(run: OnlineResult, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    coins: list[bytes] = []

    def tossed(coin: bytes) -> Pick:
        coins.append(coin)
        return by_coin(coin)

    monkeypatch.setattr(serving, "by_coin", tossed)
    run_online(run.scenario, InProcess(1))
    stream = pickle.dumps([*wire.asked, *wire.answered, *wire.offered])
    assert len(coins) == len(set(coins)) == 2
    assert not any(coin in stream or shows_a_secret(coin, SEED) for coin in coins)


def test_strangers_are_stopped(run: OnlineResult) -> None:
    client, smuggled = run.clients[0], cast("Any", run.clients[0].world.client)
    for stranger in (run.world, run.world.voters, client.world, client.world.client, run.scenario):
        with pytest.raises(KeyError):
            check(stranger)
    with pytest.raises(AssertionError):
        check(forged(client.world.service("p-rec", None), client=smuggled))


def test_on_ray_the_coordinator_is_handed_addresses_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opinions, likes and the secret go to devices' hosts; the coordinator gets handles, services and its own coins."""
    started, killed = dict[str, list[Any]](), list[str]()

    def starting(name: str) -> Any:
        def start(*arguments: Any, **others: Any) -> str:
            started.setdefault(name, []).append((*arguments, *others.values()))
            return f"handle of {name} {len(started[name])}"

        return start

    def conducted(work: Any, devices: Any, *_: Any) -> Any:
        started["coordinator"] = [work.plan, devices, work.layout]
        raise KeyboardInterrupt

    monkeypatch.setattr(on_ray, "_await_end", lambda _: None)
    monkeypatch.setattr(on_ray, "ray", SimpleNamespace(put=lambda _: "reference", kill=killed.append))
    monkeypatch.setattr(on_ray, "start_host", starting("devices"))
    monkeypatch.setattr(
        on_ray,
        "start_keeper",
        lambda _: SimpleNamespace(actor="handle of keeper", end=lambda: killed.append("the keeper")),
    )
    monkeypatch.setattr(on_ray, "run_supervised", conducted)
    scenario = OnlineScenario(seed=SEED, rounds=50, voters=100)
    world = planted_world(scenario)
    with pytest.raises(KeyboardInterrupt):
        run_online(scenario, on_ray.OnRay(2), devices_per_actor=30, world=world)
    plan, devices, _ = started["coordinator"]
    hosts = [f"handle of devices {number}" for number in range(1, 6)]
    voters, clients = devices["voters"], devices["clients"]
    assert (voters.bounds, voters.hosts) == ([(0, 30), (30, 60), (60, 90), (90, 100)], hosts[:4])
    assert (clients.bounds, clients.hosts) == ([(0, len(world.clients))], hosts[4:])
    for one in plan.clients:
        check(one.service)
        check(one.facts)
    assert not shows_a_secret(started["coordinator"], SEED)
    stream = pickle.dumps(started["coordinator"])
    assert world.secret not in stream
    assert all(arguments[2] == world.secret for arguments in started["devices"])
    assert sorted(killed) == sorted([*hosts, "the keeper"])
