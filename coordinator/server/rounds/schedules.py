"""Schedules: policies that say which query comes next."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import ClassVar

import numpy as np

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon
from coordinator.server.design import Design
from coordinator.server.mechanisms.item_query import ItemQuery
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState, total
from coordinator.server.statistics.scores import ScoreStatistic

DRY_ROUNDS = 16
"""Number of rounds of item queries without a yes after which the next rounds are doubled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRound:
    """Ask every device the same query once, and stop: the papers' non-adaptive protocol.

    Attributes
    ----------
    design : Design
        What is asked.
    epsilon : Fraction or None
        Privacy parameter of the answer [nats]; None for no noise.
    public_seed : bytes
        Sixteen bytes that key the public coins.
    """

    rounds: ClassVar[int] = 1
    design: Design
    epsilon: Epsilon
    public_seed: bytes

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the only round, or None once it was asked."""
        if state.asked:
            return None
        query = self.design.query(round_number=0, public_seed=self.public_seed, epsilon=self.epsilon)
        return Ask(query=query, first=0, stop=state.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The same question in a fixed number of rounds, each of which asks for an equal share of all answers.

    Attributes
    ----------
    setting : Setting
        Design, privacy and number of answers of a device.
    rounds : int
        Number of rounds, at least 1.
    """

    setting: Setting
    rounds: int

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every answer was given."""
        number, answers = len(state.asked), self.setting.answers_per_device * state.devices
        if number == self.rounds:
            return None
        users = (number + 1) * answers // self.rounds - number * answers // self.rounds
        pool = self.setting.pools[number % len(self.setting.pools)] if self.setting.pool_size else None
        return self.setting.ask(state, users=users, pool=pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilLearned:
    """Item queries, round by round, about the items that are not learned yet; each round asks fresh devices.

    An item is learned once ``answers`` devices have said yes about it. The policy stops when all items are learned or
    no fresh device is left.

    Attributes
    ----------
    design : ItemQuery
        What is asked.
    rated : int
        Number of items w that a user rated, which is public; it determines the size of a round.
    answers : int
        Number of yeses that an item needs.
    public_seed : bytes
        Sixteen bytes that key the public coins.
    """

    asks_undecided: ClassVar[bool] = True
    design: ItemQuery
    rated: int
    answers: int
    public_seed: bytes

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is learned or every device was asked."""
        pool, first = self._unlearned(state), state.fresh
        if not pool.size or first == state.devices:
            return None
        query = self.design.query(round_number=len(state.asked), public_seed=self.public_seed, epsilon=None, pool=pool)
        stop = first + (round_users(pool.size, items=self.design.items, rated=self.rated) << self._doublings(state))
        return Ask(query=query, first=first, stop=min(stop, state.devices))

    def _doublings(self, state: ServerState) -> int:
        """Return how often a round is doubled: once for every `DRY_ROUNDS` rounds in a row without a yes.

        An item that nobody rated is never learned, and without doubling small rounds about it would go on for ever.
        """
        return sum(1 for _ in takewhile(lambda one: not one.ones, reversed(state.counts))) // DRY_ROUNDS

    def _unlearned(self, state: ServerState) -> Indices:
        if not state.asked:
            return np.arange(self.design.items, dtype=np.int32)
        statistic = total(state)
        assert isinstance(statistic, ScoreStatistic)
        return np.flatnonzero(statistic.sensed < self.answers).astype(np.int32)


def round_users(pool: int, *, items: int, rated: int) -> int:
    """Return how many users a round asks: a quarter of the ``2 N / w`` users that one yes per item takes."""
    return -(-pool * 2 * items // (4 * rated))
