"""How many disliked recommendations are expected at most, and how many no algorithm can avoid."""

from __future__ import annotations

import functools
import math

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import NO_LIMIT, Promise, bounded_names, recommender_of
from coordinator.server.online.weighting import Weighting


def check(rounds: int, objects: int, voters: int, peers: int, diversity: int = 0, radius: int = 0) -> None:
    """Refuse numbers that no client and no voters can have."""
    if rounds < 2:
        raise InputError(f"rounds is {rounds}: the bounds hold for T >= 2; give at least 2")
    if objects < 2:
        raise InputError(f"objects is {objects}: a round has m >= 2 objects; give at least 2")
    if peers < 1:
        raise InputError(f"peers is {peers}: the bounds hold for P >= 1; give at least 1")
    if voters < peers:
        raise InputError(f"voters is {voters}, fewer than peers {peers}: peers are voters; give N >= P")
    if diversity < 0 or radius < 0:
        raise InputError(f"diversity is {diversity} and radius {radius}: they count rounds; give 0 or more")


def two_patterns(voters: int, peers: int) -> None:
    """Refuse numbers for which a lower bound's two groups of peers do not fit."""
    if voters < 2 * peers:
        raise InputError(
            f"voters is {voters} and peers {peers}: the lower bound sets two groups of P voters against each other; "
            "give N >= 2P"
        )


_GRID = 400_001


def loss_bound(
    recommender: str, rounds: int, objects: int, voters: int, peers: int, diversity: int = 0, radius: int = 0
) -> float | None:
    """Return how many disliked recommendations are expected at most.

    Examples
    --------
    >>> round(loss_bound("p-rec", 1000, 2, 256, 4, 5, 5), 1), round(loss_bound("p-rec-lean", 1000, 2, 256, 4, 5, 5), 1)
    (203.5, 120.3)
    """
    check(rounds, objects, voters, peers, diversity, radius)
    two_objects(recommender, objects)
    named = recommender_of(recommender)
    if named.proved_loss is not None:
        shape = {"diversity": diversity, "radius": radius, "peers": peers, "voters": voters}
        return named.proved_loss(Promise(rounds=rounds, objects=objects, **shape))
    if not named.bounded_at(diversity, radius):
        return None
    sharp = named.sharp
    coin = 1 - 1 / objects
    strikes = strikes_to_die(recommender, diversity, radius)
    bound = _credit_bound(2 * objects, voters / peers, strikes, radius) + coin + (1 if sharp else 0)
    if diversity + radius == 0:
        bound = min(bound, _first_strike_bound(rounds, objects, voters / peers, sharp=sharp))
    return bound


def loss_lower_bound(rounds: int, objects: int, voters: int, peers: int, radius: int = 0) -> float:
    """Return how many disliked recommendations any algorithm expects, private or not (Theorem 6).

    Returns
    -------
    float
        ``R (1 - 1/m) + 1/2 floor(log2(N/P))``, where T rounds suffice for that.

    Examples
    --------
    >>> loss_lower_bound(1000, 2, 64, 1, 32)
    19.0
    """
    check(rounds, objects, voters, peers, 0, radius)
    first = min(radius, rounds)
    halvings = min((voters // peers).bit_length() - 1, rounds - first)
    return first * (1 - 1 / objects) + halvings / 2


def slow_halving_loss(recommender: str, voters: int, peers: int, diversity: int = 0, radius: int = 0) -> float:
    """Return about how much the slow-halving adversary costs p-REC: ``B log2(N/P)``, for large D (spec section 4)."""
    check(2, 2, voters, peers, diversity, radius)
    return strikes_to_die(recommender, diversity, radius) * math.log2(voters / peers)


def strikes_to_die(recommender: str, diversity: int, radius: int) -> int:
    """Return B, how many R-strikes kick a voter out."""
    most = recommender_of(recommender).limits(diversity, radius).radius_strikes
    if most == NO_LIMIT:
        raise InputError(f"recommender {recommender} kicks nobody out; choose one of {', '.join(bounded_names())}")
    return most + 1


def two_objects(recommender: str, objects: int) -> None:
    """Refuse more than two objects for the weighting that knows two only."""
    if recommender_of(recommender).sharp and objects != 2:
        raise InputError(f"objects is {objects}: {recommender} weighs two objects only; give 2, or take p-rec-lean")


def _credit_bound(per_round: float, ratio: float, strikes: int, radius: int) -> float:
    """Return (L) without the hidden coin: each loss takes ``n / per_round`` of the survivors' R-credit."""
    return per_round * (radius + strikes * math.log(ratio))


def _first_strike_bound(rounds: int, objects: int, ratio: float, *, sharp: bool) -> float:
    """Return p-REC_sim's bound, with the sharp constant for two objects."""
    factor = halving_constant(rounds, sharp=sharp) if objects == 2 else -1 / math.log1p(-1 / (2 * objects))
    return factor * math.log(ratio) + 1 - 1 / objects


@functools.cache
def halving_constant(rounds: int, *, sharp: bool = False) -> float:
    """Return c_T, the most loss that a nat of ``ln(N/P)`` costs p-REC_sim where m = 2 (spec section 4).

    Examples
    --------
    >>> round(halving_constant(100), 5)
    1.10417
    """
    weighting = Weighting(rounds=rounds, objects=2, sharp=sharp)
    # Above 1 - rho the share q is 1 and the ratio falls, so the grid may end there.
    rho = 1 / weighting.part if weighting.part else 0.0
    y = np.linspace(rho, 1 - rho, _GRID)[1:-1]
    logs = log_phi(weighting, y) - log_phi(weighting, 1 - y)
    return float((np.exp(logs - np.logaddexp(0.0, logs)) / -np.log1p(-y)).max())


def log_phi(weighting: Weighting, share: Floats) -> Floats:
    """Return ``ln phi(x)`` for shares above rho, as `coordinator.server.online.weighting.chances` computes it."""
    rho = 1 / weighting.part if weighting.part else 0.0
    return np.asarray(weighting.steepness * share + np.log(-np.expm1(-weighting.steepness * (share - rho))))
