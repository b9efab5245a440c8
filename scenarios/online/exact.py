"""The exact worst-case privacy loss, where it can be computed within seconds."""

from __future__ import annotations

from scenarios.online.loss_bounds import BOUNDED
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
        None where it is not computed. That of `random` is 0; that of p-rec and its kind is searched for in tiny
        environments; p-rec-sim's comes from a dynamic programme over survivors, where D = R = 0, for 2 or 3 objects and
        not too many voters: it is exact once there are a few N rounds, and an upper bound otherwise.
    """
    if recommender == "random":
        return 0.0
    if recommender not in BOUNDED or (recommender == "p-rec-sim" and diversity + radius):
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
    if recommender != "p-rec-sim" or voters > MOST_VOTERS.get(objects, 0):
        return None
    return max(worst_case_sim(voters, peers, rounds, objects))
