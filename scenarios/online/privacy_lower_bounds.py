"""What epsilon no algorithm, or not p-REC, can go below.

Source: Gilbert, Liu, Yu, Theorems 7 and 15, with the bookkeeping of the spec's section 7.
"""

from __future__ import annotations

import math

from coordinator.protocol.errors import InputError
from scenarios.online.conditions import check, two_patterns

PAPER_SHARE = 0.0061
"""Theorem 15's constant: (3/32) d(3/4 || 1/2) / 2, the paper's thresholds."""


def theorem_7(rounds: int, objects: int, voters: int, peers: int, loss: float) -> float:
    """Return what epsilon any algorithm needs whose expected loss is at most ``loss`` where D = R = 0.

    Parameters
    ----------
    rounds, objects, voters, peers : int
        T, m, N and P, ``N >= 2P``.
    loss : float
        Expected disliked recommendations, above 0.

    Returns
    -------
    float
        ``ln(T / 2L) / P`` nats; 0 where that is negative.

    Raises
    ------
    InputError
        If ``N < 2P``, or no client and no voters have these numbers.

    Examples
    --------
    >>> round(theorem_7(10**6, 2, 80, 40, 5.0), 6)
    0.287823
    """
    _check(rounds, objects, voters, peers, 0, 0, loss)
    return max(0.0, math.log(rounds / (2 * loss)) / peers)


def theorem_15(rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int, loss: float) -> float:
    """Return what epsilon any algorithm needs with D and R, by the paper's thresholds.

    Returns
    -------
    float
        ``0.0061 (D + R) / P`` nats where ``L <= T / 69`` and ``1 <= D + R <= T / 4``, else 0: it says nothing there.
    """
    _check(rounds, objects, voters, peers, diversity, radius, loss)
    if loss > rounds / 69 or not 1 <= diversity + radius <= rounds / 4:
        return 0.0
    return PAPER_SHARE * (diversity + radius) / peers


def epsilon_needed(
    rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int, loss: float | None
) -> float | None:
    """Return what epsilon any algorithm needs that promises a loss for all clients and voters with these numbers.

    Parameters
    ----------
    rounds, objects, voters, peers, diversity, radius : int
        T, m, N, P, D and R.
    loss : float or None
        What the expected loss is proved to be at most; None where nothing is.

    Returns
    -------
    float or None
        The larger of Theorem 7's, whose worlds with D = R = 0 are among these, and Theorem 15's [nats]. None without a
        loss, or where ``N < 2P``, so that the theorems' two groups of peers do not fit.
    """
    if loss is None or loss <= 0 or voters < 2 * peers:
        return None
    needed = theorem_7(rounds, objects, voters, peers, loss)
    return max(needed, theorem_15(rounds, objects, voters, peers, diversity, radius, loss))


def conjecture(rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int, loss: float) -> float:
    """Return our strengthening of Theorem 15: a conjecture with an argument that nobody else has reviewed.

    Returns
    -------
    float
        ``3/64 (D + R) / P [(1 - eta) ln(T / 68.3 L) - ln 2]`` nats with ``L = max(loss, 0.03 (D + R) ln T)`` and
        ``eta = 256/15 L/T``; 0 where that is negative, ``eta > 1/8``, or ``D + R`` is not from 1 to T/4.

    Notes
    -----
    A loss of L makes an algorithm follow a lone voter with probability 1 - O(L/T), so each disagreement of the two
    patterns costs ln(T/L) nats and not O(1). If it holds, it closes the paper's gap of a factor log T (constant m).
    """
    _check(rounds, objects, voters, peers, diversity, radius, loss)
    both = diversity + radius
    at_least = max(loss, 0.03 * both * math.log(rounds))
    eta = 256 / 15 * at_least / rounds
    if eta > 1 / 8 or not 1 <= both <= rounds / 4:
        return 0.0
    return max(0.0, 3 / 64 * both / peers * ((1 - eta) * math.log(rounds / (68.3 * at_least)) - math.log(2)))


def own_lower_bound(rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int) -> float:
    """Return what epsilon p-REC itself has at least, by its chain of 2P adjacent patterns (`chains`).

    Returns
    -------
    float
        ``(D + R) ln(m (T - 1) + 1) / 2P`` nats; for m = 2, ``(D + R) ln(2T - 1) / 2P``. Of p-rec, wide, lean, sharp.

    Raises
    ------
    InputError
        If ``N < 2P`` or ``D + R > T``: the chain does not fit.
    """
    _check(rounds, objects, voters, peers, diversity, radius, 1.0)
    if diversity + radius > rounds:
        raise InputError(f"diversity {diversity} and radius {radius} do not fit into {rounds} rounds; give D + R <= T")
    return (diversity + radius) * math.log(objects * (rounds - 1) + 1) / (2 * peers)


def _check(rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int, loss: float) -> None:
    check(rounds, objects, voters, peers, diversity, radius)
    two_patterns(voters, peers)
    if not loss > 0:
        raise InputError(f"loss is {loss}: a lower bound by the loss needs one above 0; give the expected loss")
