"""Naive composition: the exponential mechanism in every round, with an equal share of one epsilon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.server.online import rules
from coordinator.server.online.recommender import NamedRecommender, Unweighted


@dataclass(frozen=True)
class Exponential(Unweighted):
    """The exponential mechanism in every round, composed naively: ``p`` proportional to ``e^(eta c)``.

    One more voter changes one count by one, so a round's log-ratio is at most ``eta`` = epsilon / T.
    """

    eta: float

    def chances(self, sums: Floats) -> Floats:
        """Return the mechanism's probabilities."""
        weights = np.exp(self.eta * (sums - sums.max()))
        share: Floats = weights / weights.sum()
        return share


RECOMMENDERS = (
    NamedRecommender(
        name="naive",
        order=100,
        about="exponential mechanism of epsilon / T a round (credits of p-rec)",
        build=lambda promise: Exponential(promise.epsilon / promise.rounds),
        limits=rules.total,
        proved_epsilon=lambda promise: promise.epsilon,
        epsilon_of="p-rec",
    ),
)
