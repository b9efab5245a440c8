"""Worlds of real ratings: rounds, likes, skipped rounds, P, D and R against a few users counted by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import reference
from runs import write_movielens

from actors.voters import VoterCohort
from coordinator.protocol.errors import InputError
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_worlds import LEAST_ROUNDS, ClientWorld, OnlineWorld, world_of_ratings

VOTE_PURPOSE = 9
SIX: dict[str, list[float]] = {
    "ann": [5, 5, 5, 1, 1, 1],  # likes the first three of six titles
    "bob": [5, 4.5, 4, 2, 1.5, 1],  # likes the same and always knows best
    "dan": [3, 3, 3, 3, 3, 3],  # likes nothing above her own mean, so she is never a client
    "eve": [1, 1.5, 2, 4, 4.5, 5],  # likes the others
}
"""Ratings of titles a to f, in order of names."""


def small_file(folder: Path) -> Path:
    """Six titles and four users."""
    lines = [
        f"{user},{title},{value}\n" for user, row in SIX.items() for title, value in zip("abcdef", row, strict=True)
    ]
    path = folder / "ratings.csv"
    path.write_text("user,item,rating\n" + "".join(lines))
    return path


def world_of_file(path: Path, **changes: Any) -> OnlineWorld:
    """The world of a file."""
    return world_of_ratings(OnlineScenario.model_validate({"ratings": path, **changes}))


def client_of(path: Path, **changes: Any) -> ClientWorld:
    """The only client of a file's world."""
    return world_of_file(path, **changes).clients[0]


def known_peers(path: Path, seed: int, radius: int) -> set[str]:
    """Peers within a radius, but for dan, who draws; nobody where there are too few."""
    try:
        client = client_of(path, rounds=2, seed=seed, radius=radius)
    except InputError:
        return set()
    return {user for user, peer in zip(SIX, client.peer, strict=True) if peer} - {"dan"}


@pytest.mark.parametrize("seed", range(12))
def test_four_users_by_hand(seed: int, tmp_path: Path) -> None:
    """Three pairs of six titles: in D both are liked, as many are skipped, and the rest tells friend from foe."""
    path = small_file(tmp_path)
    client = client_of(path, rounds=2, seed=seed, radius=2)
    name = client.name.removeprefix("user ")
    likes = {title for title, value in enumerate(SIX[name]) if value > 3}
    assert client.titles is not None
    shown = client.titles.tolist()
    assert len({title for row in shown for title in row}) == 4
    assert all(client.client.answer(t, k) == (row[k] in likes) for t, row in enumerate(shown) for k in (0, 1))
    assert client.diversity == sum(set(row) <= likes for row in shown)
    assert client.diversity <= client.skipped <= 1
    mixed = 2 - client.diversity
    taste = {"ann": 0, "bob": 0, "eve": 1}
    far = {user: mixed * (taste[user] != taste[name]) for user in taste if user != name}
    for radius in range(3):
        assert known_peers(path, seed, radius) == {user for user in far if far[user] <= radius}
    assert (client.own_device, client.voters) == (list(SIX).index(name), 3)


class Rated(NamedTuple):
    """A file, and its ratings by user and title number."""

    path: Path
    rows: list[dict[int, float]]


@pytest.fixture
def rated_world(tmp_path: Path) -> Rated:
    """Thirty users who rated 20 to 70 of 80 titles with half stars, so that there are ties and unrated titles."""
    world = np.random.default_rng(12)
    quality, rows = world.normal(3, 1, 80), list[dict[int, float]]()
    for user in range(30):
        titles = world.permutation(80)[: 20 + 50 * user // 29]
        values = np.clip(np.round(2 * (quality[titles] + world.normal(0, 0.7, titles.size))) / 2, 0.5, 5)
        rows.append(dict(zip(titles.tolist(), values.tolist(), strict=True)))
    told = [(user, title, value) for user, row in enumerate(rows) for title, value in row.items()]
    return Rated(write_movielens(tmp_path / "ratings.csv", told), rows)


def liked_titles(row: dict[int, float]) -> set[int]:
    """Titles above a user's own mean."""
    return {title for title, value in row.items() if value > sum(row.values()) / len(row) + 1e-9}


def vote_of(rated_world: Rated, world: OnlineWorld, client: ClientWorld, user: int, number: int) -> int:
    """The oracle's vote of a user: the title it rates best, ties and unrated by its coin."""
    assert client.titles is not None
    asked, row = titles_of(rated_world, client)[number], rated_world.rows[user]
    known = [row[title] for title in asked if title in row]
    best = [place for place, title in enumerate(asked) if not known or row.get(title) == max(known)]
    series = [int(word) for word in client.service("p-rec", None).series]
    key = reference.device_secret(reference.derive(world.scenario.seed, "devices"), user)
    return best[reference.below(reference.siphash_words(key, VOTE_PURPOSE, *series, 0), number, len(best))]


def titles_of(rated_world: Rated, client: ClientWorld) -> list[list[int]]:
    """A client's rounds in the file's own numbers: the file numbers titles from 1, the table in order of all labels."""
    labels = sorted({title for row in rated_world.rows for title in row})
    assert client.titles is not None
    return [[labels[title] for title in row] for row in client.titles.tolist()]


@pytest.mark.parametrize(("objects", "seed"), [(2, 0), (2, 1), (3, 0), (3, 5)])
def test_rounds_likes_and_peers_are_measured(objects: int, seed: int, rated_world: Rated) -> None:
    """Every user that is a client: its titles once each, skipped rounds counted, distances by the oracle's votes."""
    world = world_of_file(rated_world.path, objects=objects, clients=4, rounds=8, seed=seed, radius=3, peers=None)
    assert len({client.own_device for client in world.clients}) == 4
    for client in world.clients:
        assert client.own_device is not None
        row, rounds = rated_world.rows[client.own_device], titles_of(rated_world, client)
        likes = liked_titles(row)
        assert client.name == f"user {client.own_device + 1}"
        assert client.rounds == len(rounds) == 8
        assert all(title in row for asked in rounds for title in asked)
        assert len({title for asked in rounds for title in asked}) == 8 * objects
        assert all(client.client.answer(t, k) == (rounds[t][k] in likes) for t in range(8) for k in range(objects))
        assert client.diversity == sum(len(likes & set(asked)) > 1 for asked in rounds)
        for user in range(30):
            far = sum(rounds[t][vote_of(rated_world, world, client, user, t)] not in likes for t in range(8))
            assert client.peer[user] == (far <= 3 and user != client.own_device)


@pytest.mark.parametrize("objects", [2, 3])
def test_rounds_in_which_the_client_likes_nothing_are_skipped_and_counted(objects: int, rated_world: Rated) -> None:
    """Without a number of rounds all titles are asked about, but for a rest of less than m."""
    skipped = 0
    for seed in range(6):
        client = client_of(rated_world.path, objects=objects, seed=seed)
        assert client.own_device is not None
        row = rated_world.rows[client.own_device]
        assert client.rounds >= max(LEAST_ROUNDS, objects)
        assert client.rounds + client.skipped == len(row) // objects
        assert all(liked_titles(row) & set(asked) for asked in titles_of(rated_world, client))
        skipped += client.skipped
    assert skipped > 0


def test_likes_may_start_at_a_rating(rated_world: Rated) -> None:
    client = client_of(rated_world.path, like_from=4, rounds=5)
    assert client.own_device is not None
    row = rated_world.rows[client.own_device]
    for number, asked in enumerate(titles_of(rated_world, client)):
        assert [client.client.answer(number, place) for place in (0, 1)] == [row[title] >= 4 for title in asked]


def test_clients_follow_from_the_seed_and_not_from_the_recommender(rated_world: Rated) -> None:
    def content(**changes: Any) -> list[object]:
        return [
            [one.name, None if one.titles is None else one.titles.tolist(), one.peer.tolist(), one.radius]
            for one in world_of_file(rated_world.path, clients=3, **changes).clients
        ]

    assert content(seed=1) == content(seed=1, recommender="plurality")
    assert content(seed=1) != content(seed=2)
    assert content(seed=1)[:2] == [
        [one.name, None if one.titles is None else one.titles.tolist(), one.peer.tolist(), one.radius]
        for one in world_of_file(rated_world.path, clients=2, seed=1).clients
    ]


def test_the_clients_own_device_is_no_peer_and_no_voter(rated_world: Rated) -> None:
    """Its own ratings would make it the best peer of all."""
    world = world_of_file(rated_world.path, rounds=6)
    (client,) = world.clients
    assert client.own_device is not None
    service = client.service("random", None)
    assert service.own_device == client.own_device
    taking = VoterCohort(world.voters, world.secret, 0, 30, None).enter(service)
    assert sorted([*taking.tolist(), client.own_device]) == list(range(30))
    assert client.voters == 29


@pytest.mark.parametrize("radius", [5, 6, 7, 1000])
def test_a_radius_beyond_all_rounds_makes_no_peer_of_the_clients_own_device(radius: int, rated_world: Rated) -> None:
    client = client_of(rated_world.path, rounds=6, radius=radius)
    assert client.own_device is not None
    assert not client.peer[client.own_device]
    assert client.voters == 29
    assert client.peers == 29 or radius == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": 1000}, ["clients is 1", "0 of 30 users", "1000 rounds of 2 titles"]),
        ({"clients": 31}, ["clients is 31", "of 30 users", "fewer clients"]),
        ({"objects": 100}, ["0 of 30 users", "100 titles"]),
        ({"like_from": 6}, ["0 of 30 users"]),
        ({"like_from": math.nan}, ["like_from", "nan", "finite"]),
        ({"diversity": 0}, ["diversity is 0", "several objects", "give at least"]),
        ({"radius": 0, "peers": 29}, ["peers is 29", "within radius 0", "radius must be at least"]),
        ({"columns": ("who", "what", "stars")}, ["who", "userId, movieId, rating"]),
    ],
)
def test_what_the_file_does_not_have_is_told_in_one_line(
    changes: dict[str, Any], words: list[str], rated_world: Rated
) -> None:
    with pytest.raises(InputError) as raised:
        world_of_file(rated_world.path, **changes)
    line = str(raised.value)
    assert "\n" not in line
    assert all(word in line for word in words), line


def test_more_peers_than_voters_are_refused_without_promising_a_radius(rated_world: Rated) -> None:
    with pytest.raises(InputError) as raised:
        world_of_file(rated_world.path, rounds=6, peers=30)
    assert "peers is 30" in str(raised.value)
    assert "radius must be at least" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file '.*none\.csv'"):
        world_of_file(tmp_path / "none.csv")
