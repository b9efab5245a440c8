"""DSybil: trust grows with good advice that few others gave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.server.online import rules
from coordinator.server.online.recommender import NamedRecommender


@dataclass(frozen=True)
class DSybil:
    """In the style of DSybil (Yu, Shi, Kaminsky, Gibbons, Xiao, 2009), simplified; not private.

    Objects with weight ``P / 2`` or more are overwhelming: one of them is recommended, else any object. Voters of a
    disliked one are halved, those of a liked one that was not overwhelming are doubled.
    """

    bar: float

    def chances(self, sums: Floats) -> Floats:
        """Share all probability among overwhelming objects, or among all."""
        pool: Floats = (sums >= self.bar).astype(np.float64)
        return pool / pool.sum() if pool.any() else np.full(sums.size, 1 / sums.size)

    def factors(self, sums: Floats, chosen: int, *, liked: bool) -> tuple[float, float]:
        """Halve or double those that voted for it."""
        if not liked:
            return 0.5, 1.0
        return (1.0 if sums[chosen] >= self.bar else 2.0), 1.0


RECOMMENDERS = (
    NamedRecommender(
        name="dsybil",
        order=90,
        about="DSybil-style; not private",
        build=lambda promise: DSybil(promise.peers / 2),
        limits=rules.everybody,
        weighted=True,
        compared=("rounds", "ratio", "radius", "diversity", "ratings"),
    ),
)
