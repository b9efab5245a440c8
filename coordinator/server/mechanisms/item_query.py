"""Item queries: "is (i, z) your rating?" The paper's toy of one bit, which is not private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Model, Query, Release
from coordinator.server.design import Decoding, World
from coordinator.server.moments.told_ratings import YesMoments
from coordinator.server.server_half import UNTIL_LEARNED, ServerHalf, Settings

if TYPE_CHECKING:
    from coordinator.server.statistics.scores import ScoreStatistic


class ItemQuerySettings(Settings):
    """Settings of item queries."""

    answers_per_item: Annotated[int, Field(ge=1, description="Item query: yeses that an item needs [1].")] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemQuery:
    """Item query: "is (i, z) your rating?", one bit about one item of the pool and one value. Not private.

    Source: Banerjee, Hegde, Massoulié, after Theorem 10 [4.3].

    Attributes
    ----------
    items : int
        Number of items N.
    """

    items: int

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None = None) -> Query:
        """Return the query of one round; ``pool`` holds the items still to be learned, by default all."""
        return Query(
            design="item-query",
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            pool=np.arange(self.items, dtype=np.int32) if pool is None else pool,
        )


class ItemQueryHalf(ServerHalf):
    """Item queries on the server."""

    name = "item-query"
    title = "item queries"
    order = 70
    settings = ItemQuerySettings
    decoders = ("shares",)
    policies = (UNTIL_LEARNED,)
    private = False
    learns_all = True

    def label(self, row: Mapping[str, Any]) -> str:
        """Return its name with the yeses that an item needs."""
        yeses = row.get("answers_per_item")
        return f"{self.name}, {yeses} yes{'' if yeses == 1 else 'es'} an item" if yeses else self.name

    def design(self, settings: ItemQuerySettings, world: World) -> ItemQuery:
        """Return item queries in a world."""
        return ItemQuery(items=world.items)

    def aggregate(self, query: Query, release: Release) -> ScoreStatistic:
        """Return who said yes; see `told_ratings.aggregate_item_queries`."""
        from coordinator.server.statistics.told_ratings import aggregate_item_queries

        return aggregate_item_queries(query, release)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        """Cluster items by their shares of likes; see `told_ratings.decode_shares`."""
        from coordinator.server.decoding.told_ratings import decode_shares

        return decode_shares(statistic, clusters=how.clusters)

    def moments(self, settings: ItemQuerySettings, world: World) -> YesMoments:
        """Return how many yeses an item gets."""
        return YesMoments(answers=settings.answers_per_item)


SERVER = (ItemQueryHalf(),)
