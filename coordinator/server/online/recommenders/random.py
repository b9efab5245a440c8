"""Any object alike: what is lost by knowing nothing."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.server.online import rules
from coordinator.server.online.recommender import NamedRecommender, Unweighted


class Uniform(Unweighted):
    """Any object alike: no privacy loss, and no use."""

    def chances(self, sums: Floats) -> Floats:
        """Return equal probabilities."""
        return np.full(sums.size, 1 / sums.size)


RECOMMENDERS = (
    NamedRecommender(
        name="random",
        order=110,
        about="any object; epsilon 0",
        build=lambda _: Uniform(),
        limits=rules.everybody,
        proved_epsilon=lambda _: 0.0,
        proved_loss=lambda promise: promise.rounds * (1 - 1 / promise.objects),
        bound_drawn=False,  # the measured line hides it
    ),
)
