"""Groups: fresh devices are asked in turn about all items, about the most liked of them, and about pairs of these."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.protocol.budget import Epsilon
from coordinator.server.liked_pairs import LikedPairs
from coordinator.server.rounds.state import Ask, ServerState, total
from coordinator.server.statistics.groups import GroupStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Each device is in one group, and answers one question under its whole epsilon.

    Which items the later groups are asked about follows from what the first one released. Where pairs of all items are
    asked about, none has to be chosen: the first two groups are one.

    Attributes
    ----------
    design : LikedPairs
        What is asked, and where the groups end.
    epsilon : Fraction or None
        Privacy parameter of an answer [nats]; None for no noise.
    public_seed : bytes
        Sixteen bytes that key the public coins.
    """

    design: LikedPairs
    epsilon: Epsilon
    public_seed: bytes

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next group's round, or None once all groups, or all devices, were asked."""
        ends, number, first = self.design.group_ends(state.devices), len(state.asked), state.fresh
        if number == len(ends) or first == state.devices:
            return None
        pool = None
        if state.asked:
            told = total(state)
            assert isinstance(told, GroupStatistic)  # of no other design
            pool = self.design.most_liked(told)
        asks = self.design.query if number == len(ends) - 1 else self.design.of_items
        query = asks(round_number=number, public_seed=self.public_seed, epsilon=self.epsilon, pool=pool)
        return Ask(query=query, first=first, stop=ends[number])
