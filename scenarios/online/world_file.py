"""A world written down by hand: one client's rounds, who votes for what and what the client likes, as TOML.

objects = 2
votes = [[0, 0, 1], [0, 1, 0]]     # a row a round, a number a voter
likes = [[0], [0, 1]]              # a row a round: the objects that the client likes
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from actors.client import Client
from actors.voters import TableVoters
from coordinator.protocol.arrays import Bits2, Bools2
from coordinator.protocol.errors import InputError
from scenarios.given.files import read_toml
from scenarios.online.config import OnlineScenario
from scenarios.online.worlds import ClientWorld, World, distances, measured


def world_from_file(scenario: OnlineScenario, path: Path) -> World:
    """Return the world that a TOML file writes down.

    Raises
    ------
    InputError
        If it cannot be read; with the round and the number where a voter votes for none or several objects, where an
        object is none of the round's, or the client likes nothing.
    """
    values = _read(path)
    objects = values.get("objects", scenario.objects)
    if type(objects) is not int or not 2 <= objects <= 256:
        raise InputError(f"objects is {objects!r} in {path}; it must be a whole number from 2 to 256")
    if "objects" in scenario.model_fields_set and scenario.objects != objects:
        raise InputError(f"objects is {scenario.objects}, but {path} has rounds of {objects}; leave it out")
    return written_world(scenario, values["votes"], values["likes"], objects)


def written_world(scenario: OnlineScenario, votes: Any, likes: Any, objects: int) -> World:
    """Return a world of one client from rows of votes and of liked objects; see `world_from_file`."""
    if not isinstance(votes, list) or not isinstance(likes, list) or len(votes) != len(likes):
        raise InputError("votes and likes must be lists with one row a round, as many of each")
    if len(votes) < 2:
        raise InputError(f"the world has {len(votes)} rounds; write at least 2")
    table = read_votes(votes, objects)
    liked = read_likes(likes, objects)
    world = ClientWorld(
        client=Client(0, liked),
        rounds=len(votes),
        objects=objects,
        diversity=0,
        radius=0,
        peer=np.zeros(table.shape[1], np.bool_),
        name="the client",
    )
    voters = TableVoters(table=table, group=np.arange(table.shape[1], dtype=np.int32))
    client = measured(world, liked, distances(table, liked), scenario)
    return World(scenario=scenario, voters=voters, clients=(client,))


def read_votes(rows: Sequence[Any], objects: int) -> Bits2:
    """Return votes as uint8, shape (T, N); refuse a voter that votes for no object, or for two, naming the round."""
    voters = len(rows[0]) if isinstance(rows[0], list) else 0
    if not voters:
        raise InputError("round 0: nobody votes; write a list with a number a voter")
    table = np.empty((len(rows), voters), np.uint8)
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != voters or not voters:
            count = len(row) if isinstance(row, list) else 0
            raise InputError(
                f"round {number}: {count} voters, but round 0 has {voters}; every voter votes in every round"
            )
        for voter, vote in enumerate(row):
            table[number, voter] = _one(vote, f"round {number}: voter {voter}", objects)
    return table


def _one(vote: Any, who: str, objects: int) -> int:
    marks = vote if isinstance(vote, list) else [vote]
    if len(marks) != 1:
        raise InputError(f"{who} votes for {len(marks)} objects {marks}; a voter votes for exactly one")
    if type(marks[0]) is not int or not 0 <= marks[0] < objects:
        raise InputError(f"{who} votes for object {marks[0]!r}, which is none of {objects}: 0 to {objects - 1}")
    return marks[0]


def read_likes(rows: Sequence[Any], objects: int) -> Bools2:
    """Return likes as bool, shape (T, m); refuse objects that are none of the round's."""
    likes = np.zeros((len(rows), objects), np.bool_)
    for number, row in enumerate(rows):
        for liked in row if isinstance(row, list) else [row]:
            likes[number, _one(liked, f"round {number}: the client", objects)] = True
    return likes


def _read(path: Path) -> dict[str, Any]:
    values = read_toml(path, "world file")
    for name in ("votes", "likes"):
        if name not in values:
            raise InputError(f"world file {path} has no {name}; it needs votes and likes, a row a round each")
    for name in values:
        if name not in ("votes", "likes", "objects"):
            raise InputError(f"world file {path} has an unknown key {name!r}; known are objects, votes, likes")
    return values
