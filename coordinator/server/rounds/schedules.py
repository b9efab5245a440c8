"""Schedules: policies that say which query comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coordinator.protocol.budget import Epsilon
from coordinator.server.design import Design
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState


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
