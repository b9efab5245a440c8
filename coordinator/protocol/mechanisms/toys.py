"""Open ratings: item queries, full reveal, and what devices send to a trusted curator; none is private locally."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Bits, Bits2, Bools, Floats, Indices, Indices2, Words
from coordinator.protocol.budget import ADD_REMOVE, REPLACE, as_float
from coordinator.protocol.compiled import compiled, inlined, uint64
from coordinator.protocol.decoding.curator import DiscreteLaplace, TotalMoments, item_sensitivity, pair_sensitivity
from coordinator.protocol.decoding.line import decode_item_totals, decode_pair_totals, decode_shares
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import (
    DISLIKED,
    LIKED,
    NOT_PRIVATE,
    ONE_ROUND,
    UNTIL_LEARNED,
    Decoding,
    DeviceCoins,
    DeviceRatings,
    Mechanism,
    Neighbours,
    PackedMechanism,
    QueryHeader,
    Sketch,
    World,
    query_of,
    require_whole_parameter,
)
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.moments.blocks import pair_agreement
from coordinator.protocol.moments.count_moments import PairTotalMoments, RevealMoments, YesMoments
from coordinator.protocol.packed_releases import as_bytes, room_for
from coordinator.protocol.public_draws import item_queries, random_subset, reveals
from coordinator.protocol.rating_table import Likes
from coordinator.protocol.statistics.counts import PairStatistic, check_items
from coordinator.protocol.statistics.scores import (
    ScoreStatistic,
    aggregate_item_queries,
    aggregate_revealed,
    aggregate_revealed_pairs,
)
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.trust_models import CURATOR


class Toy(Mechanism):
    """A toy of open ratings, which is not private."""

    guarantee = NOT_PRIVATE
    randomizes = False
    private = False
    decoders = ("shares",)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        return decode_shares(statistic, clusters=how.clusters)


class ItemQuery(Toy):
    """Item query: "is (i, z) your rating?", one bit about one item of the pool and one value. Not private.

    Source: Banerjee, Hegde, Massoulié, after Theorem 10 [4.3].
    """

    name = "item-query"
    title = "item queries"
    pooled = True
    policies = (UNTIL_LEARNED,)
    learns_all = True

    answers_per_item: int = Field(default=1, ge=1, description="Item query: yes answers that an item needs [1].")

    @classmethod
    def label(cls, row: Mapping[str, Any]) -> str:
        yeses = row.get("answers_per_item")
        return f"{cls.name}, {yeses} yes{'' if yeses == 1 else 'es'} an item" if yeses else cls.name

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of one round; ``pool`` holds the items still to be learned, by default all."""
        pool = np.arange(world.items, dtype=np.int32) if pool is None else pool
        return query_of(self.name, world.items, header, pool=pool)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return 1 for each device whose rating it is."""
        assert query.pool is not None
        items, values = item_queries(query.key, coins.first, coins.devices, query.pool)
        opinions = ratings.opinions(items[:, None])[:, 0]
        return Sketch((opinions == np.where(values, LIKED, DISLIKED)).astype(np.uint8)[:, None])

    def count(self, query: Query, release: Release) -> ScoreStatistic:
        return aggregate_item_queries(query, release)

    def moments(self, world: World) -> YesMoments:
        return YesMoments(answers=self.answers_per_item)


def toy_share(items: int) -> float:
    """Return the toy's probability of a full reveal, ``1 / log2 N``: one bit a user on average."""
    return 1.0 if items <= 2 else 1 / math.log2(items)


NOTHING = -1  # Fills the row of a device that reveals fewer ratings than another


def revealed_ratings(rated: Likes, mask: Bools) -> Indices2:
    """Return ``2 item``, and 1 more where it was liked, for each rating in ``mask``, a row a device, filled up."""
    subset = rated.where(mask)
    numbers = np.full((rated.users, max(1, int(rated.degrees.max(initial=0)))), NOTHING, np.int32)
    places = np.arange(subset.items.size) - subset.starts[:-1][subset.owners]
    numbers[subset.owners, places] = 2 * subset.items + subset.values
    return numbers


def rating_rows(numbers: Indices2, items: int) -> Bits:
    """Return packed bits, device by device: which items were rated, then which were liked."""
    uint64s = room_for(len(numbers), 2 * items)
    _set_bits(numbers, items, uint64s)
    return as_bytes(uint64s, len(numbers), 2 * items)


@inlined
def _set_bit(uint64s: Words, index: int) -> None:
    uint64s[index >> 6] |= uint64(1) << uint64(63 - (index & 63))


@compiled
def _set_bits(numbers: Indices2, items: int, uint64s: Words) -> None:
    for k in range(len(numbers)):
        for number in numbers[k]:
            if number != NOTHING:
                _set_bit(uint64s, 2 * items * k + (number >> 1))
                if number & 1:
                    _set_bit(uint64s, 2 * items * k + items + (number >> 1))


class Reveals(PackedMechanism):
    """A bit for each item that is rated, and one for each that is liked: at most ``most`` ratings, of some devices.

    Source: Banerjee, Hegde, Massoulié, section 1.1 (``full-reveal``); the authors' slides, page 11 (the curator).
    """

    guarantee = NOT_PRIVATE
    randomizes = False
    parameters = frozenset({"share", "most"})
    policies = (ONE_ROUND,)
    bounded = False

    def revealed(self, world: World) -> tuple[float, int]:
        """Return how probably a device reveals anything, and the most ratings w that it reveals."""
        return 1.0, world.rated

    def check_world(self, world: World) -> None:
        share, most = self.revealed(world)
        if not 1 <= most <= world.items:
            raise InputError(f"rated is {most}; it must lie between 1 and the number of items, {world.items}")
        if not 0 < share <= 1:
            raise InputError(f"reveal_share is {share}; it must lie in (0, 1]")

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        share, most = self.revealed(world)
        parameters = {"share": share, "most": most}
        return query_of(self.name, world.items, header, questions=2 * world.items, parameters=parameters)

    def check(self, query: Query) -> None:
        require_whole_parameter(query, "most", query.items)
        if not 0 < (share := query.parameters["share"]) <= 1:
            raise InputError(f"{query} has share {share:g}; it must lie in (0, 1]")

    def question_range(self, query: Query) -> range:
        return range(2 * query.items, 2 * query.items + 1)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return the revealed ratings, int32; with probability ``1 - share``, by a public coin, a device has none."""
        streams, rated = coins.streams(query), ratings.rated()
        revealing = reveals(streams, query.parameters["share"])
        mask = random_subset(streams, rated.starts, int(query.parameters["most"]))
        return Sketch(revealed_ratings(rated, mask & revealing[rated.owners]))

    def packed(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits:
        return rating_rows(private.view(np.int32), query.items)

    def count(self, query: Query, release: Release) -> Statistic:
        return aggregate_revealed(query, release)


class FullReveal(Reveals, Toy):
    """Full reveal: the toy, which is not private."""

    name = "full-reveal"
    title = "full reveal"

    reveal_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="Full reveal: P(a user reveals all ratings) [1/log2 N]."
    )

    def revealed(self, world: World) -> tuple[float, int]:
        return self.reveal_share or toy_share(world.items), world.items

    def moments(self, world: World) -> RevealMoments:
        share, _ = self.revealed(world)
        return RevealMoments(share=share)


CURATOR_PROMISES = {
    REPLACE: "epsilon-differential privacy of the published model, one user's ratings replaced by any others; the "
    "curator sees every rating",
    ADD_REMOVE: "epsilon-differential privacy of the published model, one user added or removed (2 epsilon: one user's "
    "ratings replaced); the curator sees every rating",
}
"""What a curator promises, by its relation of neighbours."""


class Curated(Reveals):
    """What devices send to a trusted curator, without noise; the curator adds noise to what it publishes."""

    guarantee = CURATOR_PROMISES[REPLACE]
    decoders = ("totals",)
    trust = CURATOR

    neighbours: Neighbours = "replace"

    def guarantee_under(self, neighbours: str) -> str:
        """Return the promise under the relation that the curator's noise is calibrated for."""
        return CURATOR_PROMISES[neighbours]

    def relation(self) -> str:
        return self.neighbours

    @classmethod
    def label(cls, row: Mapping[str, Any]) -> str:
        return f"{cls.name}, {ADD_REMOVE}" if row.get("neighbours") == ADD_REMOVE else cls.name

    def noise(self, world: World) -> DiscreteLaplace:
        """Return the noise of each total."""
        raise NotImplementedError

    def check_world(self, world: World) -> None:
        self.noise(world)
        super().check_world(world)


class CuratorItems(Curated):
    """A trusted curator's noisy totals of items."""

    name = "curator-items"
    title = "a curator's totals of items"

    def noise(self, world: World) -> DiscreteLaplace:
        sensitivity = item_sensitivity(world.rated, neighbours=self.neighbours)
        return DiscreteLaplace(budget=world.epsilon, sensitivity=sensitivity)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        return decode_item_totals(statistic, how.trusted(), clusters=how.clusters)

    def moments(self, world: World) -> TotalMoments:
        return TotalMoments(noise=self.noise(world))


class CuratorPairs(Curated):
    """A trusted curator's noisy totals of pairs of items."""

    name = "curator-pairs"
    title = "a curator's totals of pairs"
    paired = True

    def check_world(self, world: World) -> None:
        if world.rated < 2:
            raise InputError(f"rated is {world.rated}; curator-pairs adds up pairs of ratings and needs at least 2")
        self.noise(world)
        check_items(world.items)
        super().check_world(world)

    def noise(self, world: World) -> DiscreteLaplace:
        sensitivity = pair_sensitivity(world.rated, items=world.items, neighbours=self.neighbours)
        return DiscreteLaplace(budget=world.epsilon, sensitivity=sensitivity)

    def count(self, query: Query, release: Release) -> PairStatistic:
        return aggregate_revealed_pairs(query, release)

    def decode(self, statistic: PairStatistic, query: Query, how: Decoding) -> Model:
        return decode_pair_totals(statistic, how.trusted(), clusters=how.clusters)

    def moments(self, world: World) -> PairTotalMoments | None:
        if world.block is None:
            return None
        alike = pair_agreement(world.block, agreement="rated-equal", epsilon=math.inf, rated_public=True)
        return PairTotalMoments(profile=alike, scale=self.noise(world).sensitivity / as_float(world.epsilon))


MECHANISMS = (ItemQuery(), FullReveal(), CuratorItems(), CuratorPairs())
