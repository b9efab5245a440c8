"""Ratings told as they are: the paper's toy of full reveal, and the trusted curator's designs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model, Query, Release
from coordinator.server.decoding.curator import DiscreteLaplace, item_sensitivity, pair_sensitivity
from coordinator.server.design import Decoding, LearnerOptions, World
from coordinator.server.moments.told_ratings import PairTotals, RevealMoments, TotalMoments
from coordinator.server.server_half import ONE_ROUND, TRUST_CURATOR, ServerHalf, Settings
from coordinator.server.statistics.pairs import PairStatistic, check_items

if TYPE_CHECKING:
    from coordinator.server.rounds.learner import SumLearner
    from coordinator.server.statistics.scores import ScoreStatistic


class RevealSettings(Settings):
    """Settings of full reveal."""

    reveal_share: Annotated[
        Annotated[float, Field(gt=0, le=1)] | None, Field(description="Full reveal: P(a user tells all) [1/log2 N].")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reveal:
    """Devices tell their ratings as they are: not private towards whoever asks.

    Source: Banerjee, Hegde, Massoulié, section 1.1 (``full-reveal``); the authors' slides, page 11 (the curator).

    Attributes
    ----------
    name : {"full-reveal", "curator-items", "curator-pairs"}
        The toy, or a trusted curator who will publish noisy totals of items or of pairs of items.
    items : int
        Number of items N.
    most : int
        Most ratings w that a device tells, which bounds a user's share in the curator's totals.
    share : float
        Probability that a device tells anything at all, in (0, 1]; in the toy ``1 / log2 N``.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    name: str
    items: int
    most: int
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.name == "curator-pairs":
            check_items(self.items)
        if not 1 <= self.most <= self.items:
            raise InputError(f"rated is {self.most}; it must lie between 1 and the number of items, {self.items}")
        if not 0 < self.share <= 1:
            raise InputError(f"reveal_share is {self.share}; it must lie in (0, 1]")

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return the query of one round."""
        return Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            questions=2 * self.items,
            parameters={"share": self.share, "most": self.most},
        )


def toy_share(items: int) -> float:
    """Return the toy's probability of a full reveal, ``1 / log2 N``: one bit a user on average."""
    return 1.0 if items <= 2 else 1 / math.log2(items)


class FullRevealHalf(ServerHalf):
    """Full reveal on the server: the toy, which is not private."""

    name = "full-reveal"
    title = "full reveal"
    settings = RevealSettings
    decoders = ("shares",)
    policies = (ONE_ROUND,)
    private = False
    bounded = False

    def design(self, settings: RevealSettings, world: World) -> Reveal:
        """Return full reveal in a world."""
        share = settings.reveal_share or toy_share(world.items)
        return Reveal(name=self.name, items=world.items, most=world.items, share=share)

    def aggregate(self, query: Query, release: Release) -> ScoreStatistic:
        """Return who rated and liked what; see `told_ratings.aggregate_revealed`."""
        from coordinator.server.statistics.told_ratings import aggregate_revealed

        return aggregate_revealed(query, release)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        """Cluster items by their shares of likes; see `told_ratings.decode_shares`."""
        from coordinator.server.decoding.told_ratings import decode_shares

        return decode_shares(statistic, clusters=how.clusters)

    def moments(self, settings: RevealSettings, world: World) -> RevealMoments:
        """Return the share of users that tell."""
        return RevealMoments(share=self.design(settings, world).share)


class CuratorHalf(ServerHalf):
    """A trusted curator, who gets ratings as they are and publishes noisy totals."""

    decoders = ("totals",)
    policies = (ONE_ROUND,)
    trust = TRUST_CURATOR
    bounded = False

    def learner(self, settings: Settings, world: World, options: LearnerOptions) -> SumLearner:
        """Return the decoder of totals, with the noise that the curator adds by coins of its own."""
        from coordinator.server.decoding.told_ratings import Curator
        from coordinator.server.rounds.learner import SumLearner

        curator = Curator(epsilon=world.epsilon, rated=world.rated, seed=options.curator_seed)
        return SumLearner(half=self, how=Decoding(clusters=world.clusters, decoder=options.decoder, curator=curator))


class CuratorItemsHalf(CuratorHalf):
    """A trusted curator's noisy totals of items."""

    name = "curator-items"
    title = "a curator's totals of items"

    def design(self, settings: Settings, world: World) -> Reveal:
        """Return what the curator asks."""
        DiscreteLaplace(budget=world.epsilon, sensitivity=item_sensitivity(world.rated))
        return Reveal(name=self.name, items=world.items, most=world.rated)

    def aggregate(self, query: Query, release: Release) -> ScoreStatistic:
        """Return who rated and liked what; see `told_ratings.aggregate_revealed`."""
        from coordinator.server.statistics.told_ratings import aggregate_revealed

        return aggregate_revealed(query, release)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        """Cluster items by noisy totals; see `told_ratings.decode_item_totals`."""
        from coordinator.server.decoding.told_ratings import decode_item_totals

        return decode_item_totals(statistic, how.trusted(), clusters=how.clusters)

    def moments(self, settings: Settings, world: World) -> TotalMoments:
        """Return the moments of noisy totals."""
        return TotalMoments(epsilon=world.epsilon)


class CuratorPairsHalf(CuratorHalf):
    """A trusted curator's noisy totals of pairs of items."""

    name = "curator-pairs"
    title = "a curator's totals of pairs"
    paired = True

    def design(self, settings: Settings, world: World) -> Reveal:
        """Return what the curator asks."""
        if world.rated < 2:
            raise InputError(f"rated is {world.rated}; curator-pairs adds up pairs of ratings and needs at least 2")
        DiscreteLaplace(budget=world.epsilon, sensitivity=pair_sensitivity(world.rated))
        return Reveal(name=self.name, items=world.items, most=world.rated)

    def aggregate(self, query: Query, release: Release) -> PairStatistic:
        """Return who rated pairs alike; see `told_ratings.aggregate_revealed_pairs`."""
        from coordinator.server.statistics.told_ratings import aggregate_revealed_pairs

        return aggregate_revealed_pairs(query, release)

    def decode(self, statistic: PairStatistic, query: Query, how: Decoding) -> Model:
        """Cluster items by the spectrum of noisy totals; see `told_ratings.decode_pair_totals`."""
        from coordinator.server.decoding.told_ratings import decode_pair_totals

        return decode_pair_totals(statistic, how.trusted(), clusters=how.clusters)

    def moments(self, settings: Settings, world: World) -> PairTotals | None:
        """Return how often pairs are rated alike, and the noise's scale."""
        from coordinator.server.moments.pairs import pair_agreement

        if world.block is None:
            return None
        alike = pair_agreement(world.block, agreement="rated-equal", epsilon=math.inf, rated_public=True)
        return PairTotals(alike=alike, scale=pair_sensitivity(world.rated) / as_float(world.epsilon))


SERVER = (FullRevealHalf(), CuratorItemsHalf(), CuratorPairsHalf())
