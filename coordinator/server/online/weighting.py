"""Recommendation by weight: the function phi, and the probabilities that a round's votes give its objects.

Source: Gilbert, Liu, Yu, *On Differentially Private Online Collaborative Recommendation Systems*, procedure
RecommendByWeight; constants as the spec's section 2 reconstructs them.
"""

import math
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.compiled import compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """The constants of RecommendByWeight."""

    rounds: int  # T, at least 2
    objects: int  # m, at least 2
    # Ours, for m = 2 only: ``rho = 0`` and ``lambda = 2 ln T``, which halves the privacy loss for at most one more
    # disliked object (spec section 5, tuning). Otherwise the paper's ``rho = 1/(2m)``, ``lambda = 2 m ln T``
    sharp: bool = False

    def __post_init__(self) -> None:
        if self.rounds < 2 or self.objects < 2 or (self.sharp and self.objects != 2):
            raise ValueError(f"no weighting for {self.rounds} rounds of {self.objects} objects, sharp {self.sharp}")

    @property
    def steepness(self) -> float:
        """Lambda [nats per share of the votes]."""
        return (1 if self.sharp else 2) * self.objects * math.log(self.rounds)

    @property
    def part(self) -> int:
        """``1 / rho``; 0 where rho is 0."""
        return 0 if self.sharp else 2 * self.objects

    def chances(self, sums: Floats) -> Floats:
        """Return the probability of recommending each object, shape (m,), equation (2), from survivors' votes for each.

        >>> Weighting(rounds=100, objects=2).chances(np.array([2.0, 6.0])).round(6).tolist()
        [0.005, 0.995]
        """
        return chances(sums, float(self.rounds), self.steepness, self.part)


@compiled
def chances(sums: Floats, rounds: float, steepness: float, part: int) -> Floats:
    """Return equation (2)'s probabilities; see `Weighting.chances`."""
    objects, total = sums.size, sums.sum()
    probabilities = np.full(objects, 1.0 / objects)
    if total <= 0.0:
        return probabilities
    # x > rho is tested in whole numbers, and phi is kept as its logarithm: e^lambda is T^(2m)
    rho = 1.0 / part if part else 0.0
    logs = np.full(objects, -np.inf)
    for k in range(objects):
        if (part and part * sums[k] > total) or (not part and sums[k] > 0.0):
            x = sums[k] / total
            logs[k] = steepness * x + math.log(-math.expm1(-steepness * (x - rho)))
    top = logs.max()
    weights = np.exp(logs - top)
    share = weights.sum()
    for k in range(objects):
        probabilities[k] = 1.0 / (rounds * objects) + (1.0 - 1.0 / rounds) * weights[k] / share
    return probabilities
