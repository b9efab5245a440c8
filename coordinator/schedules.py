"""Schedules: policies that say which query comes next."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.designs import Design
from coordinator.protocol.budget import Epsilon
from coordinator.server import Ask, ServerState


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

    design: Design
    epsilon: Epsilon
    public_seed: bytes

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the only round, or None once it was asked."""
        if state.asked:
            return None
        query = self.design.query(round_number=0, public_seed=self.public_seed, epsilon=self.epsilon)
        return Ask(query=query, first=0, stop=state.devices)
