"""Frequency oracles on the server: what all oracles share that ask a device about one random item of its own.

An oracle's design says its name, its own parameters, and how often a report speaks for a value
(`FrequencyDesign.reports`); its half says its title, its settings, and how reports are counted
(`FrequencyHalf.supports`). Queries, estimates, moments, decoders and policies follow from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import half_of as public_half
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.one_item import SIDES
from coordinator.server.design import Decoding, World
from coordinator.server.server_half import FIXED, ONE_ROUND, POOLED, POSTERIOR, ServerHalf, Settings, check_shape

if TYPE_CHECKING:
    from coordinator.server.decoding.estimates import Estimates
    from coordinator.server.decoding.frequencies import Rates
    from coordinator.server.moments.blocks import BlockParameters
    from coordinator.server.moments.frequencies import FrequencyMoments
    from coordinator.server.statistics.counts import CountStatistic

KMEANS = "k-means"
"""Name of the decoder that clusters the estimates."""


class FrequencySettings(Settings):
    """The description of every frequency oracle."""

    told: Annotated[
        Literal["liked", "rated"],
        Field(description="Frequency oracles: a random liked item, or a random rated one with whether it was liked."),
    ] = "liked"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyDesign:
    """One random item of each device, told by a frequency oracle; subclasses define `name` and `reports`.

    Attributes
    ----------
    items : int
        Number of items N, at least 1.
    rated : int
        Number of items w that a user rated: public, typical where users differ; 1 to N.
    told : {"liked", "rated"}
        Whether the random item is drawn from the liked or from all rated items.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    rated: int
    told: str = "liked"

    name: ClassVar[str]
    widest: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated)

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return how often a report speaks for a value."""
        raise NotImplementedError

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the oracle's own parameters of a query about so many private values; by default none."""
        return {}

    def query(
        self,
        *,
        round_number: int,
        public_seed: bytes,
        epsilon: Epsilon,
        pool: Indices | None = None,
        expected: Floats | None = None,
    ) -> Query:
        """Return the query of one round about the items of ``pool``, by default all.

        Raises
        ------
        InputError
            If only likes are told and the query is about some of the items. How often a device names one of them would
            depend on how it likes the others, which no round tells.
        """
        told, many = 1 if self.told == "liked" else 2, self.items if pool is None else pool.size
        if told == 1 and many < self.items:
            raise InputError(f"{self.name} asks of what a device liked about all items together; pools need told rated")
        asked = Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={SIDES: told, **self.parameters(told * many + 1, epsilon)},
            pool=None if many == self.items else pool,
        )
        half = public_half(self.name)
        return replace(asked, questions=half.questions(asked).stop - 1, answer_bits=half.answer_bits(asked))

    def line(self, query: Query) -> tuple[float, float]:
        """Return slope and offset of an item's expected estimate; see `frequencies.line_of`."""
        from coordinator.server.decoding.frequencies import line_of

        return line_of(query, rated=self.rated)

    def read(self, query: Query, statistic: CountStatistic, expected: Floats | None = None) -> Estimates:
        """Return what a round tells of every item's b; see `frequencies.read_items`."""
        from coordinator.server.decoding.frequencies import read_items

        return read_items(query, self.reports(query), statistic, self.line(query))

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; ``expected`` holds b, by default 1/2."""
        from coordinator.server.decoding.frequencies import information_of

        return information_of(query, self.reports(query), self.line(query), expected)


class FrequencyHalf(ServerHalf):
    """A frequency oracle on the server; subclasses define `asking` and `supports`."""

    settings: type[Settings] = FrequencySettings
    decoders = (KMEANS, POSTERIOR)
    policies: ClassVar[tuple[str, ...]] = POOLED
    all_policies_with = "set told to rated"
    ranks = True
    asking: type[FrequencyDesign]

    def supports(self, query: Query, release: Release) -> Ints:
        """Return the answering devices whose report speaks for each private value, int64, shape (K,)."""
        raise NotImplementedError

    def policies_with(self, settings: Any) -> tuple[str, ...]:
        """Return all policies if rated items are told; rounds about some items cannot be read if only likes are."""
        return self.policies if getattr(settings, "told", "liked") == "rated" else (ONE_ROUND, FIXED)

    def design(self, settings: Settings, world: World) -> FrequencyDesign:
        """Return the oracle in a world."""
        return self.asking(items=world.items, rated=world.rated, **settings.model_dump())

    def aggregate(self, query: Query, release: Release) -> CountStatistic:
        """Return how many reports speak for each value; see `ServerHalf.aggregate`."""
        from coordinator.server.statistics.frequencies import counted

        return counted(query, release, self.supports(query, release))

    def decode(self, statistic: CountStatistic, query: Query, how: Decoding) -> Model:
        """Return the item model of k-means on the items' popularity; see `frequencies.popularity`.

        Raises
        ------
        InputError
            If the decoder is unknown, or rounds asked about pools.
        """
        from coordinator.server.decoding.frequencies import popularity
        from coordinator.server.decoding.line import kmeans_on_line

        if how.decoder != KMEANS:
            raise InputError(f"decoder {how.decoder!r} is unknown; choose one of {', '.join(self.decoders)}")
        if statistic.pooled:
            raise InputError(f"rounds asked about pools of items, whose counts have no sum; choose decoder {POSTERIOR}")
        value, error = popularity(query, self.asking.reports(query), statistic)
        return Model(cluster=kmeans_on_line(value, how.clusters), score=value, error=error, clusters=how.clusters)

    def moments(self, settings: FrequencySettings, world: World) -> FrequencyMoments | None:
        """Return what one round about all items tells of each cluster."""
        from coordinator.server.moments.frequencies import FrequencyMoments

        if world.block is None:
            return None
        query = self.design(settings, world).query(round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        rates, (liked, disliked) = self.asking.reports(query), self.named(settings, world.block)
        if disliked is None:
            return FrequencyMoments(level=liked, variance=rates.spread(liked))
        return FrequencyMoments(level=liked - disliked, variance=rates.spread_between(liked, disliked))

    def named(self, settings: FrequencySettings, block: BlockParameters) -> tuple[Floats, Floats | None]:
        """Return the probabilities that a user's value is one item of each cluster, liked and (if told) disliked."""
        from coordinator.server.moments.frequencies import liked_shares, rated_shares

        return (liked_shares(block), None) if settings.told == "liked" else rated_shares(block)
