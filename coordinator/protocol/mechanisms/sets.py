"""The set mechanism: all that a device liked, or pairs of it, padded, and a subset that meets or avoids it.

Groups of devices are asked in turn where how large sets are, or which items pairs are of, follows from earlier groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Counts, Floats, Indices, Indices2, Ints, Words
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.compiled import borrowing, compiled
from coordinator.protocol.decoding.estimates import number_shares, popularity, range_shares
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.decoding.pair_model import from_counts
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import below
from coordinator.protocol.law import BlockPeople, People
from coordinator.protocol.mechanism import (
    FIXED,
    GROUPS,
    KMEANS,
    ONE_ROUND,
    Decoding,
    DeviceCoins,
    DeviceRatings,
    Opinions,
    QueryHeader,
    Sketch,
    World,
    check_shape,
    query_of,
    require_whole_parameter,
)
from coordinator.protocol.mechanisms.oracles import Chosen, Frequencies, Subsets
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.moments.count_moments import (
    LIKED,
    FrequencyMoments,
    best_sizes,
    best_subset,
    set_share,
    sizes_for,
)
from coordinator.protocol.pools import SIDES, pairs_of, places_in, pool_of, pool_size
from coordinator.protocol.statistics.counts import (
    PAIRED,
    RANKED,
    SHARED,
    SIZED,
    SIZED_TOP,
    CountStatistic,
    GroupStatistic,
    counted,
    of_group,
)
from coordinator.protocol.value_channels import CHOSEN, PADDED

TOGETHER = "together"
"""Parameter of queries: items that make up a value, 1 or 2; 0 where values are ranges of how many are liked."""
MOST_RANGES = 10  # Ranges of numbers of likes at most: 0, 1, 2 to 3, 4 to 7 and so on, and 256 or more
MOST_ITEMS = 400  # Items whose pairs are asked about at most: 79,800 pairs
MOST_LIKES = 50  # Likes that a device keeps at most for pairs: it lists 1,225 pairs then


def ranges_of(items: int) -> int:
    """Return how many ranges numbers of liked items are reported in; the i-th ends before ``2**i``.

    >>> ranges_of(5), ranges_of(9724)
    (4, 10)
    """
    return min(items.bit_length() + 1, MOST_RANGES)


def together(query: Query) -> int:
    """Return how many items make up a value: 1, an item; 2, a pair of items; 0, values are numbers of likes."""
    return int(query.parameters[TOGETHER])


CountedGroup = Annotated[
    float,
    Field(
        ge=0,
        lt=1,
        description="Set mechanism and pairs: share of devices that first report how many items they like, which "
        "determines the sizes of sets; 0 for none [0].",
    ),
]
"""A setting that the set mechanism and pairs share."""
PairItems = Annotated[
    int,
    Field(ge=2, le=MOST_ITEMS, description="Pairs: number of most liked items whose pairs are asked about [200]."),
]
PairLikes = Annotated[
    int,
    Field(ge=0, le=MOST_LIKES, description="Pairs: likes that a device keeps, 2 to 20; 0 for half of rated [0]."),
]
"""Settings that pairs and two servers' totals of pairs share."""


def liked_sets(query: Query, ratings: DeviceRatings, coins: DeviceCoins, *, ranges: int = 0) -> Indices2:
    """Return each device's set, int32, shape (devices, padded): places in the pool, and dummies from its size on."""
    # With ``ranges`` above 0, a device's set is the range that the number of its likes in the pool is in, shape
    # (devices, 1); see `ranges_of`.
    places, streams = places_in(pool_of(query), ratings.items), coins.sketch()
    values = np.empty((coins.devices, int(query.parameters[PADDED])), np.int32)
    for tile, opinions in ratings.tiles(places, only_likes=True):
        _fill_sets(opinions, streams[tile], pool_size(query), ranges, values[tile])
    return values


@compiled
def liked_pairs(sets: Indices2, items: int) -> Indices2:
    """Return the pairs of each device's set, int32, padded to as many as a set without dummies has."""
    # Shapes: ``sets`` (devices, w).
    values = np.empty((len(sets), sets.shape[1] * (sets.shape[1] - 1) // 2), np.int32)
    for k in range(len(sets)):
        count = 0
        for index in range(sets.shape[1]):
            for partner in range(index):
                smaller, larger = min(sets[k, index], sets[k, partner]), max(sets[k, index], sets[k, partner])
                if larger < items:
                    values[k, count] = smaller * (2 * items - smaller - 1) // 2 + larger - smaller - 1
                    count += 1
        for dummy in range(values.shape[1] - count):
            values[k, count + dummy] = items * (items - 1) // 2 + dummy
    return values


@borrowing
def _keep(coins: np.uint64, liked: Counts, count: int, dummies: int, ranges: int, values: Indices) -> None:
    """Write a device's set: a uniform subset of its likes if there are too many, else all of them and dummies."""
    if ranges:
        values[0] = 0
        while count >> values[0] and values[0] < ranges - 1:
            values[0] += 1
        return
    for index in range(values.size):
        if index >= count:
            values[index] = dummies + index - count
            continue
        if count > values.size:
            swap = index + below(coins, index, count - index)
            liked[index], liked[swap] = liked[swap], liked[index]
        values[index] = liked[index]


@compiled
def _fill_sets(opinions: Opinions, coins: Words, pool_size: int, ranges: int, values: Indices2) -> None:
    """Write devices' sets; ``coins`` holds a private stream a device."""
    for k in range(len(values)):
        liked = opinions.places[opinions.starts[k] : opinions.starts[k + 1]]
        _keep(coins[k], liked, liked.size, pool_size, ranges, values[k])


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
    def question(self, group: str, earlier: GroupStatistic | None, **header: Unpack[QueryHeader]) -> Query:
        """Return the query of a group, which follows from the answers of earlier ones."""

    def group_ends(self, devices: int) -> tuple[int, ...]:
        """Return where the groups of devices end, in order; the first groups have at least one device each."""
        shares = accumulate(share for _, share in self.steps[:-1])
        ends = (max(group, round(share * devices)) for group, share in enumerate(shares, 1))
        return (*(min(end, devices) for end in ends), devices)

    def of_numbers(self, *, pool: Indices | None = None, **header: Unpack[QueryHeader]) -> Query:
        """Return a query about how many items of ``pool`` a device likes, by default of all."""
        return self._query_of(header, pool, (0, 1, 1))

    def likes(
        self, group: str, statistic: GroupStatistic, epsilon: Epsilon, pool: Indices | None = None
    ) -> tuple[float, ...]:
        """Return the shares of devices that like 0, 1, ... items of a pool, by a group's answers."""
        query = self.of_numbers(round_number=0, public_seed=bytes(16), epsilon=epsilon, pool=pool)
        same, other = map(float, Pairs().channel(query).rates)
        pool_items = self.items if pool is None else pool.size
        return tuple(number_shares(range_shares(statistic.of(group).sums, same, other), pool_items).tolist())

    def _of_items(
        self, likes: tuple[float, ...], pool_items: int, epsilon: Epsilon, padded: int, subset_size: int
    ) -> tuple[int, int, int]:
        """Return the sizes of a query about single items, by how many of them devices like, if that is known."""
        if likes:
            return 1, *sizes_for(likes, pool_items, epsilon=epsilon, padded=padded, subset_size=subset_size)
        rated = min(self.rated, pool_items)
        return 1, *best_sizes(pool_items, rated=rated, epsilon=epsilon, padded=padded, subset_size=subset_size)

    def _query_of(self, header: QueryHeader, pool: Indices | None, sizes: tuple[int, int, int]) -> Query:
        """Return a query; ``sizes`` are items that make up a value, values of a device's set, and of a release."""
        parameters = {SIDES: 1.0, **dict(zip((TOGETHER, PADDED, CHOSEN), map(float, sizes), strict=True))}
        query = query_of(self.name, self.items, header, parameters=parameters, pool=pool)
        pairs = Pairs()
        return replace(query, questions=pairs.question_range(query).start, answer_bits=pairs.answer_bits(query))


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

    def question(self, group: str, earlier: GroupStatistic | None, **header: Unpack[QueryHeader]) -> Query:
        (sized, _), _ = self.steps
        if earlier is None or group == sized:
            return self.of_numbers(**header)
        likes = self.likes(sized, earlier, header["epsilon"])
        return self.query(**header, likes=likes)

    def query(self, *, likes: tuple[float, ...] = (), **header: Unpack[QueryHeader]) -> Query:
        """Return a query about all items; ``likes`` are shares of devices that like 0, 1, ... of them, if known."""
        return self._query_of(header, None, self._of_items(likes, self.items, header["epsilon"], 0, self.subset_size))


TYPICAL_LIKES = 20
"""Likes that a device keeps, unless its typical user rates so few items that these are more than half of them."""


def typical_likes(rated: int, pool_items: int) -> int:
    """Return how many likes a device keeps by default, by its number of items."""
    return min(max(rated // 2, 2), TYPICAL_LIKES, pool_items)


def ranked_first(counts: Ints, pool_items: int) -> Indices:
    """Return the items with the largest counts, ascending."""
    return np.sort(np.argsort(-counts, kind="stable")[:pool_items]).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedPairs(GroupedSets):
    """The set mechanism over items and over pairs of items; a release holds ``subset_size`` pairs."""

    pair_items: int = 200  # Items M whose pairs are asked about, and likes w that a device keeps; see `Pairs`
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

    def question(self, group: str, earlier: GroupStatistic | None, **header: Unpack[QueryHeader]) -> Query:
        pool = None if earlier is None or group in (SIZED, RANKED) else self.most_liked(earlier)
        if group in (SIZED, SIZED_TOP):
            return self.of_numbers(**header, pool=pool)
        likes: tuple[float, ...] = ()
        if self.counted_group and earlier is not None:
            likes = self.likes(SIZED if pool is None else SIZED_TOP, earlier, header["epsilon"], pool)
        return (self.query if group == PAIRED else self.of_items)(**header, pool=pool, likes=likes)

    def query(
        self, *, pool: Indices | None = None, likes: tuple[float, ...] = (), **header: Unpack[QueryHeader]
    ) -> Query:
        """Return a query about the pairs of ``pool``, by default of the first M items, sized by shares of ``likes``."""
        if pool is None and self.ranks_first:
            pool = np.arange(self.top, dtype=np.int32)
        padded, subset_size = self._sizes(likes, header["epsilon"]) if likes else (self.device_likes, self.subset_size)
        pairs, size = pairs_of(self.top), pairs_of(padded)
        subset_size = subset_size or best_subset(
            pairs + size, set_size=size, epsilon=header["epsilon"], share=size / pairs / 2
        )
        return self._query_of(header, pool, (2, padded, subset_size))

    def of_items(
        self, *, pool: Indices | None = None, likes: tuple[float, ...] = (), **header: Unpack[QueryHeader]
    ) -> Query:
        """Return a query about single items, by default all; where pairs of them follow, devices keep as many likes."""
        pool_items, padded = self.items if pool is None else pool.size, 0
        if pool_items == self.top:
            padded = self._sizes(likes, header["epsilon"])[0] if likes else self.device_likes
        return self._query_of(header, pool, self._of_items(likes, pool_items, header["epsilon"], padded, 0))

    def _sizes(self, likes: tuple[float, ...], epsilon: Epsilon) -> tuple[int, int]:
        """Return likes w that a device keeps, and pairs k in a release, for devices that like so many of the M."""
        return sizes_for(likes, self.top, together=2, epsilon=epsilon, subset_size=self.subset_size, most=MOST_LIKES)


class Sets(Subsets):
    """Subsets of sets of several values of a device's own: items that are asked about, and dummies."""

    parameters = Subsets.parameters | {PADDED}

    def check(self, query: Query) -> None:
        Frequencies.check(self, query)
        if query.parameters[SIDES] != 1:
            raise InputError(f"{query} has {SIDES} {query.parameters[SIDES]:g}; give 1, sets are of liked items")
        require_whole_parameter(query, PADDED, pool_size(query))
        require_whole_parameter(query, CHOSEN, self.named(query))

    def named(self, query: Query) -> int:
        """Return the values that are no dummies: items that are asked about."""
        return pool_size(query)

    def set_size(self, query: Query) -> int:
        return int(query.parameters[PADDED])

    def values(self, query: Query) -> int:
        return self.named(query) + self.set_size(query)

    def value_shares(self, query: Query, people: People) -> tuple[Floats, None]:
        """Return the probabilities that an item is in a person's set: of l likes each is with ``min(1, w / l)``."""
        padded = int(query.parameters[PADDED])
        return people.likers(lambda likes: np.minimum(1, padded / likes)), None


class Pairs(Sets):
    """Pairs of liked items: sets of items, of pairs of them, or numbers of likes, of groups of devices."""

    name = "pairs"
    title = "pairs of liked items"
    parameters = Sets.parameters | {TOGETHER}
    decoders = (KMEANS,)
    policies = (GROUPS,)
    groups = ("items", "numbers")

    pair_items: PairItems = 200
    pair_likes: PairLikes = 0
    chosen: Chosen = 0
    first_group: float = Field(
        default=0.2, gt=0, lt=1, description="Pairs: share of devices that rank all items [0.2]."
    )
    second_group: float = Field(
        default=0.15, gt=0, lt=1, description="Pairs: share of devices that count likes of the most liked items [0.15]."
    )
    counted_group: CountedGroup = 0.0

    def design(self, world: World) -> LikedPairs:
        return LikedPairs(
            items=world.items,
            rated=world.rated,
            subset_size=self.subset_size,
            **self.model_dump(exclude={CHOSEN}),
        )

    def check(self, query: Query) -> None:
        if query.parameters[TOGETHER] == 0:
            require_whole_parameter(query, PADDED, 1)
        elif require_whole_parameter(query, TOGETHER, 2) == 2:
            if not 2 <= pool_size(query) <= MOST_ITEMS:
                raise InputError(f"{query} is about pairs of {pool_size(query)} items; give 2 to {MOST_ITEMS}")
            if not 2 <= query.parameters[PADDED] <= MOST_LIKES:
                raise InputError(f"{query} has {PADDED} {query.parameters[PADDED]:g}; give 2 to {MOST_LIKES} likes")
        super().check(query)

    def named(self, query: Query) -> int:
        """Return the values that are no dummies."""
        return (ranges_of, int, pairs_of)[together(query)](pool_size(query))

    def set_size(self, query: Query) -> int:
        """Return the values of every device's set."""
        likes = super().set_size(query)
        return pairs_of(likes) if together(query) == 2 else likes

    def values(self, query: Query) -> int:
        """Return the number of values, with dummies where devices may have fewer of their own."""
        return super().values(query) if together(query) else self.named(query)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return each device's set of items or of pairs, or its number of likes; each of as many values."""
        items = pool_size(query)
        sets = liked_sets(query, ratings, coins, ranges=0 if together(query) else ranges_of(items))
        return Sketch(liked_pairs(sets, items) if together(query) == 2 else sets)

    def count(self, query: Query, release: Release) -> GroupStatistic:  # type: ignore[override] # of groups
        """Return how many devices named each item or pair, as the counts of the group that was asked."""
        return of_group(group_of(query), counted(query, release, self.supports(query, release)))

    def value_shares(self, query: Query, people: People) -> tuple[Floats, None]:
        """Return the probabilities of items, of pairs of them, or of ranges of how many of them a person likes."""
        padded, ranges = int(query.parameters[PADDED]), ranges_of(pool_size(query))
        if together(query) == 1:
            return super().value_shares(query, people)
        if together(query) == 0:
            return people.likes(lambda likes: np.eye(ranges)[np.minimum(np.frexp(likes)[1], ranges - 1)]), None
        return people.pairs(lambda likes: pairs_kept(likes, padded)), None

    def draw_counts(  # type: ignore[override] # of groups
        self, query: Query, chances: Floats, users: int, coins: np.random.Generator
    ) -> GroupStatistic:
        """Draw counts as those of the group that was asked; a device names one range alone, so that these hang on."""
        if together(query):
            return of_group(group_of(query), super().draw_counts(query, chances, users, coins))
        sums = coins.multinomial(users, chances)
        counts = CountStatistic(sums=sums, ones=0, devices=users, answered=users, refused=0)
        return of_group(group_of(query), counts)

    def learn(self, statistic: GroupStatistic, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the items' popularity by the first group, clustered, and what the other groups say of pairs."""
        by_group = {group_of(query): query for query in queries if together(query)}
        counts_of = {group: (self.reports(query), statistic.of(group)) for group, query in by_group.items()}
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

    def moments(self, world: World) -> FrequencyMoments | None:
        """Return the moments of the group that ranks all items, for each cluster; clusters follow from it alone."""
        if world.block is None or self.counted_group:
            return None
        design = self.design(world)
        query = design.of_items(round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        level, _ = self.value_shares(query, BlockPeople.of(world.block))
        return FrequencyMoments(level=level, variance=self.reports(query).spread(level) / design.ranking)


def with_public(model: Model, queries: Sequence[Query], how: Decoding) -> Model:
    """Return a model of devices' sets, with popularity weighed with that of people whose ratings are public."""
    return model if how.public is None else how.public.weighed(model, int(queries[-1].parameters[PADDED]))


def pairs_kept(likes: Floats, most: int) -> Floats:
    """Return the probability that a pair of likes is kept if a device keeps a random subset of its likes."""
    return np.minimum(1, most * (most - 1) / np.maximum(likes * (likes - 1), 1))


def group_of(query: Query) -> str:
    """Return which group of devices a query is for."""
    if together(query) == 2:
        return PAIRED
    if together(query) == 0:
        return SIZED if query.pool is None else SIZED_TOP
    return RANKED if query.pool is None else SHARED


class Set(Sets):
    """The set mechanism: a report speaks for the values that it names, each of which may be one of several.

    Source: Wang et al., *PrivSet* (2018); Wang et al., *Set-valued data publication with local privacy* (2020).
    """

    name = "set"
    title = "set mechanism"
    policies = (ONE_ROUND, FIXED, GROUPS)
    all_policies_with = "set counted_group for groups"

    # Values w of every device's set; 0 for as many as have the least noise, see `count_moments.best_sizes`
    padded: int = Field(
        default=0, ge=0, description="Set mechanism: size of each device's set, dummies included; 0 for the best [0]."
    )
    chosen: Chosen = 0
    counted_group: CountedGroup = 0.0

    @property
    def asks(self) -> tuple[str, ...]:
        """The design of its queries: groups that are asked in turn are asked as those of pairs are."""
        return (self.query_name(),)

    def policies_with(self) -> tuple[str, ...]:
        """Return the policies: with a counted group there are groups of devices, and one way of asking."""
        return (GROUPS,) if self.counted_group else (ONE_ROUND, FIXED)

    def query_name(self) -> str:
        """Return the design of its queries; see `asks`."""
        return Pairs.name if self.counted_group else self.name

    def check_world(self, world: World) -> None:
        super().check_world(world)
        if self.padded > world.items:
            raise InputError(f"padded is {self.padded}; it must be at most the number of items, {world.items}")

    def design(self, world: World) -> Any:
        """Return the set mechanism in a world; with a counted group that of two groups."""
        if not self.counted_group:
            return super().design(world)
        if self.padded:
            raise InputError(
                f"padded is {self.padded}, but devices of counted_group {self.counted_group:g} would tell it; "
                "give one of them"
            )
        return CountedSet(
            items=world.items, rated=world.rated, subset_size=self.subset_size, counted_group=self.counted_group
        )

    def sizes(self, values: int, world: World, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the sizes of sets and subsets."""
        size, subset_size = best_sizes(
            values - 1, rated=world.rated, epsilon=epsilon, padded=self.padded, subset_size=self.subset_size
        )
        return {PADDED: size, CHOSEN: subset_size}

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return each device's set, of as many values."""
        return Sketch(liked_sets(query, ratings, coins))

    def line(self, query: Query, world: World) -> tuple[float, float]:
        """Return slope and offset of an item's expected estimate, as a function of how much users like it."""
        padded = int(query.parameters[PADDED])
        return set_share(pool_size(query), items=world.items, rated=world.rated, likes=LIKED, padded=padded), 0.0

    def learn(self, statistic: Any, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the model, with popularity of devices and of people whose ratings are public."""
        if self.counted_group:  # answers of groups that are asked in turn are read as those of pairs' groups
            return Pairs().learn(statistic, queries, how)
        return with_public(super().learn(statistic, queries, how), queries, how)

    def moments(self, world: World) -> FrequencyMoments | None:
        return None if self.counted_group else super().moments(world)


MECHANISMS = (Pairs(), Set())
