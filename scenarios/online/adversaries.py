"""Oblivious adversaries against the loss: Theorem 6's halving, and slow halving, as worlds of written-down votes.

Source: Gilbert, Liu, Yu, Theorem 6; constants and slow halving: the spec's sections 4 and 7.
"""

from __future__ import annotations

import numpy as np
import scipy

from actors.client import Client
from actors.voters import TableVoters
from coordinator.protocol.arrays import Bits, Bits2, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from scenarios.online.config import OnlineScenario
from scenarios.online.loss_bounds import strikes_to_die
from scenarios.online.worlds import ClientWorld, World

UNFINISHED = 1e-6
"""Chance that a split of slow halving is left before its wrong half is kicked out."""


def halving_world(scenario: OnlineScenario) -> World:
    """Return Theorem 6's adversary.

    In the first R rounds everybody votes for object 0 and the client likes an object at random. Then the voters, in
    groups of P, split in halves over objects 0 and 1, ``log2(N / P)`` times, and the half that the client likes is
    random. After that all agree with the client. One group never errs after the first part: the client's peers.

    Parameters
    ----------
    scenario : OnlineScenario
        Its rounds, objects, voters, peers, radius and seed; the client's diversity is 0.

    Raises
    ------
    InputError
        If ``N / P`` is no power of two, or there are too few rounds.
    """
    splits = splits_of(scenario)
    radius, rounds = scenario.radius or 0, scenario.rounds or 0
    if radius + splits > rounds:
        raise InputError(f"rounds is {rounds}; Theorem 6 takes {radius} + {splits} here (radius, halvings)")
    random = _random(scenario)
    path = random.integers(2, size=splits)
    liked = np.zeros(rounds, np.uint8)
    liked[:radius] = random.integers(scenario.objects, size=radius)
    liked[radius : radius + splits] = path
    table = np.zeros((rounds, 1 << splits), np.uint8)
    table[radius : radius + splits] = _halves(splits)
    return _world(scenario, table, liked, path, diversity=0)


def slow_halving_world(scenario: OnlineScenario) -> World:
    """Return slow halving: every split is repeated until strikes have surely kicked out the half that errs.

    D is promised as T, so that only R-strikes kill; the loss is about ``B log2(N / P)``, B strikes a split. Rounds are
    as many as that takes, whatever the scenario says.
    """
    splits = splits_of(scenario)
    repeats = repeats_of(strikes_to_die(scenario.recommender, 0, scenario.radius or 0))
    path = _random(scenario).integers(2, size=splits)
    table = np.repeat(_halves(splits), repeats, axis=0)
    liked = np.repeat(path, repeats).astype(np.uint8)
    rounds = max(len(table), 2)
    table, liked = np.resize(table, (rounds, 1 << splits)), np.resize(liked, rounds)
    return _world(scenario, table, liked, path, diversity=rounds)


def repeats_of(strikes: int) -> int:
    """Return after how many even rounds so many losses have come but for a chance of `UNFINISHED`."""
    count = 2 * strikes
    while scipy.stats.binom.cdf(strikes - 1, count, 0.5) > UNFINISHED:
        count += 1
    return count


def splits_of(scenario: OnlineScenario) -> int:
    """Return ``log2(N / P)``.

    Raises
    ------
    InputError
        If that is no whole number.
    """
    voters, peers = scenario.voters or 0, scenario.peers or 1
    groups = voters // peers
    if groups * peers != voters or groups & (groups - 1):
        raise InputError(f"voters is {voters}, peers {peers}; halving needs peers times a power of two as voters")
    return groups.bit_length() - 1


def _random(scenario: OnlineScenario) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(derive(scenario.seed, "world")))


def _halves(splits: int) -> Bits2:
    """Return what each of ``2**splits`` groups votes for in each split: its bits."""
    groups = np.arange(1 << splits)
    halves: Bits2 = (groups[None, :] >> np.arange(splits)[:, None] & 1).astype(np.uint8)
    return halves


def _world(scenario: OnlineScenario, table: Bits2, liked: Bits, path: Ints, *, diversity: int) -> World:
    """Return the world of these votes; beyond the splits, all vote as the client likes (object 0)."""
    rounds, groups = table.shape
    likes = np.zeros((rounds, scenario.objects), np.bool_)
    likes[np.arange(rounds), liked] = True
    group = np.repeat(np.arange(groups, dtype=np.int32), scenario.peers or 1)
    client = ClientWorld(
        client=Client(0, likes),
        rounds=rounds,
        objects=scenario.objects,
        diversity=diversity,
        radius=scenario.radius or 0,
        peer=group == int((path << np.arange(path.size)).sum()),
        name="the client",
    )
    return World(scenario=scenario, voters=TableVoters(table=table, group=group), clients=(client,))
