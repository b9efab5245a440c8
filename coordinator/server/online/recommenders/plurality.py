"""The object with most votes: what is lost without privacy, under the same credits."""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.server.online import rules
from coordinator.server.online.recommender import NamedRecommender, Promise, Unweighted


class Plurality(Unweighted):
    """The object with most votes, ties fairly; not private."""

    def chances(self, sums: Floats) -> Floats:
        """Share all probability among the most voted objects."""
        best: Floats = np.where(sums == sums.max(), 1.0, 0.0)
        share: Floats = best / best.sum()
        return share


def most_lost(promise: Promise) -> float:
    """Return (L) of the spec with m in the place of 2m and without the hidden coin: ours, by the same proof."""
    strikes = rules.lean(promise.diversity, promise.radius).radius_strikes + 1
    return promise.objects * (promise.radius + strikes * math.log(promise.voters / promise.peers))


RECOMMENDERS = (
    NamedRecommender(
        name="plurality",
        order=70,
        about="what most survivors vote for (lean credits); not private",
        build=lambda _: Plurality(),
        limits=rules.lean,
        proved_loss=most_lost,
        compared=("rounds", "ratio", "radius", "diversity", "ratings", "theorem-6"),
    ),
)
