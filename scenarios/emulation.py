"""Emulated devices: sign sensing's statistic drawn from its exact moments, for runs too large or too many to simulate.

An item's agreements with the answers are binomial: a device's sign of it agrees with its bit with a probability that
`coordinator.estimates.contrasts_of` tells, independently of other devices. Two items' agreements are uncorrelated up
to the product of their means; they are drawn independently. There are no releases, and nothing to take a digest of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.estimates import contrasts_of
from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.messages import Release
from coordinator.server import Ask
from coordinator.statistics import ScoreStatistic


@dataclass(frozen=True, kw_only=True)
class EmulatedSigns:
    """A transport without devices; see `coordinator.rounds.Transport`.

    Attributes
    ----------
    likes : ndarray of float64, shape (K, N)
        Probability that a user of each class likes each item: part of the world.
    class_shares : ndarray of float64, shape (K,)
        Shares of the user classes.
    rated : int
        Number of items w that every user rated.
    coins : numpy.random.Generator
        What agreements are drawn with.
    """

    likes: Floats2
    class_shares: Floats
    rated: int
    coins: np.random.Generator

    def ask(self, ask: Ask) -> tuple[ScoreStatistic, Sequence[Release]]:
        """Draw the statistic of a round of sign sensing."""
        query, users = ask.query, ask.stop - ask.first
        if query.design != "sign" or query.pool is None:
            raise ValueError(f"{query} is not about signs; only sign sensing is emulated")
        means = np.zeros(query.pool.size)
        for share, likes in zip(self.class_shares, self.likes[:, query.pool], strict=True):
            contrast, offset = contrasts_of(query, rated=self.rated, likes=likes)
            means += share * (contrast * (2 * likes - 1) + offset)
        sensed, scores = np.zeros(query.items, np.int64), np.zeros(query.items, np.int64)
        sensed[query.pool], scores[query.pool] = users, self.coins.binomial(users, (1 + means) / 2)
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
