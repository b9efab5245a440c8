"""Sums by two servers: what a device adds up to, and what totals say of items, or of pairs of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Bools, Floats, Indices, Indices2, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.compiled import compiled
from coordinator.protocol.decoding.estimates import Estimates, repeated_variance
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.decoding.pair_model import from_sums, gram_matrix
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.errors import InputError, WithheldError
from coordinator.protocol.law import People
from coordinator.protocol.mechanism import (
    TWO_ROUNDS,
    Decoding,
    DeviceCoins,
    DeviceRatings,
    QueryHeader,
    Sketch,
    World,
    query_of,
    require_whole_parameter,
)
from coordinator.protocol.mechanisms.sets import (
    MOST_ITEMS,
    MOST_LIKES,
    TOGETHER,
    PairItems,
    PairLikes,
    liked_sets,
    together,
    typical_likes,
)
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.moments.count_moments import SumMoments
from coordinator.protocol.pools import pairs_of, pool_size
from coordinator.protocol.shared_vector import SharedVector
from coordinator.protocol.shares import WORD_BYTES
from coordinator.protocol.statistics.counts import PAIRED, RANKED, CountStatistic, GroupStatistic, of_group
from coordinator.protocol.value_channels import PADDED

CHOICE, LEAST_CHOICE = 4, 10  # One part in so many of epsilon is that of likes, which choose the items that are paired


@compiled
def pair_places(sets: Indices2, items: int) -> Indices2:
    """Return the places of pairs of each device's set, and of its items with themselves, int32; -1 for no pair.

    Places are those of an upper triangle with its diagonal, row by row. Shapes: ``sets`` (devices, w).
    """
    likes = sets.shape[1]
    places = np.full((len(sets), likes * (likes + 1) // 2), -1, np.int32)
    for k in range(len(sets)):
        count = 0
        for index in range(likes):
            for partner in range(index + 1):
                smaller, larger = min(sets[k, index], sets[k, partner]), max(sets[k, index], sets[k, partner])
                if larger < items:
                    places[k, count] = smaller * (2 * items - smaller + 1) // 2 + larger - smaller
                count += 1
    return places


class Totals(SharedVector):
    """Likes of all items, at most so many a device; a device that likes more names some of them by private coins."""

    name = "totals"
    title = "two servers' totals of likes"

    most_likes: int = Field(
        default=0, ge=0, description="Two servers: most likes of a device that count; 0 for as many as rated [0]."
    )

    def likes_counted(self, world: World) -> int:
        return min(self.most_likes or world.rated, world.items)

    def check_world(self, world: World) -> None:
        self.honest_devices(world)
        if not 1 <= (most := self.likes_counted(world)) <= world.items:
            raise InputError(f"most_likes is {most}; it must lie between 1 and the number of items, {world.items}")

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of the round."""
        most = self.likes_counted(world)
        parameters = {PADDED: float(most), **self.noise_terms(world, header["epsilon"], most, world.delta)}
        return query_of(
            self.name, world.items, header, questions=world.items, answer_bits=8 * WORD_BYTES, parameters=parameters
        )

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return the places of a vector's ones; places from its end on stand for nothing."""
        return Sketch(liked_sets(query, ratings, coins))

    def draw_sums(self, query: Query, people: People, users: int, coins: np.random.Generator) -> Floats:
        """Draw totals of likes."""
        return people.totals(int(query.parameters[PADDED]), users, coins)

    def estimate(
        self, query: Query, statistic: CountStatistic, world: World, expected: Floats | None = None
    ) -> Estimates:
        """Return a round's estimates of the share of devices that like each item."""
        answered, nothing = statistic.answered, np.zeros(query.items)
        if not answered:
            return Estimates(weighted=nothing, information=nothing)
        share = statistic.sums / answered
        # As in `estimates.read_items`: by an item's own total, rounds in which it was rare would weigh more
        typical = float(np.clip(share.mean(), 1 / answered, 1))
        people = max(typical * (1 - typical), 1 / answered) / answered
        information = np.full(query.items, 1 / (people + (self.deviation(query, answered) / answered) ** 2))
        return Estimates(weighted=information * share, information=information)

    def repeated_variance(self, query: Query, world: World, value: Floats) -> Floats:
        return repeated_variance(np.clip(value, 0, 1), query.parameters[PADDED], rated=world.rated)

    def decode(self, statistic: CountStatistic, query: Query, how: Decoding) -> Model:
        """Cluster items by noisy totals of likes, which rank them; the error is that of the noise."""
        return _by_totals(statistic.sums, self.deviation(query, statistic.answered), how)

    def moments(self, world: World) -> SumMoments | None:
        """Return the moments of a total of each cluster, and of the noise."""
        self.check_world(world)
        return self.like_moments(world, world.epsilon, world.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedPairTotals:
    """Sums of likes of all items, and then of pairs of the items liked most and of these items by themselves."""

    mechanism: PairTotals
    world: World
    likes: int  # Most likes w of a device that count, of all items as of those that are paired
    pair_items: int  # Items M that are paired

    def __post_init__(self) -> None:
        if self.items < 2:
            raise InputError(f"items is {self.items}; pairs needs at least 2")
        if not 1 <= self.likes <= self.pair_items:
            raise InputError(
                f"pair_likes is {self.likes}; it must lie between 1 and {self.pair_items}, the items that are paired"
            )

    @property
    def items(self) -> int:
        """Number of items N."""
        return self.world.items

    def parts(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """Return the epsilon of the round about likes, and that of the round about pairs."""
        return parts_of(epsilon, self.world.delta, choice=self.items > self.pair_items)

    def of_items(self, **header: Unpack[QueryHeader]) -> Query:
        """Return the query about likes of all items."""
        return self._query(header, None, 1, self.likes)

    def query(self, *, pool: Indices | None = None, **header: Unpack[QueryHeader]) -> Query:
        """Return the query about pairs of ``pool``, by default of the first M items."""
        pool = np.arange(self.pair_items, dtype=np.int32) if pool is None else pool
        return self._query(header, pool, 2, with_diagonal(self.likes))

    def _query(self, header: QueryHeader, pool: Indices | None, items: int, ones: int) -> Query:
        parameters = {PADDED: float(self.likes), TOGETHER: float(items)}
        noise = self.mechanism.noise_terms(self.world, header["epsilon"], ones, self.world.delta / 2)
        return query_of(
            self.mechanism.name,
            self.items,
            header,
            pool=pool,
            questions=self.items if pool is None else with_diagonal(pool.size),
            answer_bits=8 * WORD_BYTES,
            parameters=parameters | noise,
        )


def parts_of(epsilon: Epsilon, delta: float, *, choice: bool) -> tuple[Epsilon, Epsilon]:
    """Return the epsilon of likes of all items, and that of pairs; both add up to all of it.

    Each of both sums has half of delta; ``choice`` is whether likes choose which items are paired.
    """
    if epsilon is None:
        return None, None
    # Likes are then about as noisy as pairs: Laplace noise grows with the totals that change, Gaussian with their root.
    # Where all items are paired, likes only rank them.
    likes = epsilon / (CHOICE if delta and choice else LEAST_CHOICE)
    return likes, epsilon - likes


class PairTotals(SharedVector):
    """Likes of all items, or which of a pool's items go together: its pairs, and each item with itself.

    Pairs are counted row by row of the upper triangle, with its diagonal; a device names at most so many likes of the
    pool by private coins, and all pairs of them.
    """

    name = "pair-totals"
    title = "two servers' totals of pairs"
    parameters = SharedVector.parameters | {TOGETHER}
    pooled = None
    policies = (TWO_ROUNDS,)
    groups = ("items",)

    pair_items: PairItems = 200
    pair_likes: PairLikes = 0

    def likes_counted(self, world: World) -> int:
        return self.pair_likes or typical_likes(world.rated, min(self.pair_items, world.items))

    def planned_ones(self, world: World, *, first: bool) -> int:
        likes = self.likes_counted(world)
        return likes if first else with_diagonal(likes)

    def design(self, world: World) -> LikedPairTotals:
        """Return what two servers add up in a world."""
        self.honest_devices(world)
        pair_items, public = min(self.pair_items, world.items), replace(world, block=None)
        return LikedPairTotals(mechanism=self, world=public, likes=self.likes_counted(world), pair_items=pair_items)

    def check(self, query: Query) -> None:
        """Refuse a query about pairs of nothing, of too many items, or of more likes than the pool has."""
        if require_whole_parameter(query, TOGETHER, 2) == 2:
            if query.pool is None or not 2 <= pool_size(query) <= MOST_ITEMS:
                raise InputError(f"{query} is about pairs of {pool_size(query)} items; name 2 to {MOST_ITEMS}")
        elif query.pool is not None:
            raise InputError(f"{query} is about likes of {pool_size(query)} items; ask about all, or about pairs")
        if query.parameters[PADDED] > MOST_LIKES:
            raise InputError(f"{query} has {PADDED} {query.parameters[PADDED]:g}; give at most {MOST_LIKES} likes")
        super().check(query)

    def width(self, query: Query) -> int:
        """Return the number of items, or of pairs and items of the pool."""
        items = pool_size(query)
        return items if together(query) == 1 else with_diagonal(items)

    def ones(self, query: Query) -> int:
        """Return the most likes of a device that count, or pairs of these with each like itself."""
        likes = require_whole_parameter(query, PADDED, pool_size(query))
        # w likes are w (w - 1) / 2 pairs and w items; each is one word of zero or one, so that one person replaced by
        # another turns at most that many words off and as many on: 2 of them under `REPLACE`, see `check`.
        return likes if together(query) == 1 else with_diagonal(likes)

    def words_about(self, query: Query, places: Bools) -> Bools:
        """Return which items, or which pairs with one of them, in the order of the words; see `SharedVector`."""
        if together(query) == 1:
            return places
        rows, columns = np.triu_indices(places.size)
        return places[rows] | places[columns]

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return places of items, or of pairs of the items of a pool; negative ones stand for nothing, too."""
        sets = liked_sets(query, ratings, coins)
        return Sketch(sets if together(query) == 1 else pair_places(sets, pool_size(query)))

    def draw_sums(self, query: Query, people: People, users: int, coins: np.random.Generator) -> Floats:
        """Draw totals of likes, or of pairs and of each item of the pool."""
        most = int(query.parameters[PADDED])
        if together(query) == 1:
            return people.totals(most, users, coins)
        return people.pair_totals(most, users, coins)[np.triu_indices(pool_size(query))]

    def of_published(self, query: Query, totals: CountStatistic) -> GroupStatistic:
        """Return totals of items apart from those of pairs."""
        return of_group(RANKED if together(query) == 1 else PAIRED, totals)

    def learn(self, statistic: GroupStatistic, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the items' popularity, clustered, and EASE on the noisy pairs, of which later periods add more."""
        items, pairs = statistic.of(RANKED), statistic.of(PAIRED)
        if not items.answered and queries[0].period:
            raise WithheldError(
                "there is nothing to learn from: the first period was withheld, which says whose pairs are asked about "
                "later; expect fewer answers (expected_answers)"
            )
        about = [[query for query in queries if together(query) == count] for count in (1, 2)]
        model = _by_totals(items.sums, self._deviation(about[0], items.answered), how)
        if not pairs.answered:  # nobody answered the second round, or there was none: popularity is all there is
            return model
        pool = about[1][0].pool
        assert pool is not None  # checked where it was asked
        gram, deviation = gram_matrix(pairs.sums, pool.size), self._deviation(about[1], pairs.answered)
        with one_thread():
            near = from_sums(pool, gram, pairs.answered, deviation)
        return replace(model, near=near)

    def _deviation(self, queries: Sequence[Query], answered: int) -> float:
        """Return the deviation of all noise in the sum of several rounds with equally many answers each."""
        return math.hypot(*(self.deviation(query, answered // len(queries)) for query in queries))

    def moments(self, world: World) -> SumMoments | None:
        """Return the moments of the first round's totals, of which clusters are made, and of their noise."""
        of_likes, _ = self.design(world).parts(world.epsilon)
        return self.like_moments(world, of_likes, world.delta / 2)


def with_diagonal(items: int) -> int:
    """Return the number of pairs of so many items, and of the items themselves.

    >>> with_diagonal(400)
    80200
    """
    return pairs_of(items) + items


def _by_totals(sums: Ints, error: float, how: Decoding) -> Model:
    """Return the model of noisy totals of likes, which rank items."""
    totals = sums.astype(np.float64)
    cluster = kmeans_on_line(totals, how.clusters)
    return Model(cluster=cluster, score=totals, error=np.full(totals.size, error), clusters=how.clusters)


MECHANISMS = (Totals(), PairTotals())
