"""Worlds written down: what a TOML file means, and every mistake in one line with the round and the number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coordinator.protocol.errors import InputError
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_worlds import OnlineWorld, all_votes, read_likes, read_votes, world_from_file

GOOD = """
objects = 3
votes = [[0, 0, 1, 2], [0, 1, 0, 2], [2, 1, 1, 2]]
likes = [[0], [0, 1], 2]
"""


def written(text: str, tmp_path: Path, **claims: object) -> OnlineWorld:
    """The world of a file."""
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


@pytest.mark.parametrize(("radius", "peer"), [(0, [1, 0, 0, 0]), (1, [1, 1, 0, 0]), (2, [1, 1, 1, 1])])
def test_peers_are_measured(radius: int, peer: list[int], tmp_path: Path) -> None:
    """Distances by hand: 0, 1, 2 and 2."""
    client = written(GOOD, tmp_path, radius=radius).clients[0]
    assert client.peer.astype(int).tolist() == peer


def test_two_objects_are_usual(tmp_path: Path) -> None:
    world = written("votes = [[0], [1]]\nlikes = [0, 1]", tmp_path)
    assert (world.clients[0].objects, world.clients[0].radius, world.clients[0].peers) == (2, 0, 1)


def rows(votes: str, likes: str = "[[0], [0]]") -> str:
    """A file."""
    return f"votes = {votes}\nlikes = {likes}"


BAD_FILES: dict[str, tuple[str, list[str]]] = {
    "two objects": (rows("[[0, 0], [1, [0, 1]]]"), ["round 1", "voter 1", "2 objects", "exactly one"]),
    "no object": (rows("[[0, []], [1, 1]]"), ["round 0", "voter 1", "0 objects", "exactly one"]),
    "an object that is none": (rows("[[0, 1], [2, 1]]"), ["round 1", "voter 0", "object 2", "0 to 1"]),
    "an object below": (rows("[[0, -1], [1, 1]]"), ["round 0", "voter 1", "object -1", "0 to 1"]),
    "a vote that is no number": (rows('[[0, "a"], [1, 1]]'), ["round 0", "voter 1", "'a'"]),
    "a vote that is a fraction": (rows("[[0, 0.5], [1, 1]]"), ["round 0", "voter 1", "0.5"]),
    "a vote that is true": (rows("[[0, true], [1, 1]]"), ["round 0", "voter 1", "True"]),
    "a voter that is missing": (rows("[[0, 1], [1]]"), ["round 1", "1 voters", "round 0 has 2"]),
    "a voter too many": (rows("[[0, 1], [1, 1, 1]]"), ["round 1", "3 voters", "round 0 has 2"]),
    "a round that is no list": (rows("[[0, 1], 1]"), ["round 1"]),
    "nothing liked": (rows("[[0, 1], [1, 1]]", "[[0], []]"), ["round 1", "likes none of 2 objects"]),
    "nothing liked at all": (rows("[[0, 1], [1, 1]]", "[[], []]"), ["round 0", "likes none", "in 2 rounds"]),
    "a like that is none": (rows("[[0, 1], [1, 1]]", "[[0], [2]]"), ["round 1", "the client", "object 2", "0 to 1"]),
    "one round": (rows("[[0, 1]]", "[[0]]"), ["1 rounds", "at least 2"]),
    "no round": (rows("[]", "[]"), ["0 rounds", "at least 2"]),
    "rows that do not match": (rows("[[0], [1]]", "[[0]]"), ["votes and likes", "as many of each"]),
    "votes that are no list": (rows("7"), ["votes and likes", "list"]),
    "objects": ("objects = 1\n" + rows("[[0], [0]]"), ["objects is 1", "world.toml", "2 to 256"]),
    "many objects": ("objects = 257\n" + rows("[[0], [0]]"), ["objects is 257", "2 to 256"]),
    "objects that are no number": ('objects = "two"\n' + rows("[[0], [0]]"), ["objects is 'two'", "2 to 256"]),
    "no likes": ("votes = [[0], [0]]", ["world.toml", "no likes"]),
    "no votes": ("likes = [[0], [0]]", ["world.toml", "no votes"]),
    "unknown key": ("peers = 3\n" + rows("[[0], [0]]"), ["unknown key 'peers'", "objects, votes, likes"]),
    "no TOML": ("votes = [[0", ["world.toml", "no TOML"]),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_mistake_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    text, words = BAD_FILES[name]
    with pytest.raises(InputError) as raised:
        written(text, tmp_path)
    line = str(raised.value)
    assert "\n" not in line
    assert all(word in line for word in words), line


def test_a_world_without_voters_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        written(rows("[[], []]"), tmp_path)
    assert "round 0: 0 voters, but round 0 has 0" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(InputError, match=r"none\.toml cannot be read \(No such file or directory\)"):
        world_from_file(OnlineScenario(world=path), path)


def test_objects_that_the_file_contradicts_are_refused(tmp_path: Path) -> None:
    """Not ignored: the run would be about another number of objects than was asked for."""
    with pytest.raises(InputError, match=r"objects"):
        written(GOOD, tmp_path, objects=4)


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"diversity": 0}, ["diversity is 0", "1 rounds", "at least 1"]),
        ({"radius": 0, "peers": 2}, ["peers is 2", "1 voters within radius 0", "at least 1"]),
    ],
)
def test_claims_are_checked(claims: dict[str, int], words: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        written(GOOD, tmp_path, **claims)
    assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.parametrize("name", ["random", "plurality", "dsybil"])
def test_fewer_rounds_than_objects_are_enough_where_no_bound_needs_more(name: str, tmp_path: Path) -> None:
    """Theorem P's T >= m is p-rec's business."""
    client = written("objects = 3\nvotes = [[0, 1], [2, 1]]\nlikes = [0, 2]", tmp_path, recommender=name).clients[0]
    assert (client.rounds, client.objects, client.peers) == (2, 3, 1)


def test_rows_become_tables() -> None:
    assert read_votes([[0, [1]], [2, 0]], 3).tolist() == [[0, 1], [2, 0]]
    assert read_likes([[0, 2], 1], 3).astype(int).tolist() == [[1, 0, 1], [0, 1, 0]]
    assert read_votes([[255]], 256).dtype == np.uint8
