"""Pairwise-Preference: does a device agree about a random pair of items? One bit a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

from pydantic import Field

from coordinator.protocol.budget import as_float
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.pools import AGREEMENTS, OF_RATED
from coordinator.protocol.statistics.counts import PairStatistic, aggregate_pairs, check_items
from coordinator.server.design import Decoding, RoundTerms, World, query_of
from coordinator.server.server_half import SETS, ServerHalf, Settings

if TYPE_CHECKING:
    from coordinator.protocol.moments.blocks import PairMoments


class PairwiseSettings(Settings):
    """Settings of Pairwise-Preference."""

    agreement: Literal["rated-equal", "equal", "positive"] = Field(
        default="rated-equal", description="Pairwise's bit: rated-equal, equal or positive."
    )
    rated_items: Literal["private", "public"] = Field(
        default="private", description="Pairwise: private, or public and asked about only."
    )

    always_told: ClassVar[frozenset[str]] = frozenset({"agreement"})

    @property
    def rated_public(self) -> bool:
        return self.rated_items == "public"

    @property
    def asks(self) -> str:
        return f"pairwise-{self.agreement}{OF_RATED if self.rated_public else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairwise:
    """Pairwise-Preference: a uniform pair of items each; the bit is 1 if the device agrees about them.

    Source: Banerjee, Hegde, Massoulié, Figure 1 and Theorem 8 [3.5].
    """

    items: int  # Number of items N, 2 to `counts.MOST_PAIRED_ITEMS`
    # one of "rated-equal", "equal", "positive"; Both rated and rated alike (the paper's analysis, the default); liked
    # alike, where unrated counts as not liked (its Figure 1 to the letter); both liked (the slides)
    agreement: str = "rated-equal"
    rated_public: bool = False  # Whether the pair is drawn among the device's rated items, which are public then

    def __post_init__(self) -> None:
        check_items(self.items)
        if self.agreement not in AGREEMENTS:
            raise InputError(f"agreement is {self.agreement!r}; choose one of {', '.join(AGREEMENTS)}")

    def query(self, **terms: Unpack[RoundTerms]) -> Query:
        return query_of(f"pairwise-{self.agreement}{OF_RATED if self.rated_public else ''}", self.items, terms)


class PairwiseHalf(ServerHalf):
    """Pairwise-Preference on the server."""

    name = "pairwise"
    title = "Pairwise-Preference"
    settings = PairwiseSettings
    decoders = SETS
    paired = True

    @property
    def asks(self) -> tuple[str, ...]:
        return tuple(f"pairwise-{agreement}{of}" for agreement in AGREEMENTS for of in ("", OF_RATED))

    def query_name(self, settings: PairwiseSettings) -> str:
        return settings.asks

    def label(self, row: Mapping[str, Any]) -> str:
        return "pairwise of rated" if row.get("rated_items") == "public" else f"pairwise {row['agreement']}"

    def design(self, settings: PairwiseSettings, world: World) -> Pairwise:
        if settings.rated_public and world.same_rated and world.rated < 2:
            raise InputError(f"rated is {world.rated}; a pair among public rated items needs at least 2")
        return Pairwise(items=world.items, agreement=settings.agreement, rated_public=settings.rated_public)

    def aggregate(self, query: Query, release: Release) -> PairStatistic:
        return aggregate_pairs(query, release)

    def decode(self, statistic: PairStatistic, query: Query, how: Decoding) -> Model:
        from coordinator.server.decoding.line import decode_pairs

        return decode_pairs(statistic, clusters=how.clusters, decoder=how.decoder)

    def moments(self, settings: PairwiseSettings, world: World) -> PairMoments | None:
        from coordinator.protocol.moments.blocks import PairMoments, pair_agreement

        if world.block is None:
            return None
        rates = pair_agreement(
            world.block,
            agreement=settings.agreement,
            epsilon=as_float(world.epsilon),
            rated_public=settings.rated_public,
        )
        return PairMoments(rates=rates)


SERVER = (PairwiseHalf(),)
