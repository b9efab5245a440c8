"""Planted worlds and what the experimenter measures in any world, against counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from actors.client import Client
from actors.voters import PlantedVoters
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import named_recommenders
from scenarios.families.online.bounds import epsilon_proved
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_worlds import (
    ClientWorld,
    OnlineWorld,
    all_votes,
    best_radius,
    distances,
    likes_of,
    measured,
    planted_world,
)


def world_of(**changes: object) -> OnlineWorld:
    """A planted world."""
    return planted_world(OnlineScenario.model_validate({"rounds": 40, "voters": 30, **changes}))


def liked_by(client: Client, rounds: int, objects: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """What a client answers to everything."""
    return np.array([[client.answer(t, k) for k in range(objects)] for t in range(rounds)])


def test_likes_are_the_first_object_and_in_diverse_rounds_the_next() -> None:
    taste, diverse = np.array([0, 2, 2, 1], np.uint8), np.array([0, 1, 0, 1], np.bool_)
    assert likes_of(taste, diverse, 3).astype(int).tolist() == [[1, 0, 0], [1, 0, 1], [0, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("objects", "diversity", "radius"), [(2, 0, 0), (2, 5, 5), (3, 40, 2), (5, 3, 40), (256, 1, 1)]
)
@pytest.mark.parametrize("clients", [1, 3])
def test_a_planted_world_has_the_peers_diversity_and_radius_that_were_asked_for(
    objects: int, diversity: int, radius: int, clients: int
) -> None:
    world = world_of(objects=objects, diversity=diversity, radius=radius, clients=clients, seed=objects)
    assert len(world.clients) == clients
    together = np.zeros(30, int)
    for number, client in enumerate(world.clients):
        likes = liked_by(client.client, 40, objects)
        votes = all_votes(world.voters, world.secret, client.service("p-rec", None))
        far = [sum(not likes[t, votes[t, v]] for t in range(40)) for v in range(30)]
        assert votes.shape == (40, 30)
        assert votes.max() < objects
        assert distances(votes, likes).tolist() == far
        assert sum(row.sum() > 1 for row in likes) == diversity
        assert set(likes.sum(axis=1).tolist()) <= {1, 2}
        assert client.peers == 4
        assert max(far[v] for v in np.flatnonzero(client.peer)) <= radius
        assert (client.client.number, client.name) == (number, f"client {number}")
        assert (client.voters, client.rounds, client.objects) == (30, 40, objects)
        assert (client.diversity, client.radius, client.skipped) == (diversity, radius, 0)
        together += client.peer
    assert together.max() == 1, "nobody is the peer of two clients"


def test_the_world_follows_from_the_seed_and_not_from_the_recommender() -> None:
    def content(world: OnlineWorld) -> tuple[bytes, ...]:
        assert isinstance(world.voters, PlantedVoters)
        votes = all_votes(world.voters, world.secret, world.clients[0].service("p-rec", None))
        return world.voters.taste.tobytes(), world.voters.diverse.tobytes(), votes.tobytes(), world.secret

    usual = content(world_of(seed=4))
    for name in named_recommenders():
        assert content(world_of(seed=4, recommender=name, diversity=5, radius=5)) == usual
    assert not set(content(world_of(seed=5))) & set(usual)


def test_clients_share_the_voters() -> None:
    """A voter's votes are the same whoever is served."""
    world = world_of(clients=3)
    votes = [all_votes(world.voters, world.secret, one.service("random", None)).tolist() for one in world.clients]
    assert votes[0] == votes[1] == votes[2]


def test_services_and_promises_say_what_the_client_is() -> None:
    client = world_of(clients=2).clients[1]
    service = client.service("p-rec-lean", None)
    assert (service.client, service.recommender, service.rounds, service.objects) == (1, "p-rec-lean", 40, 2)
    assert (service.titles, service.own_device, service.epsilon) == (None, None, None)
    promise = client.promise(peers=2, epsilon=3.0)
    assert (promise.rounds, promise.objects, promise.diversity, promise.radius) == (40, 2, 5, 5)
    assert (promise.peers, promise.epsilon, client.promise().peers) == (2, 3.0, 4)


LIKES = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 1, 0]], np.bool_)
FAR = np.array([0, 1, 1, 3, 2, 3])


def measure(**claims: object) -> ClientWorld:
    """Measure a client of diversity 2 among six voters at distances 0, 1, 1, 3, 2 and 3."""
    world = ClientWorld(
        client=Client(0, LIKES), rounds=5, objects=3, diversity=0, radius=0, peer=np.zeros(6, np.bool_), name="she"
    )
    scenario = OnlineScenario.model_validate({"world": "w.toml", "objects": 3, **claims})
    return measured(world, LIKES, FAR, scenario)


@pytest.mark.parametrize(("radius", "peers"), [(0, 1), (1, 3), (2, 4), (3, 6), (4, 6)])
def test_peers_are_those_within_the_radius(radius: int, peers: int) -> None:
    found = measure(radius=radius)
    assert (found.diversity, found.radius, found.peers) == (2, radius, peers)
    assert found.peer.tolist() == [far <= radius for far in FAR.tolist()]


def test_claims_may_be_wider_than_what_is_measured() -> None:
    found = measure(diversity=4, radius=2, peers=3)
    assert (found.diversity, found.radius, found.peers) == (4, 2, 4)


UNTRUE = {
    "diversity": ({"diversity": 1}, "diversity is 1, but she likes several objects in 2 rounds; give at least 2"),
    "peers": (
        {"radius": 1, "peers": 4},
        "peers is 4, but she has 3 voters within radius 1; the radius must be at least 2 for that",
    ),
}


@pytest.mark.parametrize("name", UNTRUE)
def test_claims_that_the_population_does_not_keep_are_refused_with_the_number(name: str) -> None:
    claims, line = UNTRUE[name]
    with pytest.raises(InputError) as raised:
        measure(**claims)
    assert str(raised.value) == line


def test_more_peers_than_voters_are_refused_without_promising_a_radius() -> None:
    """No radius makes seven peers of six voters."""
    with pytest.raises(InputError, match=r"peers is 7, .*6 voters") as raised:
        measure(radius=1, peers=7)
    assert "radius must be at least" not in str(raised.value)


@pytest.mark.parametrize("objects", [2, 3, 4])
def test_without_a_radius_it_is_the_one_that_needs_the_least_epsilon(objects: int) -> None:
    """Of p-rec, over all radii, also those at which nobody is; a device beyond all rounds is never a peer."""
    world = np.random.default_rng(objects)
    for _ in range(30):
        far = world.integers(0, 9, size=int(world.integers(1, 40)))
        shape: dict[str, int] = {
            "rounds": 8,
            "objects": objects,
            "voters": far.size,
            "diversity": int(world.integers(4)),
        }
        bounds = {
            radius: epsilon_proved("p-rec", peers=max(int(sum(far <= radius)) - 1, 1), radius=radius, **shape)
            or math.nan
            for radius in range(int(far.min()), 9)
        }
        likes = np.eye(objects, dtype=np.bool_)[np.zeros(8, int)]
        client = ClientWorld(
            client=Client(0, likes),
            rounds=8,
            objects=objects,
            diversity=shape["diversity"],
            radius=0,
            peer=np.zeros(far.size + 1, np.bool_),
            own_device=far.size,
        )
        assert client.voters == far.size
        assert bounds[best_radius(np.append(far, 9), client)] == pytest.approx(min(bounds.values()), rel=1e-12)


def test_distances_of_nobody() -> None:
    assert distances(np.empty((5, 0), np.uint8), LIKES).shape == (0,)
