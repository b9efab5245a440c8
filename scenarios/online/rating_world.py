"""Worlds of real ratings: users are voters and clients, titles are objects, and P, D and R are measured."""

from __future__ import annotations

import numpy as np

from actors.client import Client
from actors.voters import RatingVoters
from coordinator.protocol.arrays import Bools, Bools2, Indices2
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from scenarios.data.datasets import RatingTable, read_for
from scenarios.data.rating_split import judge_likes
from scenarios.online.config import REFERENCE, OnlineScenario
from scenarios.online.worlds import ClientWorld, World, all_votes, distances, measured

LEAST_ROUNDS = 20
"""Clients have at least so many rounds, where their number is not given."""


def world_of_ratings(scenario: OnlineScenario) -> World:
    """Return the world of a ratings file: clients are drawn among its users, all other users are voters.

    A client's rounds are its rated titles in random order, ``objects`` at a time; what it rated highly it likes (above
    its own mean, or from ``like_from`` on). Rounds in which it likes nothing are skipped and counted. A voter votes for
    the title that it rates best; its own coin decides ties, and where it rated none of them.

    Raises
    ------
    InputError
        If the file cannot be read, or has too few users with enough rounds.
    """
    return world_of_table(scenario, read_for(scenario).table)


def world_of_table(scenario: OnlineScenario, table: RatingTable) -> World:
    """Return the world of ratings that were read already; see `world_of_ratings`."""
    likes = judge_likes(table, scenario.liked_from)
    voters = RatingVoters(rows=table.valued(np.asarray(table.values, np.float64)))
    least = scenario.rounds or max(LEAST_ROUNDS, scenario.objects)
    random = np.random.default_rng(int.from_bytes(derive(scenario.seed, "clients")))
    found: list[ClientWorld] = []
    for user in random.permutation(table.users):
        if len(found) == scenario.clients:
            break
        titles, liked, skipped = rounds_of(table, likes, int(user), scenario)
        if len(titles) >= least:
            number = len(found)
            shown = slice(0, scenario.rounds)
            found.append(_client(voters, table, int(user), number, titles[shown], liked[shown], skipped, scenario))
    if len(found) < scenario.clients:
        raise InputError(
            f"clients is {scenario.clients}, but only {len(found)} of {table.users} users have {least} rounds of "
            f"{scenario.objects} titles in which they like one; ask for fewer clients or rounds"
        )
    return World(scenario=scenario, voters=voters, clients=tuple(found))


def rounds_of(table: RatingTable, likes: Bools, user: int, scenario: OnlineScenario) -> tuple[Indices2, Bools2, int]:
    """Return a user's rounds: titles, int32, and likes, bool, shape (T, m) both; and how many were skipped."""
    random = np.random.default_rng(int.from_bytes(derive(scenario.seed, f"rounds of user {user}")))
    start, stop = table.starts[user], table.starts[user + 1]
    order = start + random.permutation(stop - start)
    whole = order[: order.size // scenario.objects * scenario.objects].reshape(-1, scenario.objects)
    usable = likes[whole].any(axis=1)
    kept = whole[usable]
    return table.items[kept], likes[kept], int(np.count_nonzero(~usable))


def _client(
    voters: RatingVoters,
    table: RatingTable,
    user: int,
    number: int,
    titles: Indices2,
    liked: Bools2,
    skipped: int,
    scenario: OnlineScenario,
) -> ClientWorld:
    world = ClientWorld(
        client=Client(number, liked),
        rounds=len(titles),
        objects=scenario.objects,
        diversity=0,
        radius=0,
        peer=np.zeros(table.users, np.bool_),
        titles=titles,
        own_device=user,
        skipped=skipped,
        name=f"user {table.user_labels[user]}",
    )
    votes = all_votes(voters, derive(scenario.seed, "devices"), world.service(REFERENCE, None))
    far = distances(votes, liked)
    far[user] = world.rounds + 1  # its own device does not vote
    return measured(world, liked, far, scenario)
