"""Numbers from which predictions of open ratings follow; see `scenarios.theory.predictors`."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon


class NoSignal:
    """No number of answers distinguishes the clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YesMoments:
    """Item queries, in which every item gets so many yeses."""

    answers: int  # Number of yeses that an item needs


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealMoments:
    """Full reveal, in which users tell everything or nothing."""

    share: float  # Probability that a user tells


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalMoments:
    """A curator's noisy totals of items."""

    epsilon: Epsilon  # Privacy parameter of the totals [nats]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTotals:
    """A curator's noisy totals of pairs of items."""

    alike: Floats  # shape (L, L); Probability that two rated items are rated alike, by their clusters
    scale: float  # Scale of the Laplace noise on each pair

    @property
    def profile(self) -> Floats:
        """What answers without noise tell of each cluster's items, one row a cluster."""
        return self.alike
