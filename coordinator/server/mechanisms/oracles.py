"""Frequency oracles on the server: k-ary, unary, hashed, Hadamard and subset reports of one random item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Floats, Indices, Ints, Words
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import COIN, odds_within, unary_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import half_of as public_half
from coordinator.protocol.mechanisms.oracles import BUCKETS, MOST_BUCKETS, MOST_ROWS, ROWS, columns, values_of
from coordinator.protocol.mechanisms.oracles import Subset as PublicSubset
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.pools import SIDES, sides
from coordinator.protocol.statistics.counts import CountStatistic, Rates, counted, reported
from coordinator.protocol.value_channels import CHOSEN, SubsetChannel, kary_channel
from coordinator.server.design import Decoding, RoundTerms, World, query_of
from coordinator.server.server_half import FIXED, ONE_ROUND, POOLED, POSTERIOR, ServerHalf, Settings, check_shape

if TYPE_CHECKING:
    from coordinator.protocol.amplification import SetDesign
    from coordinator.protocol.moments.blocks import BlockParameters
    from coordinator.protocol.moments.count_moments import FrequencyMoments
    from coordinator.server.decoding.estimates import Estimates


KMEANS = "k-means"  # Name of the decoder that clusters the estimates


class FrequencySettings(Settings):
    """The description of every frequency oracle."""

    told: Literal["liked", "rated"] = Field(
        default="liked",
        description="Frequency oracles: a random liked item, or a random rated one with whether it was liked.",
    )


_FIELDS = {"told": "source", "chosen": "subset_size"}


def design_fields(settings: Settings) -> dict[str, Any]:
    """Return settings by the names of a design's fields; settings keep the keys that scenario files have."""
    return {_FIELDS.get(key, key): value for key, value in settings.model_dump().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyDesign:
    """One random item of each device, reported by a frequency oracle; subclasses define `reports` and `supports`."""

    items: int  # Number of items N, at least 1
    rated: int  # Number of items w that a user rated: public, typical where users differ; 1 to N
    # What the random item is drawn from: "liked" or "rated" items
    source: str = "liked"

    name: ClassVar[str]
    widest: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated)

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return how often a report speaks for a value."""
        raise NotImplementedError

    @staticmethod
    def supports(query: Query, release: Release) -> Ints:
        """Return the answering devices whose report speaks for each private value, int64, shape (K,)."""
        raise NotImplementedError

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the oracle's own parameters of a query about so many private values; by default none."""
        return {}

    def query(
        self, *, pool: Indices | None = None, expected: Floats | None = None, **terms: Unpack[RoundTerms]
    ) -> Query:
        """Return the query of one round about the items of ``pool``, by default all."""
        sides, pool_items = 1 if self.source == "liked" else 2, self.items if pool is None else pool.size
        if sides == 1 and pool_items < self.items:
            remedy = "for pools choose sign, or oue with told rated"
            raise InputError(f"{self.name} asks of what a device liked about all items together; {remedy}")
        parameters = {SIDES: sides, **self.parameters(sides * pool_items + 1, terms["epsilon"])}
        some = None if pool_items == self.items else pool
        draft = query_of(self.name, self.items, terms, parameters=parameters, pool=some)
        half = public_half(self.name)
        return replace(draft, questions=half.questions(draft).stop - 1, answer_bits=half.answer_bits(draft))

    def line(self, query: Query) -> tuple[float, float]:
        """Return slope and offset of an item's expected estimate; see `estimates.line_of`."""
        from coordinator.server.decoding.estimates import line_of

        return line_of(query, rated=self.rated)

    def read(self, query: Query, statistic: CountStatistic, expected: Floats | None = None) -> Estimates:
        """Return a round's estimates of every item's b; see `estimates.read_items`."""
        from coordinator.server.decoding.estimates import read_items

        return read_items(query, self.reports(query), statistic, self.line(query))

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; ``expected`` holds b, by default 1/2."""
        from coordinator.server.decoding.estimates import information_of

        return information_of(query, self.reports(query), self.line(query), expected)


class FrequencyHalf(ServerHalf):
    """A frequency oracle on the server, whose design ``asking`` says how reports are counted."""

    decoders = (KMEANS, POSTERIOR)
    policies: ClassVar[tuple[str, ...]] = POOLED
    all_policies_with = "set told to rated"
    ranks = True

    def __init__(self, title: str, asking: type[FrequencyDesign], settings: type[Settings] = FrequencySettings) -> None:
        self.name, self.title, self.asking, self.settings = asking.name, title, asking, settings

    def policies_with(self, settings: Any) -> tuple[str, ...]:
        """Return all policies if devices report rated items; likes alone say nothing in rounds about some items."""
        return self.policies if getattr(settings, "told", "liked") == "rated" else (ONE_ROUND, FIXED)

    def design(self, settings: Settings, world: World) -> FrequencyDesign:
        return self.asking(items=world.items, rated=world.rated, **design_fields(settings))

    def aggregate(self, query: Query, release: Release) -> CountStatistic:
        return counted(query, release, self.asking.supports(query, release))

    def decode(self, statistic: CountStatistic, query: Query, how: Decoding) -> Model:
        from coordinator.server.decoding.estimates import popularity
        from coordinator.server.decoding.line import kmeans_on_line

        if how.decoder != KMEANS:
            raise InputError(f"decoder {how.decoder!r} is unknown; choose one of {', '.join(self.decoders)}")
        if statistic.pooled:
            raise InputError(f"rounds asked about pools of items, whose counts have no sum; choose decoder {POSTERIOR}")
        value, error = popularity(query, self.asking.reports(query), statistic)
        return Model(cluster=kmeans_on_line(value, how.clusters), score=value, error=error, clusters=how.clusters)

    def moments(self, settings: FrequencySettings, world: World) -> FrequencyMoments | None:
        from coordinator.protocol.moments.count_moments import FrequencyMoments

        if world.block is None:
            return None
        query = self.design(settings, world).query(round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        rates, (liked, disliked) = self.asking.reports(query), self.shares(query, world.block)
        level = liked if disliked is None else liked - disliked
        return FrequencyMoments(level=level, variance=rates.spread(liked, disliked))

    def shares(self, query: Query, block: BlockParameters) -> tuple[Floats, Floats | None]:
        """Return the probabilities that a user's value is one item of each cluster, liked and (if asked) disliked."""
        from coordinator.protocol.moments.count_moments import liked_shares, rated_shares

        return (liked_shares(block), None) if sides(query) == 1 else rated_shares(block)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grr(FrequencyDesign):
    """A report speaks for the value that it names. Source: Kairouz, Bonawitz and Ramage (2016)."""

    name: ClassVar[str] = "grr"

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return ``p = e^eps / (e^eps + K - 1)`` and ``q = 1 / (e^eps + K - 1)``, as the channel has them."""
        channel = kary_channel(query.epsilon, values=values_of(query))
        return Rates(channel.own / COIN, channel.other / COIN, both=0.0)

    @staticmethod
    def supports(query: Query, release: Release) -> Ints:
        """Return how many devices named each value."""
        values = values_of(query)
        named = reported(query, release, values)[release.answered_mask()]
        return np.bincount(named, minlength=values).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oue(FrequencyDesign):
    """A report speaks for the values whose bits are 1. Source: Wang, Blocki, Li and Jha (2017), section 4.2."""

    name: ClassVar[str] = "oue"

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return ``p = 1/2`` and ``q = 1 / (e^eps + 1)``, as the channel has them."""
        own, other = unary_channel(query.epsilon, values=values_of(query)).rates
        return Rates(float(own), float(other))

    @staticmethod
    def supports(query: Query, release: Release) -> Ints:
        """Return how many devices have a 1 for each value."""
        from coordinator.protocol.statistics.slices import column_counts

        release.require(query)
        return column_counts(release)


def _hashed_reports(query: Query, release: Release, outputs: int) -> tuple[Words, Indices]:
    """Return the public streams of the devices that answered, and what each of them reported."""
    from coordinator.protocol.public_draws import streams_of

    answered = release.answered_mask()
    return streams_of(query, release)[answered], reported(query, release, outputs)[answered]


@dataclass(frozen=True, slots=True, kw_only=True)
class Olh(FrequencyDesign):
    """A report speaks for the values of its bucket. Source: Wang, Blocki, Li and Jha (2017)."""

    name: ClassVar[str] = "olh"

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the number of buckets with the least noise, ``e^eps + 1`` rounded, at most `MOST_BUCKETS`."""
        return {BUCKETS: MOST_BUCKETS if epsilon is None else min(round(odds_within(epsilon) + 1), MOST_BUCKETS)}

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return ``p = e^eps / (e^eps + g - 1)``, as the channel has it, and ``q = 1 / g``."""
        buckets = int(query.parameters[BUCKETS])
        return Rates(kary_channel(query.epsilon, values=buckets).own / COIN, 1 / buckets)

    @staticmethod
    def supports(query: Query, release: Release) -> Ints:
        """Return how many devices reported the bucket of each value, hashing all values as each of them does."""
        from coordinator.protocol.public_draws import count_supports

        buckets, counts = int(query.parameters[BUCKETS]), np.zeros(values_of(query), np.int64)
        streams, reports = _hashed_reports(query, release, buckets)
        count_supports(streams, reports, buckets, counts)
        return counts


class HadamardSettings(FrequencySettings):
    """Settings of Hadamard response, beside those of every oracle."""

    rows: int = Field(
        default=0, ge=0, le=MOST_ROWS, description="Hadamard: public rows a device answers about, 0 for the best [0]."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hadamard(FrequencyDesign):
    """Local hashing whose hash is t rows of the Hadamard matrix: a report speaks for the values with those signs.

    With one row it is the Hadamard bit. Source: Acharya, Sun and Zhang (2019). Several rows that each device draws for
    itself, so that one transform counts them, are our addition.
    """

    rows: int = 0  # Rows t of a device; 0 for as many as have the least noise

    name: ClassVar[str] = "hadamard"

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the number of rows; up to factors the noise is ``(e^eps + x)^2 / x`` with ``x = 2^t - 1``."""
        if self.rows or epsilon is None:
            return {ROWS: self.rows or MOST_ROWS}
        odds = odds_within(epsilon)
        return {ROWS: min(range(1, MOST_ROWS + 1), key=lambda rows: (odds + 2**rows - 1) ** 2 / (2**rows - 1))}

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return ``p = e^eps / (e^eps + 2^t - 1)``, as the channel has it, and ``q = 2^-t``."""
        signs = 1 << int(query.parameters[ROWS])
        return Rates(kary_channel(query.epsilon, values=signs).own / COIN, 1 / signs)

    @staticmethod
    def supports(query: Query, release: Release) -> Ints:
        """Return how many devices reported the signs of each value, by one transform of the sums of rows and products.

        Whether all t signs agree is the mean over all products of rows of the product's sign, which is what a device
        reports times what the value has; so counts are a 2^t-th of the transform, without a remainder.
        """
        from coordinator.protocol.public_draws import gather, transform

        rows, counts = int(query.parameters[ROWS]), np.zeros(columns(query), np.int64)
        streams, reports = _hashed_reports(query, release, 1 << rows)
        gather(streams, reports, rows, counts)
        transform(counts)
        return counts[: values_of(query)] >> rows


Chosen = Annotated[int, Field(ge=0, description="Subsets and sets: values in a release, 0 for the best [0].")]
"""A setting that subset selection and the set mechanism share."""


FAINT = Fraction(1, 10**9)
"""Smallest difference of a value's two rates, relative to them, at which floats are precise enough for estimates."""


def subset_rates(query: Query) -> Rates:
    """Return how often a subset holds a value of the device's own, and another one, as the channel has it."""
    channel = public_half(query.design).channel(query)
    assert isinstance(channel, SubsetChannel)  # of no other query
    own, other = channel.rates
    if own - other < FAINT * other:
        raise InputError(
            f"chosen is {channel.subset_size} of {channel.values} values, which tells next to nothing of a set of "
            f"{channel.padded}; choose fewer, or pad less"
        )
    return Rates(float(own), float(other), both=float(channel.both / other**2) if other else 0.0)


def subset_supports(query: Query, release: Release) -> Ints:
    """Return how many devices named each value, dummies behind what is asked about."""
    from coordinator.protocol.statistics.slices import subset_counts

    half = public_half(query.design)
    assert isinstance(half, PublicSubset)  # of no other query
    return subset_counts(query, release, values=half.values(query), subset_size=int(query.parameters[CHOSEN]))


SHARE = 0.15  # Share of devices that hold an item whose estimate has the least variance, where nothing else is said


def shuffled_query(query: Query, devices: int, delta: float, share: float = SHARE) -> Query:
    """Return a query of subsets behind a shuffler, for so many honest devices: the given one has the central epsilon.

    Its epsilon is the largest local one that keeps the central one, and it names as many values as are best for that.
    """
    half = public_half(query.design)
    assert isinstance(half, PublicSubset)  # of no other query
    if query.epsilon is None:
        return query
    own = half.own(query)
    best = _best_set(half.values(query) - own, own, query.epsilon, max(devices, 1), delta, share)
    parameters = {**query.parameters, CHOSEN: float(best.subset_size)}
    local = replace(query, epsilon=best.local_epsilon, parameters=parameters)
    return replace(local, questions=half.questions(local).start, answer_bits=half.answer_bits(local))


@lru_cache(maxsize=1 << 12)
def _best_set(items: int, padded: int, epsilon: Fraction, devices: int, delta: float, share: float) -> SetDesign:
    from coordinator.protocol.amplification import best_set

    return best_set(items=items, padded=padded, epsilon=epsilon, devices=devices, delta=delta, share=share)


class SubsetSettings(FrequencySettings):
    """Settings of subset selection, beside those of every oracle."""

    chosen: Chosen = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset(FrequencyDesign):
    """A report speaks for the values that it names. Source: Ye and Barg (2018); Wang et al. (2016)."""

    subset_size: int = 0  # Values k in a release, fewer where a pool has no more; 0 for as many as have the least noise

    name: ClassVar[str] = "subset"

    def __post_init__(self) -> None:
        FrequencyDesign.__post_init__(self)
        if self.subset_size > self.items:
            raise InputError(f"chosen is {self.subset_size}; it must be at most the number of items, {self.items}")

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the number of values in a subset; the least noise has ``K / (e^eps + 1)``."""
        best = 1 if epsilon is None else round(values / (odds_within(epsilon) + 1))
        return {CHOSEN: max(1, min(self.subset_size or best, values - 1))}

    reports = staticmethod(subset_rates)
    supports = staticmethod(subset_supports)


SERVER = (
    FrequencyHalf("k-ary randomized response", Grr),
    FrequencyHalf("unary encoding", Oue),
    FrequencyHalf("local hashing", Olh),
    FrequencyHalf("Hadamard response", Hadamard, HadamardSettings),
    FrequencyHalf("subset selection", Subset, SubsetSettings),
)
