"""Worlds, planted, of ratings and written down, and what is measured in them, against counting by hand."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import evidence
import numpy as np
import pytest
from runs import Command, complains, planted_ratings, present, refused, write_movielens

from actors.voters import Client, PlantedVoters, VoterCohort
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import named_recommenders
from scenarios.config.settings import validated
from scenarios.families.online.online_bounds import epsilon_proved
from scenarios.families.online.online_run import build_world
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_worlds import (
    LEAST_ROUNDS,
    ClientWorld,
    OnlineWorld,
    all_votes,
    best_radius,
    distances,
    measured,
    planted_world,
    world_from_file,
)


def world_of(**changes: object) -> OnlineWorld:
    return planted_world(OnlineScenario.model_validate({"rounds": 40, "voters": 30, **changes}))


def liked_by(client: Client, rounds: int, objects: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    return np.array([[client.answer(t, k) for k in range(objects)] for t in range(rounds)])


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


LIKES = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 1, 0]], np.bool_)
FAR = np.array([0, 1, 1, 3, 2, 3])


def measure(**claims: object) -> ClientWorld:
    """Measure a client of diversity 2 among six voters at distances 0, 1, 1, 3, 2 and 3."""
    world = ClientWorld(
        client=Client(0, LIKES), rounds=5, objects=3, diversity=0, radius=0, peer=np.zeros(6, np.bool_), name="she"
    )
    scenario = OnlineScenario.model_validate({"world": "w.toml", "objects": 3, **claims})
    return measured(world, FAR, scenario)


@pytest.mark.parametrize(("radius", "peers"), [(0, 1), (1, 3), (2, 4), (3, 6), (4, 6)])
def test_peers_are_those_within_the_radius(radius: int, peers: int) -> None:
    found = measure(radius=radius)
    assert (found.diversity, found.radius, found.peers) == (2, radius, peers)
    assert found.peer.tolist() == [far <= radius for far in FAR.tolist()]


def test_claims_may_be_wider_than_what_is_measured() -> None:
    found = measure(diversity=4, radius=2, peers=3)
    assert (found.diversity, found.radius, found.peers) == (4, 2, 4)


UNTRUE: dict[str, dict[str, int]] = {
    "diversity is 1, but she likes several objects in 2 rounds; give at least 2": {"diversity": 1},
    "peers is 4, but she has 3 voters within radius 1; the radius must be at least 2 for that": {
        "radius": 1,
        "peers": 4,
    },
    # No radius makes seven peers of six voters.
    "peers is 7, but she has 6 voters; give at most that": {"radius": 1, "peers": 7},
}


@pytest.mark.parametrize("line", UNTRUE)
def test_claims_that_the_population_does_not_keep_are_refused_with_the_number(line: str) -> None:
    with pytest.raises(InputError, match=f"^{line}$"):
        measure(**UNTRUE[line])


@pytest.mark.parametrize("objects", [2, 3, 4])
def test_without_a_radius_it_is_the_one_that_needs_the_least_epsilon(objects: int) -> None:
    """Of p-rec, over all radii, also those at which nobody is; a device beyond all rounds is never a peer."""
    world = np.random.default_rng(objects)
    for _ in range(30):
        far = world.integers(0, 9, size=int(world.integers(1, 40)))
        shape = {"rounds": 8, "objects": objects, "voters": far.size, "diversity": int(world.integers(4))}
        bounds = {
            radius: epsilon_proved("p-rec", peers=max(int((far <= radius).sum()) - 1, 1), radius=radius, **shape)
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


GOOD = """
objects = 3
votes = [[0, 0, 1, 2], [0, 1, 0, 2], [2, 1, 1, 2]]
likes = [[0], [0, 1], 2]
"""


def written(text: str, tmp_path: Path, **claims: object) -> OnlineWorld:
    path = tmp_path / "world.toml"
    path.write_text(text)
    return world_from_file(OnlineScenario.model_validate({"world": path, **claims}), path)


def test_a_file_is_votes_by_round_and_what_the_client_likes(tmp_path: Path) -> None:
    world = written(GOOD, tmp_path)
    (client,) = world.clients
    votes = all_votes(world.voters, world.secret, client.service("p-rec", None))
    assert votes.tolist() == [[0, 0, 1, 2], [0, 1, 0, 2], [2, 1, 1, 2]]
    assert [[client.client.answer(t, k) for k in range(3)] for t in range(3)] == [
        [True, False, False],
        [True, True, False],
        [False, False, True],
    ]
    assert (client.rounds, client.objects, client.voters, client.diversity, client.skipped) == (3, 3, 4, 1, 0)


def rows(votes: str, likes: str = "[[0], [0]]") -> str:
    return f"votes = {votes}\nlikes = {likes}"


BAD_FILES: dict[str, tuple[str, list[str]]] = {
    "two objects": (rows("[[0, 0], [1, [0, 1]]]"), ["round 1", "voter 1", "2 objects", "exactly one"]),
    "no object": (rows("[[0, []], [1, 1]]"), ["round 0", "voter 1", "0 objects", "exactly one"]),
    "an object that is none": (rows("[[0, 1], [2, 1]]"), ["round 1", "voter 0", "object 2", "0 to 1"]),
    "a vote that is no number": (rows('[[0, "a"], [1, 1]]'), ["round 0", "voter 1", "'a'"]),
    "a voter that is missing": (rows("[[0, 1], [1]]"), ["round 1", "1 voters", "round 0 has 2"]),
    "a round that is no list": (rows("[[0, 1], 1]"), ["round 1"]),
    "nothing liked": (rows("[[0, 1], [1, 1]]", "[[0], []]"), ["round 1", "likes none of 2 objects"]),
    "a like that is none": (rows("[[0, 1], [1, 1]]", "[[0], [2]]"), ["round 1", "the client", "object 2", "0 to 1"]),
    "one round": (rows("[[0, 1]]", "[[0]]"), ["1 rounds", "at least 2"]),
    "nobody votes": (rows("[[], []]"), ["round 0: nobody votes"]),
    "rows that do not match": (rows("[[0], [1]]", "[[0]]"), ["votes and likes", "as many of each"]),
    "objects": ("objects = 1\n" + rows("[[0], [0]]"), ["objects is 1", "world.toml", "2 to 256"]),
    "objects that are no number": ('objects = "two"\n' + rows("[[0], [0]]"), ["objects is 'two'", "2 to 256"]),
    "no likes": ("votes = [[0], [0]]", ["world.toml", "no likes"]),
    "no votes": ("likes = [[0], [0]]", ["world.toml", "no votes"]),
    "unknown key": ("peers = 3\n" + rows("[[0], [0]]"), ["unknown key 'peers'", "objects, votes, likes"]),
    "no TOML": ("votes = [[0", ["world.toml", "no TOML"]),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_mistake_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    text, words = BAD_FILES[name]
    with complains(*words):
        written(text, tmp_path)


def test_objects_that_the_file_contradicts_are_refused(tmp_path: Path) -> None:
    """Not ignored: the run would be about another number of objects than was asked for."""
    with pytest.raises(InputError, match=r"objects"):
        written(GOOD, tmp_path, objects=4)


@pytest.mark.parametrize("name", ["random", "plurality", "dsybil"])
def test_fewer_rounds_than_objects_are_enough_where_no_bound_needs_more(name: str, tmp_path: Path) -> None:
    """Theorem P's T >= m is p-rec's business."""
    client = written("objects = 3\nvotes = [[0, 1], [2, 1]]\nlikes = [0, 2]", tmp_path, recommender=name).clients[0]
    assert (client.rounds, client.objects, client.peers) == (2, 3, 1)


VOTE_PURPOSE = 9


def world_of_file(path: Path, **changes: Any) -> OnlineWorld:
    return build_world(OnlineScenario.model_validate({"ratings": path, **changes}))


def client_of(path: Path, **changes: Any) -> ClientWorld:
    return world_of_file(path, **changes).clients[0]


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
    asked, row = titles_of(rated_world, client)[number], rated_world.rows[user]
    known = [row[title] for title in asked if title in row]
    best = [place for place, title in enumerate(asked) if not known or row.get(title) == max(known)]
    series = [int(word) for word in client.service("p-rec", None).series]
    key = evidence.device_secret(evidence.derive(world.scenario.seed, "devices"), user)
    return best[evidence.below(evidence.siphash_words(key, VOTE_PURPOSE, *series, 0), number, len(best))]


def titles_of(rated_world: Rated, client: ClientWorld) -> list[list[int]]:
    """A client's rounds in the file's own numbers: the file numbers titles from 1, the table in order of all labels."""
    labels = sorted({title for row in rated_world.rows for title in row})
    return [[labels[title] for title in row] for row in present(client.titles).tolist()]


@pytest.mark.parametrize(("objects", "seed"), [(2, 0), (2, 1), (3, 0), (3, 5)])
def test_rounds_likes_and_peers_are_measured(objects: int, seed: int, rated_world: Rated) -> None:
    """Every user that is a client: its titles once each, skipped rounds counted, distances by the oracle's votes."""
    world = world_of_file(rated_world.path, objects=objects, clients=4, rounds=8, seed=seed, radius=3, peers=None)
    assert len({client.own_device for client in world.clients}) == 4
    for client in world.clients:
        row, rounds = rated_world.rows[present(client.own_device)], titles_of(rated_world, client)
        likes = liked_titles(row)
        assert client.name == f"user {present(client.own_device) + 1}"
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
        row = rated_world.rows[present(client.own_device)]
        assert client.rounds >= max(LEAST_ROUNDS, objects)
        assert client.rounds + client.skipped == len(row) // objects
        assert all(liked_titles(row) & set(asked) for asked in titles_of(rated_world, client))
        skipped += client.skipped
    assert skipped > 0


def test_likes_may_start_at_a_rating(rated_world: Rated) -> None:
    client = client_of(rated_world.path, like_from=4, rounds=5)
    row = rated_world.rows[present(client.own_device)]
    for number, asked in enumerate(titles_of(rated_world, client)):
        assert [client.client.answer(number, place) for place in (0, 1)] == [row[title] >= 4 for title in asked]


def test_clients_follow_from_the_seed_and_not_from_the_recommender(rated_world: Rated) -> None:
    def content(clients: int = 3, **changes: Any) -> list[object]:
        return [
            [one.name, present(one.titles).tolist(), one.peer.tolist(), one.radius]
            for one in world_of_file(rated_world.path, clients=clients, **changes).clients
        ]

    assert content(seed=1) == content(seed=1, recommender="plurality")
    assert content(seed=1) != content(seed=2)
    assert content(seed=1)[:2] == content(2, seed=1)


def test_the_clients_own_device_is_no_peer_and_no_voter(rated_world: Rated) -> None:
    """Its own ratings would make it the best peer of all."""
    world = world_of_file(rated_world.path, rounds=6)
    (client,) = world.clients
    service = client.service("random", None)
    assert service.own_device == client.own_device
    taking = VoterCohort(world.voters, world.secret, 0, 30, None).enter(service)
    assert sorted([*taking.tolist(), present(client.own_device)]) == list(range(30))
    assert client.voters == 29


@pytest.mark.parametrize("radius", [5, 6, 7, 1000])
def test_a_radius_beyond_all_rounds_makes_no_peer_of_the_clients_own_device(radius: int, rated_world: Rated) -> None:
    client = client_of(rated_world.path, rounds=6, radius=radius)
    assert not client.peer[present(client.own_device)]
    assert client.voters == 29
    assert client.peers == 29 or radius == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": 1000}, ["clients is 1", "0 of 30 users", "1000 rounds of 2 titles"]),
        ({"clients": 31}, ["clients is 31", "of 30 users", "fewer clients"]),
        ({"objects": 100}, ["0 of 30 users", "100 titles"]),
        ({"like_from": 6}, ["0 of 30 users"]),
        ({"diversity": 0}, ["diversity is 0", "several objects", "give at least"]),
        ({"radius": 0, "peers": 29}, ["peers is 29", "within radius 0", "radius must be at least"]),
        ({"rounds": 6, "peers": 30}, ["peers is 30", "29 voters; give at most that"]),
        ({"columns": ("who", "what", "stars")}, ["who", "userId, movieId, rating"]),
    ],
)
def test_what_the_file_does_not_have_is_told_in_one_line(
    changes: dict[str, Any], words: list[str], rated_world: Rated
) -> None:
    with complains(*words):
        world_of_file(rated_world.path, **changes)


# An online scenario, as a value and as it is typed: what it fills in, results and folders, and what it refuses.


def told(scenario: OnlineScenario) -> tuple[int | None, ...]:
    """T, N, P, D and R."""
    return scenario.rounds, scenario.voters, scenario.peers, scenario.diversity, scenario.radius


def test_the_random_environment_is_what_nothing_says_otherwise() -> None:
    assert told(OnlineScenario()) == (1000, 256, 4, 5, 5)
    assert told(OnlineScenario(rounds=70, radius=0)) == (70, 256, 4, 5, 0)
    assert told(OnlineScenario(rounds=None, peers=None)) == (1000, 256, 4, 5, 5)


def test_p_rec_sim_is_for_clients_and_peers_that_never_stray() -> None:
    assert told(OnlineScenario(recommender="p-rec-sim")) == (1000, 256, 4, 0, 0)
    assert told(OnlineScenario(recommender="p-rec-sim", radius=2)) == (1000, 256, 4, 0, 2)


def test_files_bring_their_own_numbers() -> None:
    for source in ({"ratings": Path("r.csv")}, {"world": Path("w.toml")}):
        assert told(OnlineScenario.model_validate(source)) == (None,) * 5
        claimed = OnlineScenario.model_validate({**source, "peers": 3, "diversity": 1, "radius": 2})
        assert told(claimed) == (None, None, 3, 1, 2)


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"recommender": "p-wreck"}, ["recommender is 'p-wreck'", "p-rec, p-rec-sim"]),
    ({"rounds": 1}, ["rounds is 1", "2"]),
    ({"rounds": 10**9}, ["rounds", "100000000"]),
    ({"objects": 1}, ["objects is 1", "2"]),
    ({"voters": 0}, ["voters is 0", "1"]),
    ({"voters": 3}, ["voters is 3", "fewer than 4 peers"]),
    ({"voters": 11, "clients": 3}, ["voters is 11", "4 peers for each of 3 clients"]),
    ({"peers": 257}, ["voters is 256", "257 peers"]),
    ({"diversity": 21, "rounds": 20}, ["diversity is 21", "20 rounds"]),
    ({"rounds": 4}, ["diversity is 5", "4 rounds"]),
    ({"clients": 0}, ["clients is 0", "1"]),
    ({"budget": 0}, ["budget", "is 0", "above 0"]),
    ({"budget": 3, "recommender": "plurality"}, ["budget is 3", "plurality"]),
    ({"budget": 3, "recommender": "p-rec-literal"}, ["budget is 3", "p-rec-literal"]),
    ({"epsilon": 2}, ["epsilon is 2", "naive"]),
    ({"epsilon": -2, "recommender": "naive"}, ["epsilon", "-2", "above 0"]),
    ({"recommender": "p-rec-sharp", "objects": 3}, ["objects is 3", "p-rec-sharp"]),
    ({"columns": ("a", "b", "c")}, ["columns", "--ratings"]),
    ({"like_from": 3.0}, ["like_from is 3.0", "--ratings"]),
    ({"ratings": Path("r.csv"), "world": Path("w.toml")}, ["world is w.toml", "r.csv"]),
    ({"ratings": Path("r.csv"), "voters": 30}, ["voters is 30", "r.csv"]),
    ({"world": Path("w.toml"), "voters": 30}, ["voters is 30", "w.toml"]),
    ({"world": Path("w.toml"), "clients": 2}, ["clients is 2", "w.toml"]),
    ({"likes": 3}, ["'likes'", "unknown"]),
    ({"attack": "halving"}, ["attack is halving", "nobody lies"]),
    ({"malicious": 0.1, "attack": "promote:3"}, ["attack is 'promote:3'", "halving"]),
    ({"malicious": 1.5}, ["malicious is 1.5", "less than 1"]),
]


@pytest.mark.parametrize(("values", "words"), WRONG, ids=[" ".join(values) for values, _ in WRONG])
def test_what_is_wrong_is_told_in_one_line(values: dict[str, Any], words: list[str]) -> None:
    with complains(*words):
        validated(OnlineScenario, None, values)


HERE = ["online", "--backend", "inprocess"]


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """Twenty-five users who rated 50 of 60 titles."""
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=25, items=60, each=50))


@pytest.fixture
def nobody_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a voter is asked to take part."""

    def entered(*_: object) -> None:
        raise AssertionError("a voter was asked")

    monkeypatch.setattr("actors.voters.VoterCohort.enter", entered)


FLAGS: dict[str, list[str]] = {
    "--rounds many": ["--rounds", "'many'", "integer"],
    "--objects 3 --rounds 2 --diversity 0 --radius 0": ["rounds is 2", "objects 3", "T >= m"],
    "--epsilon x --recommender naive": ["epsilon is x", "number"],
    "--epsilon 1e400 --recommender naive": ["epsilon"],
    "--columns a": ["columns", "'a'", "three"],
    "--world {tmp}/none.toml": ["none.toml", "cannot be read"],
    "--ratings {tmp}/none.csv": ["none.csv"],
    "--ratings {tmp}/ratings.csv --clients 26": ["clients is 26", "25 users"],
    "--ratings {tmp}/ratings.csv --radius 0 --peers 24": ["peers is 24", "within radius 0"],
    "--out {tmp}": ["output folder", "another run"],
    "--json {tmp}": ["json file", "is a folder"],
    "{tmp}/none.toml": ["scenario file", "none.toml"],
}


@pytest.mark.usefixtures("nobody_votes", "ratings")
@pytest.mark.parametrize("flags", FLAGS)
def test_flags_that_are_wrong(flags: str, blindrec: Command, tmp_path: Path) -> None:
    line = refused(blindrec, *HERE, *flags.replace("{tmp}", str(tmp_path)).split())
    assert all(word in line for word in FLAGS[flags]), line
