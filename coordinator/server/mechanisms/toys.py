"""Open ratings on the server: item queries, full reveal, and the trusted curator's designs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack, cast

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import as_float
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.public_half import ADD_REMOVE
from coordinator.protocol.statistics.counts import PairStatistic, check_items
from coordinator.server import server_half
from coordinator.server.decoding.curator import DiscreteLaplace, item_sensitivity, pair_sensitivity
from coordinator.server.design import Decoding, RoundTerms, World, query_of

if TYPE_CHECKING:
    from coordinator.protocol.statistics.scores import ScoreStatistic
    from coordinator.protocol.statistics.statistic import Statistic
    from coordinator.server.rounds.policies import PolicyOptions
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Ask, ServerState


DRY_ROUNDS = 16  # Number of rounds of item queries without a yes after which the next rounds are doubled


class ItemQuerySettings(server_half.Settings):
    """Settings of item queries."""

    answers_per_item: int = Field(default=1, ge=1, description="Item query: yeses that an item needs [1].")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemQuery:
    """Item query: "is (i, z) your rating?", one bit about one item of the pool and one value. Not private.

    Source: Banerjee, Hegde, Massoulié, after Theorem 10 [4.3].
    """

    items: int  # Number of items N
    rated: int = 1  # Number of items w that a user rated, which is public; it determines the size of a round
    answers: int = 1  # Number of yeses that an item needs

    def query(self, *, pool: Indices | None = None, **terms: Unpack[RoundTerms]) -> Query:
        """Return the query of one round; ``pool`` holds the items still to be learned, by default all."""
        pool = np.arange(self.items, dtype=np.int32) if pool is None else pool
        return query_of("item-query", self.items, terms, pool=pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilLearned:
    """Item queries, round by round, about the items that are not learned yet; each round asks fresh devices.

    An item is learned once ``answers`` devices have said yes about it. The policy stops when all items are learned or
    no fresh device is left.
    """

    asks_undecided: ClassVar[bool] = True
    design: ItemQuery  # What is asked
    public_seed: bytes  # Sixteen bytes that key the public coins

    def next_query(self, state: ServerState) -> Ask | None:
        from coordinator.server.rounds.state import Ask

        pool, first = self._unlearned(state), state.fresh
        if not pool.size or first == state.devices:
            return None
        query = self.design.query(
            round_number=state.round_number, public_seed=self.public_seed, epsilon=None, pool=pool
        )
        # a round is doubled for every `DRY_ROUNDS` rounds in a row without a yes: an item that nobody rated is never
        # learned, and small rounds about it would go on for ever
        doublings = sum(1 for _ in takewhile(lambda one: not one.ones, reversed(state.counts))) // DRY_ROUNDS
        users = round_users(pool.size, items=self.design.items, rated=self.design.rated) << doublings
        return Ask(query=query, first=first, stop=min(first + users, state.devices))

    def _unlearned(self, state: ServerState) -> Indices:
        if not state.round_number:
            return np.arange(self.design.items, dtype=np.int32)
        from coordinator.protocol.statistics.scores import ScoreStatistic
        from coordinator.server.rounds.state import total

        statistic = total(state)
        assert isinstance(statistic, ScoreStatistic)
        return np.flatnonzero(statistic.sensed < self.design.answers).astype(np.int32)


def round_users(pool: int, *, items: int, rated: int) -> int:
    """Return how many users a round asks: a quarter of the ``2 N / w`` users that one yes per item takes."""
    return -(-pool * 2 * items // (4 * rated))


class ToyHalf(server_half.ServerHalf):
    """A toy of open ratings, which is not private."""

    decoders = ("shares",)
    private = False

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        from coordinator.server.decoding.line import decode_shares

        return decode_shares(statistic, clusters=how.clusters)


class ItemQueryHalf(ToyHalf):
    """Item queries on the server."""

    name = "item-query"
    title = "item queries"
    settings = ItemQuerySettings
    policies = (server_half.UNTIL_LEARNED,)
    learns_all = True

    def label(self, row: Mapping[str, Any]) -> str:
        yeses = row.get("answers_per_item")
        return f"{self.name}, {yeses} yes{'' if yeses == 1 else 'es'} an item" if yeses else self.name

    def design(self, settings: ItemQuerySettings, world: World) -> ItemQuery:
        return ItemQuery(items=world.items, rated=world.rated, answers=settings.answers_per_item)

    def policy(self, name: str, setting: Setting, options: PolicyOptions) -> UntilLearned:
        return UntilLearned(design=cast("ItemQuery", setting.design), public_seed=setting.public_seed)

    def aggregate(self, query: Query, release: Release) -> ScoreStatistic:
        from coordinator.protocol.statistics.scores import aggregate_item_queries

        return aggregate_item_queries(query, release)

    def moments(self, settings: ItemQuerySettings, world: World) -> server_half.YesMoments:
        return server_half.YesMoments(answers=settings.answers_per_item)


class RevealSettings(server_half.Settings):
    """Settings of full reveal."""

    reveal_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="Full reveal: P(a user tells all) [1/log2 N]."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reveal:
    """Devices reveal their ratings as they are: not private towards whoever asks.

    Source: Banerjee, Hegde, Massoulié, section 1.1 (``full-reveal``); the authors' slides, page 11 (the curator).
    """

    # one of "full-reveal", "curator-items", "curator-pairs"; The toy, or a trusted curator who will publish noisy
    # totals of items or of pairs of items
    name: str
    items: int  # Number of items N
    most: int  # Most ratings w that a device reveals, which bounds a user's share in the curator's totals
    share: float = 1.0  # Probability that a device reveals anything at all, in (0, 1]; in the toy ``1 / log2 N``

    def __post_init__(self) -> None:
        if self.name == "curator-pairs":
            check_items(self.items)
        if not 1 <= self.most <= self.items:
            raise InputError(f"rated is {self.most}; it must lie between 1 and the number of items, {self.items}")
        if not 0 < self.share <= 1:
            raise InputError(f"reveal_share is {self.share}; it must lie in (0, 1]")

    def query(self, **terms: Unpack[RoundTerms]) -> Query:
        parameters = {"share": self.share, "most": self.most}
        return query_of(self.name, self.items, terms, questions=2 * self.items, parameters=parameters)


def toy_share(items: int) -> float:
    """Return the toy's probability of a full reveal, ``1 / log2 N``: one bit a user on average."""
    return 1.0 if items <= 2 else 1 / math.log2(items)


class RevealHalf(server_half.ServerHalf):
    """Ratings as they are, added up for each item: the toy's way, and a curator's."""

    policies = (server_half.ONE_ROUND,)
    bounded = False

    def aggregate(self, query: Query, release: Release) -> Statistic:
        from coordinator.protocol.statistics.scores import aggregate_revealed

        return aggregate_revealed(query, release)


class FullRevealHalf(RevealHalf, ToyHalf):
    """Full reveal on the server: the toy, which is not private."""

    name = "full-reveal"
    title = "full reveal"
    settings = RevealSettings

    def design(self, settings: RevealSettings, world: World) -> Reveal:
        share = settings.reveal_share or toy_share(world.items)
        return Reveal(name=self.name, items=world.items, most=world.items, share=share)

    def moments(self, settings: RevealSettings, world: World) -> server_half.RevealMoments:
        return server_half.RevealMoments(share=self.design(settings, world).share)


class CuratorSettings(server_half.Settings):
    """Settings of a trusted curator."""

    neighbours: Literal["replace", "add-remove"] = Field(
        default="replace",
        description="Curators, two servers: epsilon is about one user's ratings replaced, or one user added or "
        "removed [replace].",
    )


class CuratorHalf(RevealHalf):
    """A trusted curator, who gets ratings as they are and publishes noisy totals."""

    settings = CuratorSettings
    decoders = ("totals",)
    trust = server_half.TRUST_CURATOR

    def neighbours(self, settings: CuratorSettings) -> str:
        return settings.neighbours

    def label(self, row: Mapping[str, Any]) -> str:
        return f"{self.name}, {ADD_REMOVE}" if row.get("neighbours") == ADD_REMOVE else self.name


class CuratorItemsHalf(CuratorHalf):
    """A trusted curator's noisy totals of items."""

    name = "curator-items"
    title = "a curator's totals of items"

    def design(self, settings: CuratorSettings, world: World) -> Reveal:
        self._noise(settings, world)
        return Reveal(name=self.name, items=world.items, most=world.rated)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        from coordinator.server.decoding.line import decode_item_totals

        return decode_item_totals(statistic, how.trusted(), clusters=how.clusters)

    def moments(self, settings: CuratorSettings, world: World) -> server_half.TotalMoments:
        return server_half.TotalMoments(noise=self._noise(settings, world))

    def _noise(self, settings: CuratorSettings, world: World) -> DiscreteLaplace:
        sensitivity = item_sensitivity(world.rated, neighbours=settings.neighbours)
        return DiscreteLaplace(budget=world.epsilon, sensitivity=sensitivity)


class CuratorPairsHalf(CuratorHalf):
    """A trusted curator's noisy totals of pairs of items."""

    name = "curator-pairs"
    title = "a curator's totals of pairs"
    paired = True

    def design(self, settings: CuratorSettings, world: World) -> Reveal:
        if world.rated < 2:
            raise InputError(f"rated is {world.rated}; curator-pairs adds up pairs of ratings and needs at least 2")
        self._noise(settings, world)
        return Reveal(name=self.name, items=world.items, most=world.rated)

    def aggregate(self, query: Query, release: Release) -> PairStatistic:
        from coordinator.protocol.statistics.scores import aggregate_revealed_pairs

        return aggregate_revealed_pairs(query, release)

    def decode(self, statistic: PairStatistic, query: Query, how: Decoding) -> Model:
        from coordinator.server.decoding.line import decode_pair_totals

        return decode_pair_totals(statistic, how.trusted(), clusters=how.clusters)

    def moments(self, settings: CuratorSettings, world: World) -> server_half.PairTotals | None:
        from coordinator.protocol.moments.blocks import pair_agreement

        if world.block is None:
            return None
        alike = pair_agreement(world.block, agreement="rated-equal", epsilon=math.inf, rated_public=True)
        return server_half.PairTotals(
            profile=alike, scale=self._noise(settings, world).sensitivity / as_float(world.epsilon)
        )

    def _noise(self, settings: CuratorSettings, world: World) -> DiscreteLaplace:
        sensitivity = pair_sensitivity(world.rated, items=world.items, neighbours=settings.neighbours)
        return DiscreteLaplace(budget=world.epsilon, sensitivity=sensitivity)


SERVER = (ItemQueryHalf(), FullRevealHalf(), CuratorItemsHalf(), CuratorPairsHalf())
