"""Policies for single mechanisms: groups of devices in turn, and item queries until all items are learned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import ClassVar, cast

import numpy as np

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.mechanism import InWorld, QueryHeader
from coordinator.protocol.mechanisms.oracles import SHARE
from coordinator.protocol.mechanisms.sets import GroupedSets, LikedPairs, Pairs, ranked_first, together
from coordinator.protocol.mechanisms.totals import LikedPairTotals
from coordinator.protocol.mechanisms.toys import ItemQuery
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import pairs_of
from coordinator.protocol.statistics.counts import PAIRED, RANKED, GroupStatistic
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.value_channels import PADDED
from coordinator.server.rounds.setting import GroupGuarantee, Setting
from coordinator.server.rounds.state import Ask, ServerState, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Each device is in one group, and answers one question with its whole epsilon.

    The releases of earlier groups determine the items and the set sizes of later ones.
    """

    design: GroupedSets  # What is asked, and where the groups end
    epsilon: Epsilon  # Privacy parameter of an answer [nats]; None for no noise
    public_seed: bytes  # Sixteen bytes that key the public coins

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None after the last."""
        ends, number, first = self.design.group_ends(state.devices), state.round_number, state.fresh
        if number == len(ends) or first == state.devices:
            return None
        earlier = total(state) if state.round_number else None
        assert earlier is None or isinstance(earlier, GroupStatistic)  # of no other design
        group, _ = self.design.steps[number]
        query = self.design.question(
            group, earlier, round_number=number, public_seed=self.public_seed, epsilon=self.epsilon
        )
        return Ask(query=query, first=first, stop=ends[number])


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledGroups:
    """Groups that are shuffled separately: each group's epsilon is amplified by its own number of devices."""

    groups: Groups  # What is asked, under the central epsilon
    guarantee: GroupGuarantee

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next group's round, with the local epsilon that keeps the central one; None after the last."""
        ask = self.groups.next_query(state)
        return ask and Ask(query=self._local(ask.query, ask.stop - ask.first), first=ask.first, stop=ask.stop)

    def rehearsal(self, devices: int) -> list[tuple[Query, int]]:
        """Return each group's query, as if the first items were the most liked, and its honest devices."""
        design = cast("LikedPairs", self.groups.design)
        ends, queries = design.group_ends(devices), list[tuple[Query, int]]()
        pool = np.arange(design.top, dtype=np.int32) if design.ranks_first else None
        for (group, _), first, stop in zip(design.steps, (0, *ends), ends, strict=False):
            ask = design.query if group == PAIRED else design.of_items
            about = None if group == RANKED else pool
            query = ask(pool=about, round_number=0, public_seed=self.groups.public_seed, epsilon=self.groups.epsilon)
            queries.append((self._local(query, stop - first), self._honest(stop - first)))
        return queries

    def _honest(self, devices: int) -> int:
        return math.floor(devices * self.guarantee.honest)

    def _local(self, query: Query, devices: int) -> Query:
        """Return a group's query under its local epsilon."""
        design, share = cast("LikedPairs", self.groups.design), SHARE
        if together(query) == 1:  # use all of a device's likes; the central epsilon would suggest fewer
            query = replace(query, parameters={**query.parameters, PADDED: float(design.device_likes)})
        else:
            share = pairs_of(design.device_likes) / pairs_of(design.top) / 2
        return Pairs().amplified(query, self._honest(devices), self.guarantee.delta, share)


def groups_policy(setting: Setting) -> Groups | ShuffledGroups:
    """Return the policy of a setting whose design asks groups in turn."""
    design = cast("GroupedSets", setting.design)  # no other mechanism has this policy
    if (guarantee := setting.groups) is None:
        return Groups(design=design, epsilon=setting.epsilon, public_seed=setting.public_seed)
    groups = Groups(design=design, epsilon=guarantee.epsilon, public_seed=setting.public_seed)
    return ShuffledGroups(groups=groups, guarantee=guarantee)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceAndPairs:
    """All devices answer twice: first about likes of all items, then about pairs of the top items."""

    design: LikedPairTotals
    epsilon: Epsilon  # What a device spends in both rounds together [nats]; None for no noise
    public_seed: bytes  # Sixteen bytes that key the public coins

    rounds: ClassVar[int] = 2

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None after the second."""
        # Two groups that spend all of epsilon each would need more people: a tenth of them under ten times the epsilon
        # has the same noise beside its counts, but fewer people in each sum, whose own randomness is larger.
        if (number := state.round_number) == self.rounds:
            return None
        parts = self.design.parts(self.epsilon)
        header = QueryHeader(round_number=number, public_seed=self.public_seed, epsilon=parts[number])
        if not number:
            return Ask(query=self.design.of_items(**header), first=0, stop=state.devices)
        counts = cast("GroupStatistic", total(state)).ranked
        pool = ranked_first(counts, self.design.pair_items)
        return Ask(query=self.design.query(pool=pool, **header), first=0, stop=state.devices)


DRY_ROUNDS = 16  # Number of rounds of item queries without a yes after which the next rounds are doubled


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilLearned:
    """Item queries, round by round, about the items that are not learned yet; each round asks fresh devices.

    An item is learned once ``answers`` devices have said yes about it. The policy stops when all items are learned or
    no fresh device is left.
    """

    asks_undecided: ClassVar[bool] = True
    design: InWorld  # Item queries
    public_seed: bytes  # Sixteen bytes that key the public coins

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None after the last."""
        pool, first = self._unlearned(state), state.fresh
        if not pool.size or first == state.devices:
            return None
        query = self.design.query(
            round_number=state.round_number, public_seed=self.public_seed, epsilon=None, pool=pool
        )
        # a round is doubled for every `DRY_ROUNDS` rounds in a row without a yes: an item that nobody rated is never
        # learned, and small rounds about it would go on for ever
        doublings = (
            sum(1 for _ in takewhile(lambda statistic: not statistic.ones, reversed(state.counts))) // DRY_ROUNDS
        )
        users = round_users(pool.size, items=self.design.items, rated=self.design.rated) << doublings
        return Ask(query=query, first=first, stop=min(first + users, state.devices))

    def _unlearned(self, state: ServerState) -> Indices:
        if not state.round_number:
            return np.arange(self.design.items, dtype=np.int32)
        statistic = total(state)
        assert isinstance(statistic, ScoreStatistic)
        return np.flatnonzero(statistic.sensed < cast("ItemQuery", self.design.mechanism).answers_per_item).astype(
            np.int32
        )


def round_users(pool: int, *, items: int, rated: int) -> int:
    """Return how many users a round asks: a quarter of the ``2 N / w`` users that one yes per item takes."""
    return -(-pool * 2 * items // (4 * rated))
