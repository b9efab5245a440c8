"""Pairwise-Preference: does a device agree about a public pair of items? One bit a device (Banerjee et al., Figure 1).

There are three readings of what it means that a device agrees about two items (the spec's section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Bits, Bools, Floats, Indices
from coordinator.protocol.budget import as_float
from coordinator.protocol.decoding.line import decode_pairs
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import (
    DISLIKED,
    LIKED,
    SETS,
    UNRATED,
    Decoding,
    DeviceCoins,
    DeviceRatings,
    OneBit,
    QueryHeader,
    Sketch,
    World,
    query_of,
)
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.moments.blocks import PairMoments, pair_agreement
from coordinator.protocol.pools import AGREEMENTS, OF_RATED
from coordinator.protocol.public_draws import pairs_among
from coordinator.protocol.statistics.counts import PairStatistic, aggregate_pairs, check_items

_AGREE: dict[str, Callable[[Bits, Bits], Bools]] = {
    # Both items are rated, and alike (Banerjee et al., Appendix B)
    "rated-equal": lambda first, second: (first == second) & (first != UNRATED),
    # Both are liked, or neither; unrated counts as not liked (Figure 1 to the letter)
    "equal": lambda first, second: (first == LIKED) == (second == LIKED),
    # Both are liked (the authors' slides)
    "positive": lambda first, second: (first == LIKED) & (second == LIKED),
}
"""Whether a device agrees about two items, by the readings of `AGREEMENTS`."""


class Pairwise(OneBit):
    """Pairwise-Preference: a uniform pair of items each; the bit is 1 if the device agrees about them.

    Source: Banerjee, Hegde, Massoulié, Figure 1 and Theorem 8 [3.5].
    """

    name = "pairwise"
    title = "Pairwise-Preference"
    decoders = SETS
    paired = True
    always_told = frozenset({"agreement"})

    # Both rated and rated alike (the paper's analysis, the default); liked alike, where unrated counts as not liked
    # (its Figure 1 to the letter); both liked (the slides)
    agreement: Literal["rated-equal", "equal", "positive"] = Field(
        default="rated-equal", description="Pairwise's bit: rated-equal, equal or positive."
    )
    rated_items: Literal["private", "public"] = Field(
        default="private",
        description="Pairwise: which items are rated is private, or public and only these are asked about.",
    )

    @property
    def rated_public(self) -> bool:
        return self.rated_items == "public"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of queries about pairs among all items."""
        return tuple(f"{self.name}-{agreement}" for agreement in AGREEMENTS)

    @property
    def asks(self) -> tuple[str, ...]:
        """The names of all queries about pairs."""
        return (*self.kinds, *(f"{kind}{OF_RATED}" for kind in self.kinds))

    def query_name(self) -> str:
        """Return the name of its queries with these settings."""
        return f"{self.name}-{self.agreement}{OF_RATED if self.rated_public else ''}"

    @classmethod
    def label(cls, row: Mapping[str, Any]) -> str:
        return "pairwise of rated" if row.get("rated_items") == "public" else f"pairwise {row['agreement']}"

    def check_world(self, world: World) -> None:
        if self.rated_public and world.same_rated and world.rated < 2:
            raise InputError(f"rated is {world.rated}; a pair among public rated items needs at least 2")
        check_items(world.items)

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        return query_of(self.query_name(), world.items, header)

    def check(self, query: Query) -> None:
        if query.items < 2:
            raise InputError(f"{query} asks about pairs, the catalogue has {query.items} item")

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return 1 for each device that agrees about a pair among all items."""
        pairs = pairs_among(coins.streams(query), np.full(coins.devices, query.items))
        first, second = ratings.opinions(pairs).T
        return Sketch(agree_of(query)(first, second).astype(np.uint8)[:, None])

    def count(self, query: Query, release: Release) -> PairStatistic:
        return aggregate_pairs(query, release)

    def decode(self, statistic: PairStatistic, query: Query, how: Decoding) -> Model:
        return decode_pairs(statistic, clusters=how.clusters, decoder=how.decoder)

    def moments(self, world: World) -> PairMoments | None:
        if world.block is None:
            return None
        epsilon, public = as_float(world.epsilon), self.rated_public
        rates = pair_agreement(world.block, agreement=self.agreement, epsilon=epsilon, rated_public=public)
        return PairMoments(rates=rates)


class PairwiseOfRated(Pairwise):
    """The pair is drawn among the items that the device rated, and the release names it; with fewer it is silent."""

    title = ""
    guarantee = "epsilon-local differential privacy of how a device rated its items; which items it rated is public"
    names_rated = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of queries about pairs among rated items."""
        return tuple(f"{kind}{OF_RATED}" for kind in super().kinds)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return 1 for each device that agrees about a pair among its rated items, and the pairs."""
        rated = ratings.rated()
        places = pairs_among(coins.streams(query), rated.degrees)
        able = places[:, 0] >= 0
        rows = np.where(able[:, None], rated.starts[:-1, None] + places, 0)
        pairs = np.full((coins.devices, 2), -1, np.int32)
        opinions = np.full((coins.devices, 2), DISLIKED, np.uint8)
        if able.any():
            pairs[able] = rated.items[rows[able]]
            opinions[able] = np.where(rated.values[rows[able]], LIKED, DISLIKED)
        bits = agree_of(query)(opinions[:, 0], opinions[:, 1]) & able
        return Sketch(bits.astype(np.uint8)[:, None], None if able.all() else able, pairs)


def agree_of(query: Query) -> Callable[[Bits, Bits], Bools]:
    """Return what a query calls an agreement."""
    return _AGREE[query.design.removeprefix(f"{Pairwise.name}-").removesuffix(OF_RATED)]


MECHANISMS = (Pairwise(), PairwiseOfRated())
