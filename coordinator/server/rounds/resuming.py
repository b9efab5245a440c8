"""Checking the rounds of an interrupted run against a policy whose code has changed since."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import PolicyError
from coordinator.server.rounds.asking import next_ask, whose
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.query_rounds import ANEW, Round
from coordinator.server.rounds.state import Ask, Policy, ServerState


def require_same(
    policy: Policy, learner: Learner, earlier: Iterable[Round], *, devices: int, budget: Epsilon = None
) -> None:
    """Check that a policy whose code has changed would have asked the rounds of an interrupted run.

    Raises
    ------
    PolicyError
        If it would ask something else or raises an error, so that it is another policy.
    """
    state = ServerState(devices=devices, budget=budget)
    for number, over in enumerate(earlier):
        ask = learner.checked(next_ask(policy, state, most_rounds=number + 1), policy, state)
        if ask is None or not _alike(ask, over.ask):
            would = f"ask {ask.query} of devices {ask.first} to {ask.stop - 1}" if ask else "stop"
            raise PolicyError(
                f"{whose(policy, state)}: its code has changed since the run began, and it would {would}, where "
                f"{over.ask.query} was asked of devices {over.ask.first} to {over.ask.stop - 1}; go on with that "
                f"code, or {ANEW}"
            )
        state = learner.absorb(state, over.ask, over.statistic)


def _alike(ask: Ask, other: Ask) -> bool:
    """Return whether two rounds are the same except for the last bits of their numbers."""
    mine, theirs = ask.query.parameters, other.query.parameters
    close = mine.keys() == theirs.keys() and all(math.isclose(mine[name], theirs[name]) for name in mine)
    return close and replace(ask, query=replace(ask.query, parameters=theirs)) == other
