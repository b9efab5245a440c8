"""What the server believes after some rounds of anchor sensing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.messages import Model
from coordinator.server.anchor.start import Start
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.posterior import Posterior


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What the server believes after some rounds.

    Attributes
    ----------
    start : Start
        What pairs told.
    estimates : Estimates
        Of how the first class rates every item on average, in [-1, 1], by turned signs alone.
    posterior : Posterior
        Of every item's cluster; its expected levels are what anchors and centres are made of.
    """

    start: Start
    estimates: Estimates
    posterior: Posterior

    @property
    def chi_square(self) -> float:
        """Sum of squared estimates over their variances: about N, with variance 2 N, if they tell nothing."""
        return float((self.estimates.value**2 * self.estimates.information).sum())

    def model(self, clusters: int) -> Model:
        """Return the item model to hand to devices; scores are the first class's, by sign of no meaning."""
        return self.posterior.model(self.estimates, clusters)


def unsure(expected: Floats, clusters: int = 2) -> Posterior:
    """Return the posterior of a server that can decide nothing, because pairs alone tell what it expects."""
    return Posterior(
        cluster=(expected < 0).astype(np.int32),
        doubt=np.full(expected.size, 1 - 1 / clusters),
        expected=expected,
        mixture=None,
        apart=False,
    )
