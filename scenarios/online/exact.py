"""The exact worst-case privacy loss, where it can be computed within seconds."""

from __future__ import annotations

from scenarios.online.sim_worst_case import worst_case_sim

MOST_VOTERS = {2: 4000, 3: 300}
"""Voters up to which p-REC_sim's dynamic programme ends within seconds, by objects."""


def epsilon_exact(
    recommender: str, *, rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int
) -> float | None:
    """Return a recommender's exact worst-case privacy loss [nats].

    Returns
    -------
    float or None
        None where it is not computed: only p-REC_sim's is, where D = R = 0, for 2 or 3 objects and not too many
        voters. It is exact once there are a few N rounds, and an upper bound otherwise. 0 for `random`.
    """
    if recommender == "random":
        return 0.0
    if recommender != "p-rec-sim" or diversity + radius or voters > MOST_VOTERS.get(objects, 0):
        return None
    return max(worst_case_sim(voters, peers, rounds, objects))
