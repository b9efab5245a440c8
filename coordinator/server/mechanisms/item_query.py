"""Item queries: "is (i, z) your rating?" The paper's toy of one bit, which is not private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Model, Query, Release
from coordinator.server.design import Decoding, World
from coordinator.server.moments.told_ratings import YesMoments
from coordinator.server.server_half import UNTIL_LEARNED, ServerHalf, Settings

if TYPE_CHECKING:
    from coordinator.server.rounds.policies import PolicyOptions
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Ask, ServerState
    from coordinator.server.statistics.scores import ScoreStatistic

DRY_ROUNDS = 16
"""Number of rounds of item queries without a yes after which the next rounds are doubled."""


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
    rated : int
        Number of items w that a user rated, which is public; it determines the size of a round.
    answers : int
        Number of yeses that an item needs.
    """

    items: int
    rated: int = 1
    answers: int = 1

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


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilLearned:
    """Item queries, round by round, about the items that are not learned yet; each round asks fresh devices.

    An item is learned once ``answers`` devices have said yes about it. The policy stops when all items are learned or
    no fresh device is left.

    Attributes
    ----------
    design : ItemQuery
        What is asked.
    public_seed : bytes
        Sixteen bytes that key the public coins.
    """

    asks_undecided: ClassVar[bool] = True
    design: ItemQuery
    public_seed: bytes

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is learned or every device was asked."""
        from coordinator.server.rounds.state import Ask

        pool, first = self._unlearned(state), state.fresh
        if not pool.size or first == state.devices:
            return None
        query = self.design.query(round_number=len(state.asked), public_seed=self.public_seed, epsilon=None, pool=pool)
        stop = first + (
            round_users(pool.size, items=self.design.items, rated=self.design.rated) << self._doublings(state)
        )
        return Ask(query=query, first=first, stop=min(stop, state.devices))

    def _doublings(self, state: ServerState) -> int:
        """Return how often a round is doubled: once for every `DRY_ROUNDS` rounds in a row without a yes.

        An item that nobody rated is never learned, and without doubling small rounds about it would go on for ever.
        """
        return sum(1 for _ in takewhile(lambda one: not one.ones, reversed(state.counts))) // DRY_ROUNDS

    def _unlearned(self, state: ServerState) -> Indices:
        if not state.asked:
            return np.arange(self.design.items, dtype=np.int32)
        from coordinator.server.rounds.state import total
        from coordinator.server.statistics.scores import ScoreStatistic

        statistic = total(state)
        assert isinstance(statistic, ScoreStatistic)
        return np.flatnonzero(statistic.sensed < self.design.answers).astype(np.int32)


def round_users(pool: int, *, items: int, rated: int) -> int:
    """Return how many users a round asks: a quarter of the ``2 N / w`` users that one yes per item takes."""
    return -(-pool * 2 * items // (4 * rated))


class ItemQueryHalf(ServerHalf):
    """Item queries on the server."""

    name = "item-query"
    title = "item queries"
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
        return ItemQuery(items=world.items, rated=world.rated, answers=settings.answers_per_item)

    def policy(self, name: str, setting: Setting, options: PolicyOptions) -> UntilLearned:
        """Return the only policy: rounds until every item has its yeses."""
        return UntilLearned(design=cast("ItemQuery", setting.design), public_seed=setting.public_seed)

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
