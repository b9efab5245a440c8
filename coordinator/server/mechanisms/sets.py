"""The set mechanism on the server: whole sets of likes, or pairs of them, which groups of devices are asked for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack, cast

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.sets import MOST_ITEMS, MOST_LIKES, TOGETHER, Pairs, together
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.pools import SIDES, pairs_of, pool_of, pool_size
from coordinator.protocol.statistics.counts import (
    PAIRED,
    RANKED,
    SHARED,
    SIZED,
    SIZED_TOP,
    GroupStatistic,
    counted,
    of_group,
)
from coordinator.protocol.value_channels import CHOSEN, PADDED
from coordinator.server.design import Decoding, LearnerOptions, RoundTerms, World, query_of
from coordinator.server.mechanisms import oracles
from coordinator.server.server_half import FIXED, GROUPS, ONE_ROUND, ServerHalf, Settings, check_shape

if TYPE_CHECKING:
    from coordinator.protocol.moments.blocks import BlockParameters
    from coordinator.protocol.moments.count_moments import FrequencyMoments
    from coordinator.server.rounds.learner import Learner
    from coordinator.server.rounds.policies import PolicyOptions
    from coordinator.server.rounds.setting import GroupPromise, Setting
    from coordinator.server.rounds.state import Ask, Policy, ServerState


CountedGroup = Annotated[
    float,
    Field(
        ge=0,
        lt=1,
        description="Set mechanism and pairs: share of devices that first tell how many items they like, from which "
        "sizes of sets follow; 0 for none [0].",
    ),
]
"""A setting that the set mechanism and pairs share."""
PairItems = Annotated[
    int,
    Field(ge=2, le=MOST_ITEMS, description="Pairs: items whose pairs are asked about, the most liked [200]."),
]
PairLikes = Annotated[
    int,
    Field(ge=0, le=MOST_LIKES, description="Pairs: likes that a device keeps, 0 for half of rated, 2 to 20 [0]."),
]
"""Settings that pairs and two servers' totals of pairs share."""
Step = tuple[str, float]  # A group, and its share of the devices; the last group has all that are left


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedSets(ABC):
    """Sets of items that groups of devices are asked for; subclasses define `steps` and `question`."""

    items: int  # Number of items N, and how many of them a user rated, typically
    rated: int
    subset_size: int = 0  # Values in a release of the last group; 0 for as many as have the least noise
    counted_group: float = 0.0  # Share of devices that report how many items they like; 0 for none

    name: ClassVar[str] = "pairs"

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated)

    @property
    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The groups in the order in which they are asked."""

    @abstractmethod
    def question(self, group: str, earlier: GroupStatistic | None, **terms: Unpack[RoundTerms]) -> Query:
        """Return the query of a group, which follows from the answers of earlier ones."""

    def group_ends(self, devices: int) -> tuple[int, ...]:
        """Return where the groups of so many devices end, in order; the first groups have at least a device each."""
        shares = accumulate(share for _, share in self.steps[:-1])
        ends = (max(place, round(share * devices)) for place, share in enumerate(shares, 1))
        return (*(min(end, devices) for end in ends), devices)

    def of_numbers(self, *, pool: Indices | None = None, **terms: Unpack[RoundTerms]) -> Query:
        """Return a query about how many items of ``pool`` a device likes, by default of all."""
        return self._query_of(terms, pool, (0, 1, 1))

    def likes(
        self, group: str, statistic: GroupStatistic, epsilon: Epsilon, pool: Indices | None = None
    ) -> tuple[float, ...]:
        """Return the shares of devices that like 0, 1, ... items of a pool, by a group's answers."""
        from coordinator.server.decoding.estimates import number_shares, range_shares

        query = self.of_numbers(round_number=0, public_seed=bytes(16), epsilon=epsilon, pool=pool)
        own, other = map(float, Pairs().channel(query).rates)
        pool_items = self.items if pool is None else pool.size
        return tuple(number_shares(range_shares(statistic.of(group).sums, own, other), pool_items).tolist())

    def _of_items(
        self, likes: tuple[float, ...], pool_items: int, epsilon: Epsilon, padded: int, subset_size: int
    ) -> tuple[int, int, int]:
        """Return the sizes of a query about single items, for devices that like so many of them, if that is known."""
        from coordinator.protocol.moments.count_moments import best_sizes, sizes_for

        if likes:
            return 1, *sizes_for(likes, pool_items, epsilon=epsilon, padded=padded, subset_size=subset_size)
        rated = min(self.rated, pool_items)
        return 1, *best_sizes(pool_items, rated=rated, epsilon=epsilon, padded=padded, subset_size=subset_size)

    def _query_of(self, terms: RoundTerms, pool: Indices | None, sizes: tuple[int, int, int]) -> Query:
        """Return a query; ``sizes`` are items that make up a value, values of a device's set, and of a release."""
        parameters = {SIDES: 1.0, **dict(zip((TOGETHER, PADDED, CHOSEN), map(float, sizes), strict=True))}
        query = query_of(self.name, self.items, terms, parameters=parameters, pool=pool)
        half = Pairs()
        return replace(query, questions=half.questions(query).start, answer_bits=half.answer_bits(query))


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSet(GroupedSets):
    """The set mechanism over all items, whose sizes follow from how many items a first group of devices likes."""

    def __post_init__(self) -> None:
        GroupedSets.__post_init__(self)
        if self.subset_size > self.items:
            raise InputError(f"chosen is {self.subset_size}; it must be at most the number of items, {self.items}")

    @property
    def steps(self) -> tuple[Step, ...]:
        """A group that reports numbers of likes, and all others."""
        return (SIZED, self.counted_group), (RANKED, 1 - self.counted_group)

    def question(self, group: str, earlier: GroupStatistic | None, **terms: Unpack[RoundTerms]) -> Query:
        (sized, _), _ = self.steps
        if earlier is None or group == sized:
            return self.of_numbers(**terms)
        likes = self.likes(sized, earlier, terms["epsilon"])
        return self.query(**terms, likes=likes)

    def query(self, *, likes: tuple[float, ...] = (), **terms: Unpack[RoundTerms]) -> Query:
        """Return a query about all items; ``likes`` are shares of devices that like 0, 1, ... of them, if known."""
        return self._query_of(terms, None, self._of_items(likes, self.items, terms["epsilon"], 0, self.subset_size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Each device is in one group, and answers one question under its whole epsilon.

    Which items later groups are asked about, and how large their sets are, follows from what earlier ones released.
    """

    design: GroupedSets  # What is asked, and where the groups end
    epsilon: Epsilon  # Privacy parameter of an answer [nats]; None for no noise
    public_seed: bytes  # Sixteen bytes that key the public coins

    def next_query(self, state: ServerState) -> Ask | None:
        from coordinator.server.rounds.state import Ask, total

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
    """Groups behind a shuffler, each of which is shuffled apart: its own number of devices amplifies its epsilon."""

    groups: Groups  # What is asked, under the central epsilon
    promise: GroupPromise

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next group's round, under the local epsilon that keeps the central one; None after the last."""
        from coordinator.server.rounds.state import Ask

        ask = self.groups.next_query(state)
        return ask and Ask(query=self._local(ask.query, ask.stop - ask.first), first=ask.first, stop=ask.stop)

    def rehearsal(self, devices: int) -> list[tuple[Query, int]]:
        """Return each group's query for so many devices, as if the first items were most liked, and its honest ones."""
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
        return math.floor(devices * self.promise.honest)

    def _local(self, query: Query, devices: int) -> Query:
        """Return a group's query under its local epsilon."""
        design, share = cast("LikedPairs", self.groups.design), oracles.SHARE
        if together(query) == 1:  # as many likes as its pairs are of, where the central epsilon would say fewer
            query = replace(query, parameters={**query.parameters, PADDED: float(design.device_likes)})
        else:
            share = pairs_of(design.device_likes) / pairs_of(design.top) / 2
        return oracles.shuffled_query(query, self._honest(devices), self.promise.delta, share)


def groups_policy(setting: Setting) -> Groups | ShuffledGroups:
    """Return the policy of a setting whose design asks groups in turn."""
    design = cast("GroupedSets", setting.design)  # no other mechanism has this policy
    if (promise := setting.groups) is None:
        return Groups(design=design, epsilon=setting.epsilon, public_seed=setting.public_seed)
    groups = Groups(design=design, epsilon=promise.epsilon, public_seed=setting.public_seed)
    return ShuffledGroups(groups=groups, promise=promise)


TYPICAL_LIKES = 20
"""Likes that a device keeps, unless its typical user rates so few items that these are more than half of them."""


def typical_likes(rated: int, pool_items: int) -> int:
    """Return how many likes among so many items a device keeps, if nobody says how many."""
    return min(max(rated // 2, 2), TYPICAL_LIKES, pool_items)


def ranked_first(counts: Ints, pool_items: int) -> Indices:
    """Return the items of the largest counts, so many, ascending."""
    return np.sort(np.argsort(-counts, kind="stable")[:pool_items]).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedPairs(GroupedSets):
    """The set mechanism over items and over pairs of items; a release holds ``subset_size`` pairs."""

    pair_items: int = 200  # Items M whose pairs are asked about, and likes w that a device keeps; see `PairsSettings`
    pair_likes: int = 0
    first_group: float = 0.2  # Shares of the devices; all others name pairs
    second_group: float = 0.15

    def __post_init__(self) -> None:
        GroupedSets.__post_init__(self)
        if self.items < 2:
            raise InputError(f"items is {self.items}; pairs needs at least 2")
        if self.pair_likes and not 2 <= self.pair_likes <= self.top:
            raise InputError(f"pair_likes is {self.pair_likes}; it must lie between 2 and {self.top}, the items asked")
        if self.pair_likes and self.counted_group:
            raise InputError(
                f"pair_likes is {self.pair_likes}, but devices of counted_group {self.counted_group:g} would tell it; "
                "give one of them"
            )
        if self.subset_size > pairs_of(self.top):
            raise InputError(
                f"chosen is {self.subset_size}; it must be at most the number of pairs, {pairs_of(self.top)}"
            )
        if not self.first_group + self.second_group + 2 * self.counted_group < 1:
            shares = f"{self.first_group:g} and second_group {self.second_group:g}"
            shares += f", twice counted_group {self.counted_group:g}" if self.counted_group else ""
            raise InputError(f"first_group is {shares}; leave some devices to name pairs, give less than 1 together")

    @property
    def top(self) -> int:
        """Items M whose pairs are asked about: all, where there are no more."""
        return min(self.pair_items, self.items)

    @property
    def device_likes(self) -> int:
        """Likes w among the M items that a device keeps, if no group of devices reports how many it likes."""
        return self.pair_likes or typical_likes(self.rated, self.top)

    @property
    def ranking(self) -> float:
        """Share of the devices whose answers rank all items."""
        return self.first_group + (0.0 if self.ranks_first else self.second_group)

    @property
    def ranks_first(self) -> bool:
        """Whether a group ranks all items first, because pairs are asked about some of them only."""
        return self.top < self.items

    @property
    def steps(self) -> tuple[Step, ...]:
        """Groups that rank items, that report how many like the most liked, and that name pairs of these."""
        # with a counted group, devices report how many of all items they like first, and then how many of the M
        counted = self.counted_group > 0
        first = [(SIZED, self.counted_group)] * counted
        between = [(SIZED_TOP, self.counted_group)] * counted + [(SHARED, self.second_group)]
        return (*first, (RANKED, self.ranking), *(between if self.ranks_first else []), (PAIRED, 1.0))

    def most_liked(self, statistic: GroupStatistic) -> Indices | None:
        """Return the M items that most devices of the first group named, ascending; None for all."""
        if not self.ranks_first:
            return None
        return ranked_first(statistic.ranked[: self.items], self.top)

    def question(self, group: str, earlier: GroupStatistic | None, **terms: Unpack[RoundTerms]) -> Query:
        pool = None if earlier is None or group in (SIZED, RANKED) else self.most_liked(earlier)
        if group in (SIZED, SIZED_TOP):
            return self.of_numbers(**terms, pool=pool)
        likes: tuple[float, ...] = ()
        if self.counted_group and earlier is not None:
            likes = self.likes(SIZED if pool is None else SIZED_TOP, earlier, terms["epsilon"], pool)
        return (self.query if group == PAIRED else self.of_items)(**terms, pool=pool, likes=likes)

    def query(
        self, *, pool: Indices | None = None, likes: tuple[float, ...] = (), **terms: Unpack[RoundTerms]
    ) -> Query:
        """Return a query about the pairs of ``pool``, by default of the first M items, sized by shares of ``likes``."""
        from coordinator.protocol.moments.count_moments import best_subset

        if pool is None and self.ranks_first:
            pool = np.arange(self.top, dtype=np.int32)
        padded, subset_size = self._sizes(likes, terms["epsilon"]) if likes else (self.device_likes, self.subset_size)
        pairs, own = pairs_of(self.top), pairs_of(padded)
        subset_size = subset_size or best_subset(pairs + own, own=own, epsilon=terms["epsilon"], share=own / pairs / 2)
        return self._query_of(terms, pool, (2, padded, subset_size))

    def of_items(
        self, *, pool: Indices | None = None, likes: tuple[float, ...] = (), **terms: Unpack[RoundTerms]
    ) -> Query:
        """Return a query about single items, by default all; where pairs of them follow, devices keep as many likes."""
        pool_items, padded = self.items if pool is None else pool.size, 0
        if pool_items == self.top:
            padded = self._sizes(likes, terms["epsilon"])[0] if likes else self.device_likes
        return self._query_of(terms, pool, self._of_items(likes, pool_items, terms["epsilon"], padded, 0))

    def _sizes(self, likes: tuple[float, ...], epsilon: Epsilon) -> tuple[int, int]:
        """Return likes w that a device keeps, and pairs k in a release, for devices that like so many of the M."""
        from coordinator.protocol.moments.count_moments import sizes_for

        return sizes_for(likes, self.top, together=2, epsilon=epsilon, subset_size=self.subset_size, most=MOST_LIKES)


class PairsSettings(Settings):
    """Settings of pairs; none of them looks at the ratings."""

    pair_items: PairItems = 200
    pair_likes: PairLikes = 0
    chosen: oracles.Chosen = 0
    first_group: float = Field(
        default=0.2, gt=0, lt=1, description="Pairs: share of devices that rank all items [0.2]."
    )
    second_group: float = Field(
        default=0.15, gt=0, lt=1, description="Pairs: share of devices that tell how many like the most liked [0.15]."
    )
    counted_group: CountedGroup = 0.0


class PairsHalf(ServerHalf):
    """Pairs of liked items on the server."""

    name = "pairs"
    title = "pairs of liked items"
    settings = PairsSettings
    decoders = (oracles.KMEANS,)
    policies: ClassVar[tuple[str, ...]] = (GROUPS,)
    ranks = True
    groups = ("items", "numbers")

    def design(self, settings: Settings, world: World) -> LikedPairs:
        return LikedPairs(items=world.items, rated=world.rated, **oracles.design_fields(settings))

    def policy(self, name: str, setting: Setting, options: PolicyOptions) -> Groups | ShuffledGroups:
        return groups_policy(setting)

    def aggregate(self, query: Query, release: Release) -> GroupStatistic:
        """Return how many devices named each item or pair, as the counts of the group that was asked."""
        return of_group(group_of(query), counted(query, release, oracles.subset_supports(query, release)))

    def learn(self, statistic: GroupStatistic, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the items' popularity by the first group, clustered, and what the other groups say of pairs."""
        from coordinator.server.decoding.estimates import popularity
        from coordinator.server.decoding.line import kmeans_on_line
        from coordinator.server.decoding.pair_model import from_counts
        from coordinator.server.decoding.threads import one_thread

        by_group = {group_of(query): query for query in queries if together(query)}
        counts_of = {group: (oracles.subset_rates(query), statistic.of(group)) for group, query in by_group.items()}
        # Where rounds are missing, because a policy failed or there are too few devices, there is no model of pairs; if
        # nobody ranked items, all are alike, and any share of devices may like one.
        if not counts_of:
            nothing, unsure = np.zeros(queries[0].items, np.int32), np.ones(queries[0].items)
            return Model(cluster=nothing, score=nothing.astype(float), error=unsure, clusters=how.clusters)
        (first, (rates, counts)), *_ = counts_of.items()
        value, error = popularity(by_group[first], rates, counts)
        near = None
        if PAIRED in counts_of:
            *_, (liked, shared), (pairs, paired) = counts_of.values()
            with one_thread():
                near = from_counts(
                    pool_of(by_group[PAIRED]),
                    (liked, shared.sums, shared.answered),
                    (pairs, paired.sums, paired.answered),
                )
        cluster = kmeans_on_line(value, how.clusters)
        model = Model(cluster=cluster, score=value, error=error, clusters=how.clusters, near=near)
        return with_public(model, queries, how)

    def moments(self, settings: Settings, world: World) -> FrequencyMoments | None:
        """Return the moments of the group that ranks all items, for each cluster; clusters follow from it alone."""
        from coordinator.protocol.moments.count_moments import FrequencyMoments, set_shares

        if world.block is None or (isinstance(settings, PairsSettings) and settings.counted_group):
            return None
        design = self.design(settings, world)
        query = design.of_items(round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        level = set_shares(world.block, int(query.parameters[PADDED]))
        return FrequencyMoments(level=level, variance=oracles.subset_rates(query).spread(level) / design.ranking)


def with_public(model: Model, queries: Sequence[Query], how: Decoding) -> Model:
    """Return a model of devices' sets, with popularity weighed with that of people whose ratings are public."""
    return model if how.public is None else how.public.weighed(model, int(queries[-1].parameters[PADDED]))


def group_of(query: Query) -> str:
    """Return which group of devices a query is for."""
    if together(query) == 2:
        return PAIRED
    if together(query) == 0:
        return SIZED if query.pool is None else SIZED_TOP
    return RANKED if query.pool is None else SHARED


class SetSettings(Settings):
    """Settings of the set mechanism, beside those of subsets."""

    padded: int = Field(
        default=0, ge=0, description="Set mechanism: values of every device's set, with dummies, 0 for the best [0]."
    )
    chosen: oracles.Chosen = 0
    counted_group: CountedGroup = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedSet(oracles.Subset):
    """A report speaks for the values that it names, each of which may be one of several of the device's own.

    Source: Wang et al., *PrivSet* (2018); Wang et al., *Set-valued data publication with local privacy* (2020).
    """

    # Values w of every device's set; 0 for as many as have the least noise, see `count_moments.best_sizes`
    padded: int = 0

    name: ClassVar[str] = "set"

    def __post_init__(self) -> None:
        oracles.Subset.__post_init__(self)
        if self.padded > self.items:
            raise InputError(f"padded is {self.padded}; it must be at most the number of items, {self.items}")

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the sizes of sets and subsets."""
        from coordinator.protocol.moments.count_moments import best_sizes

        own, subset_size = best_sizes(
            values - 1, rated=self.rated, epsilon=epsilon, padded=self.padded, subset_size=self.subset_size
        )
        return {PADDED: own, CHOSEN: subset_size}

    def line(self, query: Query) -> tuple[float, float]:
        """Return slope and offset of an item's expected estimate, as a function of how much users like it."""
        from coordinator.protocol.moments.count_moments import LIKED, set_share

        padded = int(query.parameters[PADDED])
        return set_share(pool_size(query), items=self.items, rated=self.rated, likes=LIKED, padded=padded), 0.0


class SetHalf(oracles.FrequencyHalf):
    """The set mechanism on the server."""

    policies: ClassVar[tuple[str, ...]] = (ONE_ROUND, FIXED, GROUPS)
    all_policies_with = "set counted_group for groups"

    def policies_with(self, settings: Any) -> tuple[str, ...]:
        """Return the policies: with a counted group there are groups of devices, and one way of asking."""
        return (GROUPS,) if settings.counted_group else (ONE_ROUND, FIXED)

    def query_name(self, settings: Any) -> str:
        """Return the design of its queries: groups that are asked in turn are asked as those of pairs are."""
        return CountedSet.name if settings.counted_group else self.name

    def design(self, settings: Any, world: World) -> Any:
        """Return the set mechanism in a world; with a counted group that of two groups."""
        design = oracles.design_fields(settings)
        if not design.pop("counted_group"):
            return LikedSet(items=world.items, rated=world.rated, **design)
        if design.pop("padded"):
            raise InputError(
                f"padded is {settings.padded}, but devices of counted_group {settings.counted_group:g} would tell it; "
                "give one of them"
            )
        return CountedSet(items=world.items, rated=world.rated, counted_group=settings.counted_group, **design)

    def policy(self, name: str, setting: Setting, options: PolicyOptions) -> Policy:
        return groups_policy(setting) if name == GROUPS else super().policy(name, setting, options)

    def learner(self, settings: Any, world: World, options: LearnerOptions) -> Learner:
        """Return the learner; answers of groups that are asked in turn are read as those of pairs' groups."""
        return (SERVER[0].learner if settings.counted_group else super().learner)(settings, world, options)

    def learn(self, statistic: Any, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the model, with popularity of devices and of people whose ratings are public."""
        return with_public(super().learn(statistic, queries, how), queries, how)

    def moments(self, settings: Any, world: World) -> FrequencyMoments | None:
        return None if settings.counted_group else super().moments(settings, world)

    def shares(self, query: Query, block: BlockParameters) -> tuple[Floats, None]:
        from coordinator.protocol.moments.count_moments import set_shares

        return set_shares(block, int(query.parameters[PADDED])), None


SERVER = (PairsHalf(), SetHalf("set mechanism", LikedSet, SetSettings))
