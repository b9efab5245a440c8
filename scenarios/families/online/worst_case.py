"""Exact worst cases of p-REC_sim, over all voters, clients and recommendations: epsilon, and expected loss."""

import math

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import Promise, recommender_of
from coordinator.server.online.weighting import Weighting, chances
from scenarios.families.online.online_bounds import check

MOST_ROUNDS_TRIED = 3e8  # Ways to vote that one programme tries at most: minutes
MOST_EPSILON_VOTERS = {2: 4000, 3: 300}  # Voters up to which the programme ends within seconds, by objects


def epsilon_exact(
    recommender: str, *, rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int
) -> float | None:
    """Return a recommender's exact worst-case privacy loss [nats]."""
    named = recommender_of(recommender)
    promise = Promise(rounds=rounds, objects=objects, diversity=diversity, radius=radius, peers=peers, voters=voters)
    if named.proved_epsilon is not None and named.proved_epsilon(promise) == 0:
        return 0.0
    if "epsilon" not in named.exact or diversity + radius or voters > MOST_EPSILON_VOTERS.get(objects, 0):
        return None
    return max(worst_case_sim(voters, peers, rounds, objects, sharp=named.sharp))


def worst_case_sim(
    voters: int, peers: int, rounds: int, objects: int = 2, *, sharp: bool = False
) -> tuple[float, float]:
    """Return the largest log-likelihood ratios of any recommended sequence when one voter is added.

    The result in nats.

    >>> [round(epsilon, 6) for epsilon in worst_case_sim(20, 5, 100)]
    [3.057735, 2.26223]
    """
    check(rounds, objects, voters, peers)
    if objects > 3 or (sharp and objects != 2):
        raise InputError(
            f"objects is {objects}: the exact worst case is computed for 2 (p-rec-sharp) or 2 and 3 objects"
        )
    tried = math.comb(voters + objects, objects) - math.comb(peers + objects - 1, objects)
    if tried > MOST_ROUNDS_TRIED:
        raise InputError(
            f"voters is {voters}, objects {objects}: the exact worst case tries {tried:.1e} ways to vote, more than "
            f"{MOST_ROUNDS_TRIED:.0e}; give fewer voters, or take the proved bound"
        )
    weighting = Weighting(rounds=rounds, objects=objects, sharp=sharp)
    worst = worst_by_survivors(voters, peers, objects, float(rounds), weighting.steepness, weighting.part)
    return float(worst[0].max()), float(worst[1].max())


@compiled
def worst_by_survivors(voters: int, peers: int, objects: int, rounds: float, steepness: float, part: int) -> Floats2:
    """Return the most that a sequence can become likelier (row 0) and less likely (row 1), by n survivors."""
    # Object 0 is recommended; the added voter votes for it, or for object 1. If it is struck, the programme ends; else
    # n is what survives. P peers need one liked object: the recommended one, or another one if it is disliked. Where
    # nobody dies nothing leaks: all voters agree, or nobody votes for what is recommended.
    worst = np.zeros((2, voters + 1))
    sums = np.zeros(objects)
    for n in range(peers, voters + 1):
        for first in range(n + 1):
            rest = n - first
            for second in range(rest if objects == 2 else 0, rest + 1):
                sums[0], sums[1] = first, second
                if objects == 3:
                    sums[2] = rest - second
                alone = math.log(chances(sums, rounds, steepness, part)[0])
                sums[0] += 1
                agrees = math.log(chances(sums, rounds, steepness, part)[0]) - alone
                sums[0] -= 1
                sums[1] += 1
                differs = math.log(chances(sums, rounds, steepness, part)[0]) - alone
                may_like = first >= peers
                may_dislike = max(second, rest - second) >= peers
                for sign in range(2):
                    up = agrees if sign == 0 else -agrees
                    down = differs if sign == 0 else -differs
                    best = worst[sign, n]
                    if may_like:
                        best = max(best, up + (worst[sign, first] if first < n else 0.0), down)
                    if may_dislike:
                        best = max(best, up, down + (worst[sign, rest] if first > 0 else 0.0))
                    worst[sign, n] = best
    return worst


MOST_STEPS = 3e10  # Splits that one programme tries at most: a minute
MOST_VOTERS = 5000


def worst_loss_sim(voters: int, peers: int, rounds: int, *, sharp: bool = False) -> float:
    """Return the most disliked recommendations that p-REC_sim expects, m = 2.

    >>> round(worst_loss_sim(16, 2, 50), 12)
    2.439543291059
    """
    check(rounds, 2, voters, peers)
    steps = rounds * float(voters) ** 2 / 2
    if steps > MOST_STEPS or voters > MOST_VOTERS:
        raise InputError(
            f"rounds is {rounds} and voters {voters}: the exact loss takes {steps:.1e} steps of at most "
            f"{MOST_STEPS:.0e}, and at most {MOST_VOTERS} voters; give fewer, or take the bound"
        )
    weighting = Weighting(rounds=rounds, objects=2, sharp=sharp)
    table = disliked_chances(voters, float(rounds), weighting.steepness, weighting.part)
    return float(worst_by_round(table, peers, rounds)[peers:].max())


@compiled
def disliked_chances(voters: int, rounds: float, steepness: float, part: int) -> Floats:
    """Return the probability of object 1 by survivors n and those c of them that vote for it, shape (N + 1, N + 1)."""
    table = np.zeros((voters + 1, voters + 1))
    sums = np.zeros(2)
    for n in range(1, voters + 1):
        for c in range(n + 1):
            sums[0], sums[1] = n - c, c
            table[n, c] = chances(sums, rounds, steepness, part)[1]
    return table


@compiled
def worst_by_round(table: Floats, peers: int, rounds: int) -> Floats:
    """Return the worst expected loss of ``rounds`` rounds by survivors n, where P of them must stay."""
    worst = np.zeros(table.shape[0])
    for _ in range(rounds):
        # From most survivors to fewest: a split leads to fewer, of whom the last round's value is still there.
        for n in range(table.shape[0] - 1, peers - 1, -1):
            best = 0.0
            for c in range(n - peers + 1):
                best = max(best, table[n, c] + worst[n - c])
            worst[n] = best
    return worst
