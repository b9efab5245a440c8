"""Groups: fresh devices are asked in turn, and what later ones are asked follows from what earlier ones told."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.protocol.budget import Epsilon
from coordinator.server.grouped_sets import GroupedSets
from coordinator.server.rounds.state import Ask, ServerState, total
from coordinator.server.statistics.groups import GroupStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Each device is in one group, and answers one question under its whole epsilon.

    Which items later groups are asked about, and how large their sets are, follows from what earlier ones released.

    Attributes
    ----------
    design : GroupedSets
        What is asked, and where the groups end.
    epsilon : Fraction or None
        Privacy parameter of an answer [nats]; None for no noise.
    public_seed : bytes
        Sixteen bytes that key the public coins.
    """

    design: GroupedSets
    epsilon: Epsilon
    public_seed: bytes

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next group's round, or None once all groups, or all devices, were asked."""
        ends, number, first = self.design.group_ends(state.devices), len(state.asked), state.fresh
        if number == len(ends) or first == state.devices:
            return None
        told = total(state) if state.asked else None
        assert told is None or isinstance(told, GroupStatistic)  # of no other design
        group, _ = self.design.steps[number]
        query = self.design.question(
            group, told, round_number=number, public_seed=self.public_seed, epsilon=self.epsilon
        )
        return Ask(query=query, first=first, stop=ends[number])
