"""Emulated devices: a transport whose statistics are drawn from exact moments; there are no releases to digest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.messages import Release
from coordinator.server.design import EmulatedDesign
from coordinator.server.moments.emulation import Crowd
from coordinator.server.rounds.state import Ask
from coordinator.server.statistics.scores import ScoreStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """Devices of a block model that `coordinator.server.rounds.rounds` asks; none of them is simulated."""

    design: EmulatedDesign  # What is asked
    likes: Floats2  # shape (K, N); Probability that a user of each class likes each item: part of the world
    class_shares: Floats  # shape (K,); Shares of the user classes
    rated: int  # Number of items w that every user rated
    coins: np.random.Generator  # What counts are drawn with

    def ask(self, ask: Ask) -> tuple[ScoreStatistic, Sequence[Release]]:
        """Draw the statistic of a round."""
        query, users = ask.query, ask.stop - ask.first
        pool = np.arange(query.items) if query.pool is None else query.pool
        crowd = Crowd(likes=self.likes[:, pool], class_shares=self.class_shares, rated=self.rated, users=users)
        sensed, scores = np.zeros(query.items, np.int64), np.zeros(query.items, np.int64)
        sensed[pool], scores[pool], ones = self.design.emulate(query, crowd, self.coins)
        statistic = ScoreStatistic(sensed=sensed, scores=scores, devices=users, answered=users, refused=0, ones=ones)
        return statistic, []
