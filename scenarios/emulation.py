"""Emulated devices: sign sensing's statistic drawn from its exact moments, for runs too large or too many to simulate.

An item's agreements with the answers are binomial, exactly: a device's sign of it agrees with its bit with probability
``(1 + t g (2 b - 1)) / 2``, independently of other devices. Two items' agreements are uncorrelated up to the product
of their two contrasts; they are drawn independently. There are no releases, and nothing to take a digest of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.estimates import contrast_of
from coordinator.protocol.arrays import Floats
from coordinator.protocol.messages import Release
from coordinator.server import Ask
from coordinator.statistics import ScoreStatistic


@dataclass(frozen=True, kw_only=True)
class EmulatedSigns:
    """A transport without devices; see `coordinator.rounds.Transport`.

    Attributes
    ----------
    likes : ndarray of float64, shape (N,)
        Probability that a user likes each item, averaged over user classes: part of the world.
    rated : int
        Number of items w that every user rated.
    coins : numpy.random.Generator
        What agreements are drawn with.
    """

    likes: Floats
    rated: int
    coins: np.random.Generator

    def ask(self, ask: Ask) -> tuple[ScoreStatistic, Sequence[Release]]:
        """Draw the statistic of a round of sign sensing."""
        query, users = ask.query, ask.stop - ask.first
        if query.design != "sign" or query.pool is None:
            raise ValueError(f"{query} is not about signs; only sign sensing is emulated")
        contrast = contrast_of(query, rated=self.rated)
        sensed, scores = np.zeros(query.items, np.int64), np.zeros(query.items, np.int64)
        sensed[query.pool] = users
        scores[query.pool] = self.coins.binomial(users, (1 + contrast * (2 * self.likes[query.pool] - 1)) / 2)
        statistic = ScoreStatistic(
            sensed=sensed,
            scores=scores,
            asked=users,
            answered=users,
            refused=0,
            ones=int(self.coins.binomial(users, 0.5)),
        )
        return statistic, []

    def recall(self, ask: Ask) -> None:
        """Do nothing: there are no devices whose ledgers could book anything."""
