"""The exact worst-case privacy loss, where it can be computed within seconds."""

from __future__ import annotations

from coordinator.server.online.recommender import Promise
from coordinator.server.online.recommenders import recommender_of
from scenarios.online.sim_worst_case import worst_case_sim
from scenarios.online.tiny_worst_case import Tiny, worst_case_tiny

MOST_VOTERS = {2: 4000, 3: 300}
"""Voters up to which p-REC_sim's dynamic programme ends within seconds, by objects."""
TINY = (3, 5, 2)
"""Voters, rounds and objects up to which a search over all environments ends within seconds."""


def epsilon_exact(
    recommender: str, *, rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int
) -> float | None:
    """Return a recommender's exact worst-case privacy loss [nats].

    Returns
    -------
    float or None
        None where it is not computed. It is 0 where that is proved, as of `random`; that of p-rec and its kind is
        searched for in tiny environments; p-rec-sim's comes from a dynamic programme over survivors, where D = R = 0,
        for 2 or 3 objects and not too many voters: it is exact once there are a few N rounds, and an upper bound
        otherwise.
    """
    named = recommender_of(recommender)
    promise = Promise(rounds=rounds, objects=objects, diversity=diversity, radius=radius, peers=peers, voters=voters)
    if named.proved_epsilon is not None and named.proved_epsilon(promise) == 0:
        return 0.0
    if not named.bounded_at(diversity, radius):
        return None
    if voters <= TINY[0] and rounds <= TINY[1] and objects <= TINY[2]:
        tiny = Tiny(
            recommender=recommender,
            voters=voters,
            peers=peers,
            played=rounds,
            objects=objects,
            diversity=diversity,
            radius=radius,
        )
        return max(worst_case_tiny(tiny))
    if "epsilon" not in named.exact or diversity + radius or voters > MOST_VOTERS.get(objects, 0):
        return None
    return max(worst_case_sim(voters, peers, rounds, objects, sharp=named.sharp))
