"""The proved epsilon of p-REC for one voter more or less, in all T rounds together.

Source: Gilbert, Liu, Yu, Theorems 11 and 17; constants by Theorems P and P_sim of the spec's section 5.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommender import Promise
from coordinator.server.online.recommenders import bounded_names, recommender_of
from coordinator.server.online.weighting import Weighting
from scenarios.online.conditions import check
from scenarios.online.loss_bounds import log_phi, two_objects

_GRID = 400_001


def epsilon_proved(
    recommender: str,
    rounds: int,
    objects: int,
    voters: int,
    peers: int,
    diversity: int = 0,
    radius: int = 0,
    epsilon: float = math.inf,
) -> float | None:
    """Return the least epsilon that is proved.

    Parameters
    ----------
    recommender : str
        Its name.
    rounds, objects : int
        T and m.
    voters, peers : int
        At most N voters, at least P peers, with and without the voter in question.
    diversity, radius : int
        D and R.
    epsilon : float
        What one that takes an epsilon is given [nats].

    Returns
    -------
    float or None
        Nats; what a recommender declares of itself (0 for `random`, ``epsilon`` for `naive`), else by Theorem P; None
        where nothing is proved.

    Raises
    ------
    InputError
        If no client and no voters have these numbers, or ``T < m``.

    Examples
    --------
    >>> round(epsilon_proved("p-rec-sim", 10**6, 2, 800, 20), 3)
    3.615
    """
    check(rounds, objects, voters, peers, diversity, radius)
    two_objects(recommender, objects)
    named = recommender_of(recommender)
    if named.proved_epsilon is not None:
        shape = {"diversity": diversity, "radius": radius, "peers": peers, "voters": voters}
        return named.proved_epsilon(Promise(rounds=rounds, objects=objects, epsilon=epsilon, **shape))
    if not named.bounded_at(diversity, radius):
        return None
    found = theorem_p(recommender, rounds, objects, peers, diversity, radius, voters=voters)
    if diversity + radius == 0:  # all of them are p-REC_sim then
        first_strike = theorem_p("p-rec-sim", rounds, objects, peers, voters=voters)
        found = min(found, theorem_p_sim(rounds, peers, sharp=named.sharp) if objects == 2 else first_strike)
    return found


def theorem_p(
    recommender: str,
    rounds: int,
    objects: int,
    peers: int,
    diversity: int = 0,
    radius: int = 0,
    *,
    voters: int | None = None,
) -> float:
    """Return Theorem P's epsilon.

    Parameters
    ----------
    recommender, rounds, objects, peers, diversity, radius
        As for `epsilon_proved`.
    voters : int, optional
        N, which sharpens the terms of the voters that are struck by ``1 - P/N``.

    Raises
    ------
    InputError
        If ``T < m``, where Lemma B is not proved; or if the recommender is not by weight.

    Examples
    --------
    >>> round(theorem_p("p-rec", 10**6, 2, 40, 8, 8) * 40 / math.log(10**6), 6)
    528.0
    """
    if rounds < objects:
        raise InputError(
            f"rounds is {rounds} and objects {objects}: Theorem P needs T >= m; give more rounds or fewer objects"
        )
    named = recommender_of(recommender)
    if not named.bounded or named.weighting is None:
        bounded = ", ".join(bounded_names())
        raise InputError(f"recommender is {recommender!r}: Theorem P bounds {bounded}; choose one of them")
    limits = named.limits(diversity, radius)
    radius_strikes = limits.radius_strikes + 1
    kept = 1.0 if voters is None else 1 - peers / voters
    # Rule A limits D-strikes instead of all strikes: types (b) and (d) then have their own limit.
    strikes = min(limits.diversity_strikes, limits.strikes) + 1
    followed = 2 * (strikes * kept + diversity + radius)
    missed = radius_strikes * kept + radius
    last = strikes + radius_strikes * (1 if limits.strikes <= limits.diversity_strikes else 2)
    weighting = named.weighting(rounds, objects)
    if objects == 2:
        most = max(followed + 2 * radius_strikes, 2 * missed + strikes)
    else:
        most = (2 * objects - 1) * missed + followed + last
    return weighting.steepness / peers * most


@functools.cache
def sim_constants(rounds: int, *, sharp: bool = False) -> dict[str, float]:
    """Return Theorem P_sim's suprema for two objects.

    Parameters
    ----------
    rounds : int
        T.
    sharp : bool
        Whether for the tuned weighting.

    Returns
    -------
    dict
        ``K_a``, ``K_b``, ``K_+``, ``K_-`` and ``C_T = lambda / ln T * max(K_+, K_-)``; on a grid, not
        interval-certified.

    Examples
    --------
    >>> round(sim_constants(100)["C_T"], 4)
    4.2335
    """
    weighting = Weighting(rounds=rounds, objects=2, sharp=sharp)
    rho = 1 / weighting.part if weighting.part else 0.0
    x = np.linspace(rho, 1 - rho, _GRID)[1:-1]
    mine, other = log_phi(weighting, x), log_phi(weighting, 1 - x)
    total = np.logaddexp(mine, other)
    coin = 1 / rounds
    q = np.exp(mine - total)
    r = (1 - coin) * np.exp(weighting.steepness * x - total)
    r_other = (1 - coin) * np.exp(weighting.steepness * (1 - x) - total)
    h = (r * np.exp(other - total) + q * r_other) / (coin / 2 + (1 - coin) * q)
    k_a, k_b = float(((1 - x) * h).max()), float((x * h).max())
    k_plus = float(((1 - x) * (k_b + (1 - x) * h)).max())
    k_minus = max(k_a, float((x * (k_a + x * h)).max()))
    most = weighting.steepness / math.log(rounds) * max(k_plus, k_minus)
    return {"K_a": k_a, "K_b": k_b, "K_+": k_plus, "K_-": k_minus, "C_T": most}


def theorem_p_sim(rounds: int, peers: int, *, sharp: bool = False) -> float:
    """Return Theorem P_sim's epsilon: ``(1 + 1/P) C_T ln T / P``, for m = 2 and D = R = 0.

    Parameters
    ----------
    rounds, peers : int
        T and P.
    sharp : bool
        Whether for the tuned weighting.
    """
    return (1 + 1 / peers) * sim_constants(rounds, sharp=sharp)["C_T"] * math.log(rounds) / peers
