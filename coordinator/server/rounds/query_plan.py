"""Rounds of queries as a plan, which is sent to the process that conducts them."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.protocol.admitted import Own
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Query
from coordinator.server.design import MOST_ROUNDS
from coordinator.server.rounds.asking import next_ask
from coordinator.server.rounds.conductor import Fleet
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.query_rounds import QueryRounds
from coordinator.server.rounds.state import Policy, ServerState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """Which queries are asked, and how the server learns from them; see `coordinator.server.rounds.conductor.Plan`.

    Attributes
    ----------
    policy, learner, devices, budget, most_rounds
        As for `coordinator.server.rounds.query_rounds.QueryRounds`.
    """

    policy: Policy
    learner: Learner
    devices: int
    budget: Epsilon = None
    most_rounds: int = MOST_ROUNDS

    @property
    def own(self) -> Own | None:
        """The experimenter's own mechanism."""
        return self.learner.own

    @property
    def in_step(self) -> bool:
        """False, because a round that is asked again costs its devices nothing, whatever came before it."""
        return False

    def rehearsal(self) -> Query | None:
        """Return the policy's first query; a policy is pure, so asking it here has no effect."""
        start = ServerState(devices=self.devices, budget=self.budget)
        ask = next_ask(self.policy, start, most_rounds=self.most_rounds)
        return ask.query if ask else None

    def begin(self, fleet: Fleet) -> QueryRounds:
        """Return the learning in its state before the first round."""
        return QueryRounds(
            self.policy,
            self.learner,
            fleet.queries(self.own),
            devices=self.devices,
            budget=self.budget,
            most_rounds=self.most_rounds,
            more=fleet.more,
        )
