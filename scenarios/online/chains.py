"""The adversaries of the lower bounds on epsilon: chains of adjacent patterns, with the coordinator's own code.

Source: Gilbert, Liu, Yu, Claim 1 (in Theorem 7) and Theorem 15, as the spec's section 7 reconstructs them. If a
sequence is likely under one pattern and unlikely under another, the steps between share the difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Bits2, Bools2, Indices
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommender import Promise
from coordinator.server.online.service import by_sequence
from scenarios.online.conditions import check
from scenarios.online.replay import Pattern, likes_of, replay


class ChainStep(NamedTuple):
    """One step of a chain: one voter more, or one less.

    Attributes
    ----------
    step : int
        From 1.
    first, second : int
        Voters of either group after the step.
    ratio : float
        ``ln Pr[sequence]`` before the step, less after it [nats]; at most epsilon.
    total : float
        Sum of the ratios so far [nats].
    """

    step: int
    first: int
    second: int
    ratio: float
    total: float


def claim_1(rounds: int, peers: int, *, recommender: str = "p-rec-sim", objects: int = 2) -> list[ChainStep]:
    """Return Claim 1's chain, in which D = R = 0.

    In one round P voters vote for each of two objects; the one that the client dislikes is recommended. Its voters are
    removed one by one. In all other rounds everybody agrees, so that one before and one after stand for all.

    Parameters
    ----------
    rounds, peers : int
        T, in the weighting, and P.
    recommender : str
        Which one is measured.
    objects : int
        m.

    Returns
    -------
    list of ChainStep
        P steps; for p-rec-sim with two objects their total is ln T exactly, from 1/2 to 1/2T.

    Examples
    --------
    >>> steps = claim_1(1000, 10)
    >>> round(steps[-1].total, 9), round(max(step.ratio for step in steps), 6)
    (6.907755279, 1.721811)
    """
    check(rounds, objects, 2 * peers, peers)
    votes: Bits2 = np.array([[0, 0], [0, 1], [0, 0]], np.uint8)
    likes = likes_of([(0,)] * 3, objects)
    sizes = [(peers, left) for left in range(peers, -1, -1)]
    promise = Promise(rounds=rounds, objects=objects, peers=peers)
    return _chain(recommender, promise, likes, votes, sizes, [0, 1, 0])


def theorem_15_chain(
    rounds: int, peers: int, diversity: int, radius: int, *, recommender: str = "p-rec", objects: int = 2
) -> list[ChainStep]:
    """Return Theorem 15's chain against p-REC itself.

    The client likes object 0, in D rounds object 1, too. P voters always vote for object 0, P others for object 1 in
    those D rounds and in R more, where it is disliked. Object 0 is recommended throughout. From the first P voters the
    chain leads to all 2P, and then to the second P. Rounds in which all agree leak nothing; one stands for them.

    Parameters
    ----------
    rounds, peers, diversity, radius : int
        T, in the weighting, P, D and R; ``D + R <= T``.
    recommender : str
        Which one is measured.
    objects : int
        m.

    Returns
    -------
    list of ChainStep
        2P steps; for p-rec with two objects their total is ``(D + R) ln(2T - 1)`` exactly.

    Raises
    ------
    InputError
        If the rounds do not hold D + R disagreements.

    Examples
    --------
    >>> round(theorem_15_chain(8, 3, 2, 1)[-1].total, 12)
    8.124150603307
    """
    check(rounds, objects, 2 * peers, peers, diversity, radius)
    apart = diversity + radius
    if apart > rounds:
        raise InputError(f"diversity {diversity} and radius {radius} do not fit into {rounds} rounds; give D + R <= T")
    played = min(rounds, apart + 1)
    votes: Bits2 = np.zeros((played, 2), np.uint8)
    votes[:apart, 1] = 1
    likes = likes_of([(0, 1)] * diversity + [(0,)] * (played - diversity), objects)
    joining = [(peers, more) for more in range(peers + 1)]
    leaving = [(left, peers) for left in range(peers - 1, -1, -1)]
    promise = Promise(rounds=rounds, objects=objects, diversity=diversity, radius=radius, peers=peers)
    return _chain(recommender, promise, likes, votes, joining + leaving, [0] * played)


def _chain(
    recommender: str,
    promise: Promise,
    likes: Bools2,
    votes: Bits2,
    sizes: list[tuple[int, int]],
    sequence: list[int],
) -> list[ChainStep]:
    """Return the steps between patterns of two groups of voters."""
    pick = by_sequence(np.array(sequence, np.uint8))
    logs = [
        replay(recommender, promise, Pattern(likes=likes, votes=votes, group=groups(*size)), pick).log_likelihood
        for size in sizes
    ]
    steps, total = list[ChainStep](), 0.0
    for number in range(1, len(sizes)):
        ratio = logs[number - 1] - logs[number]
        total += ratio
        steps.append(ChainStep(number, *sizes[number], ratio, total))
    return steps


def groups(first: int, second: int) -> Indices:
    """Return the columns of ``first`` voters of the first group and ``second`` of the second."""
    return np.repeat(np.arange(2, dtype=np.int32), [first, second])
