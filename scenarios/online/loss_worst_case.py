"""p-REC_sim's exact worst-case expected loss for two objects, over all voters and clients (D = R = 0).

Source: the spec's section 4. Whatever is recommended, those who vote for the disliked object die: either the client
dislikes what they vote for, or likes what they do not vote for. So the state is the number n of survivors.
"""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.server.online.weighting import Weighting, chances
from scenarios.online.conditions import check

MOST_STEPS = 3e10
"""Splits that one programme tries at most: a minute."""
MOST_VOTERS = 5000


def worst_loss_sim(voters: int, peers: int, rounds: int, *, sharp: bool = False) -> float:
    """Return the most disliked recommendations that p-REC_sim expects, m = 2.

    Parameters
    ----------
    voters : int
        At most N voters.
    peers : int
        P of them never vote for a disliked object.
    rounds : int
        T.
    sharp : bool
        Whether for the tuned weighting.

    Returns
    -------
    float
        Exact, also for adversaries that adapt to earlier recommendations.

    Raises
    ------
    InputError
        If sizes would not end, or no client and no voters have these numbers.

    Examples
    --------
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
    found = np.zeros((voters + 1, voters + 1))
    sums = np.zeros(2)
    for n in range(1, voters + 1):
        for c in range(n + 1):
            sums[0], sums[1] = n - c, c
            found[n, c] = chances(sums, rounds, steepness, part)[1]
    return found


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
