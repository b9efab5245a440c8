"""Multiplicative weights: nobody is kicked out, but who errs weighs less."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.server.online import rules
from coordinator.server.online.recommender import NamedRecommender


class MultiplicativeWeights:
    """Follow a voter drawn by weight; whoever errs, or misses a liked object, is halved. Not private."""

    def chances(self, sums: Floats) -> Floats:
        """Return the objects' shares of all weight."""
        total = float(sums.sum())
        return sums / total if total > 0 else np.full(sums.size, 1 / sums.size)

    def factors(self, sums: Floats, chosen: int, *, liked: bool) -> tuple[float, float]:  # noqa: ARG002 (a protocol)
        """Halve those that earn a strike."""
        return (1.0, 0.5) if liked else (0.5, 1.0)


RECOMMENDERS = (
    NamedRecommender(
        name="multiplicative-weights",
        order=80,
        about="a voter drawn by weight; not private",
        build=lambda _: MultiplicativeWeights(),
        limits=rules.everybody,
        weighted=True,
        compared=("rounds", "ratio", "radius", "diversity", "ratings"),
    ),
)
