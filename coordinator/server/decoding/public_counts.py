"""What public people like, weighed with what private devices tell: popularity by inverse variances."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.messages import Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicCounts:
    """Likes of people whose ratings are public."""

    counts: Ints = field(repr=False)  # shape (N,); People who like each item
    sizes: Ints = field(repr=False)  # shape (P,); How many items each person likes

    def posterior(self, reports: Floats, error: Floats, most: int) -> tuple[Floats, Floats]:
        """Return popularity, weighted by inverse variances, and its standard error, float64, shape (N,) each.

        The variance of ``(c + 1) / P`` is taken for ``(c + 1) / P^2``. Devices tell of at most ``most`` likes each, so
        that what they tell is scaled by how many more likes public people have.

        Shapes: ``reports``, ``error`` (N,).
        """
        people, counts = self.sizes.size, self.counts + 1.0
        scale = float(self.sizes.sum() / max(np.minimum(self.sizes, most).sum(), 1))
        public, private = people**2 / counts, 1 / np.maximum(scale * error, 1e-12) ** 2
        combined = np.maximum((public * counts / people + private * scale * reports) / (public + private), 0)
        return combined, 1 / np.sqrt(public + private)

    def weighed(self, model: Model, most: int) -> Model:
        """Return a model of devices' estimates with popularity of both; clusters stay those of the devices' answers."""
        score, error = self.posterior(model.score, model.error, most)
        return replace(model, score=score, error=error)
