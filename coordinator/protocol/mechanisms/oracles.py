"""Frequency oracles: k-ary, unary, hashed, Hadamard and subset reports of one private value, a random item.

Of M items that are asked about, by their places in the pool: a device that reports what it liked has the value j if the
j-th item is a random one of those that it liked, and M if it liked none. One that reports what it rated has j if the
random item was liked, M + j if it was disliked, and 2 M if it rated none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, ClassVar, Literal, Self, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol import amplification
from coordinator.protocol.arrays import Bits, Bits2, Floats, Indices, Indices2, Ints, Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import COIN, UnaryChannel, odds_within, unary_channel
from coordinator.protocol.decoding.estimates import (
    Estimates,
    information_of,
    line_of,
    popularity,
    read_items,
    repeated_variance,
)
from coordinator.protocol.errors import InputError
from coordinator.protocol.law import BlockPeople, Law, People
from coordinator.protocol.mechanism import (
    FIXED,
    KMEANS,
    ONE_ROUND,
    POOLED,
    POSTERIOR,
    DeviceCoins,
    DeviceRatings,
    Mechanism,
    PackedMechanism,
    QueryHeader,
    Sketch,
    World,
    check_shape,
    query_of,
    require_whole_parameter,
)
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.moments.count_moments import FrequencyMoments
from coordinator.protocol.packed_releases import release_subsets, release_unary
from coordinator.protocol.pools import SIDES, places_in, pool_of, pool_size, sides
from coordinator.protocol.public_draws import buckets_of, count_supports, gather, signs_of, streams_of, transform
from coordinator.protocol.statistics.counts import CountStatistic, Rates, counted, reported
from coordinator.protocol.statistics.slices import column_counts, subset_counts
from coordinator.protocol.value_channels import (
    CHOSEN,
    PADDED,
    KaryChannel,
    SubsetChannel,
    kary_channel,
    subset_channel,
    subset_form,
)


def values_of(query: Query) -> int:
    """Return the number of private values K, "none" among them."""
    return sides(query) * pool_size(query) + 1


def columns(query: Query) -> int:
    """Return the smallest power of two that is not below the number of private values: columns of a Hadamard matrix."""
    return 1 << (values_of(query) - 1).bit_length()


class Frequencies(Mechanism):
    """Counts of reported values; subclasses say how often a report speaks for a value, and how reports are counted."""

    parameters = frozenset({SIDES})
    pooled = None
    decoders: ClassVar[tuple[str, ...]] = (KMEANS, POSTERIOR)
    policies: ClassVar[tuple[str, ...]] = POOLED
    ranks = True

    @property
    def sides(self) -> int:
        """Values that stand for an item: 1, liked; 2, liked or disliked."""
        return 1

    def check_world(self, world: World) -> None:
        check_shape(world.items, world.rated)

    def reports(self, query: Query) -> Rates:
        """Return how often a report speaks for a value."""
        raise NotImplementedError

    def supports(self, query: Query, release: Release) -> Ints:
        """Return the answering devices whose report speaks for each private value, int64, shape (K,)."""
        raise NotImplementedError

    def sizes(self, values: int, world: World, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the mechanism's own query parameters, by the number of private values; by default none."""
        return {}

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of one round about the items of ``pool``, by default all."""
        pool_items = world.items if pool is None else pool.size
        if self.sides == 1 and pool_items < world.items:
            remedy = "for pools choose sign, or oue with told rated"
            raise InputError(f"{self.name} asks of what a device liked about all items together; {remedy}")
        parameters = {SIDES: self.sides, **self.sizes(self.sides * pool_items + 1, world, header["epsilon"])}
        some = None if pool_items == world.items else pool
        draft = query_of(self.name, world.items, header, parameters=parameters, pool=some)
        return replace(draft, questions=self.question_range(draft).stop - 1, answer_bits=self.answer_bits(draft))

    def check(self, query: Query) -> None:
        if query.parameters[SIDES] not in (1, 2):
            raise InputError(f"{query} has {SIDES} {query.parameters[SIDES]:g}; give 1, or 2 where dislikes count")

    def count(self, query: Query, release: Release) -> CountStatistic:
        return counted(query, release, self.supports(query, release))

    def line(self, query: Query, world: World) -> tuple[float, float]:
        """Return slope and offset of an item's expected estimate; see `estimates.line_of`."""
        return line_of(query, rated=world.rated)

    def estimate(
        self, query: Query, statistic: CountStatistic, world: World, expected: Floats | None = None
    ) -> Estimates:
        """Return a round's estimates of every item's b; see `estimates.read_items`."""
        return read_items(query, self.reports(query), statistic, self.line(query, world))

    def repeated_variance(self, query: Query, world: World, value: Floats) -> Floats:
        """Return the variance of b among people, of whose likes each names as many as a set holds."""
        slope, offset = self.line(query, world)
        shares = np.clip(slope * value + offset, 0, 1)
        return repeated_variance(shares, query.parameters.get(PADDED, 1.0), rated=world.rated) / slope**2

    def rates(self, query: Query, world: World, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; ``expected`` holds b, by default 1/2."""
        return information_of(query, self.reports(query), self.line(query, world), expected)

    def scores(self, query: Query, statistic: CountStatistic, world: World | None) -> tuple[Floats, Floats]:
        """Return the shares of devices that name each item, and their standard errors."""
        return popularity(query, self.reports(query), statistic)

    def moments(self, world: World) -> FrequencyMoments | None:
        if world.block is None:
            return None
        query = self.design(world).query(round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        rates, (liked, disliked) = self.reports(query), self.value_shares(query, BlockPeople.of(world.block))
        level = liked if disliked is None else liked - disliked
        return FrequencyMoments(level=level, variance=rates.spread(liked, disliked))

    def value_shares(self, query: Query, people: People) -> tuple[Floats, Floats | None]:
        """Return the probabilities that a person's value is one item, liked and (if asked) disliked, shape (M,)."""
        if sides(query) == 1:
            return people.likers(lambda likes: 1 / likes), None
        return people.raters(lambda rated: 1 / rated)

    def values(self, query: Query) -> int:
        """Return the number of values, dummies among them."""
        return values_of(query)

    def law(self, query: Query, people: People) -> Law:
        """Return the law of how many reports speak for each item, ``Binomial(n, q + (p - q) f)``."""
        rates, parts = self.reports(query), self.value_shares(query, people.among(query.pool))
        shares = np.concatenate([part for part in parts if part is not None])
        return Law(partial(self.draw_counts, query, np.clip(rates.others + rates.contrast * shares, 0, 1)))

    def draw_counts(self, query: Query, chances: Floats, users: int, coins: np.random.Generator) -> CountStatistic:
        """Draw counts of items; those of values that are no items stay 0 and are not read."""
        counts = np.zeros(self.values(query), np.int64)
        counts[: chances.size] = coins.binomial(users, chances)
        pooled = 0 if query.pool is None else users
        return CountStatistic(sums=counts, ones=0, devices=users, answered=users, refused=0, pooled=pooled)


class Oracle(Frequencies):
    """One random item of each device, reported by a frequency oracle."""

    all_policies_with = "set told to rated"

    told: Literal["liked", "rated"] = Field(
        default="liked",
        description="Frequency oracles: report a random liked item, or a random rated item and whether it is liked.",
    )

    @property
    def sides(self) -> int:
        """Values that stand for an item; see `Frequencies.sides`."""
        return 1 if self.told == "liked" else 2

    def policies_with(self) -> tuple[str, ...]:
        """Return all policies if devices report rated items; likes alone say nothing in rounds about some items."""
        return self.policies if self.sides == 2 else (ONE_ROUND, FIXED)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return each device's random item as the oracle encodes it."""
        places = places_in(pool_of(query), ratings.items)
        return Sketch(self.encode(ratings.random_values(coins.sketch(), places, sides(query)), query, coins))

    def encode(self, values: Indices, query: Query, coins: DeviceCoins) -> Indices2:
        """Return private sketches of values, shape (devices, any); by default the values as they are."""
        return values.reshape(-1, 1)


class Grr(Oracle):
    """The value is released among all K of them, and speaks for itself.

    Source: Kairouz, Bonawitz and Ramage (2016).
    """

    name = "grr"
    title = "k-ary randomized response"

    def answer_bits(self, query: Query) -> int:
        return (values_of(query) - 1).bit_length()

    def channel(self, query: Query) -> KaryChannel:
        return kary_channel(query.epsilon, values=values_of(query))

    def levels(self, query: Query) -> amplification.TwoLevels:
        return amplification.kary_levels(values_of(query))

    def reports(self, query: Query) -> Rates:
        """Return ``p = e^eps / (e^eps + K - 1)`` and ``q = 1 / (e^eps + K - 1)``, as the channel has them."""
        channel = self.channel(query)
        return Rates(channel.same / COIN, channel.other / COIN, both=0.0)

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices named each value."""
        values = values_of(query)
        named = reported(query, release, values)[release.answered_mask()]
        return np.bincount(named, minlength=values).astype(np.int64)


class Oue(PackedMechanism, Oracle):
    """Questions are values: each is answered by one bit, all of them together under epsilon; a 1 speaks for its value.

    Source: Wang, Blocki, Li and Jha (2017), section 4.2.
    """

    name = "oue"
    title = "unary encoding"

    def question_range(self, query: Query) -> range:
        return range(values_of(query), values_of(query) + 1)

    def channel(self, query: Query) -> UnaryChannel:
        return unary_channel(query.epsilon, values=values_of(query))

    def levels(self, query: Query) -> amplification.TwoLevels:
        return amplification.unary_levels(as_float(query.epsilon))

    def packed(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits:
        return release_unary(private.view(np.int32)[:, 0], self.channel(query), coins)

    def reports(self, query: Query) -> Rates:
        """Return ``p = 1/2`` and ``q = 1 / (e^eps + 1)``, as the channel has them."""
        same, other = self.channel(query).rates
        return Rates(float(same), float(other))

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices have a 1 for each value."""
        release.require(query)
        return column_counts(release)


def _hashed_reports(query: Query, release: Release, outputs: int) -> tuple[Words, Indices]:
    """Return the public streams of the devices that answered, and what each of them reported."""
    answered = release.answered_mask()
    return streams_of(query, release)[answered], reported(query, release, outputs)[answered]


BUCKETS = "buckets"  # Parameter of every query: buckets g
MOST_BUCKETS = 1 << 10  # Buckets at most


class Olh(Oracle):
    """The bucket is released among all g of them, and speaks for the values in it; see `public_draws`.

    Source: Wang, Blocki, Li and Jha (2017).
    """

    name = "olh"
    title = "local hashing"
    parameters = Oracle.parameters | {BUCKETS}
    by_address = True

    def sizes(self, values: int, world: World, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the number of buckets with the least noise, ``e^eps + 1`` rounded, at most `MOST_BUCKETS`."""
        return {BUCKETS: MOST_BUCKETS if epsilon is None else min(round(odds_within(epsilon) + 1), MOST_BUCKETS)}

    def check(self, query: Query) -> None:
        super().check(query)
        if require_whole_parameter(query, BUCKETS, MOST_BUCKETS) < 2:
            raise InputError(f"{query} has 1 bucket, which reveals nothing; give 2 to {MOST_BUCKETS}")

    def answer_bits(self, query: Query) -> int:
        return (int(query.parameters[BUCKETS]) - 1).bit_length()

    def channel(self, query: Query) -> KaryChannel:
        return kary_channel(query.epsilon, values=int(query.parameters[BUCKETS]))

    def levels(self, query: Query) -> amplification.TwoLevels | None:
        return amplification.hash_levels(int(query.parameters[BUCKETS])) if query.own_questions else None

    def encode(self, values: Indices, query: Query, coins: DeviceCoins) -> Indices2:
        return buckets_of(coins.streams(query), values, int(query.parameters[BUCKETS]))[:, None]

    def reports(self, query: Query) -> Rates:
        """Return ``p = e^eps / (e^eps + g - 1)``, as the channel has it, and ``q = 1 / g``."""
        return Rates(self.channel(query).same / COIN, 1 / int(query.parameters[BUCKETS]))

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices reported the bucket of each value, hashing all values as each of them does."""
        buckets, counts = int(query.parameters[BUCKETS]), np.zeros(values_of(query), np.int64)
        streams, reports = _hashed_reports(query, release, buckets)
        count_supports(streams, reports, buckets, counts)
        return counts


ROWS = "rows"  # Parameter of every query: rows t
MOST_ROWS = 10  # Rows at most: the server adds up 2^t - 1 products of them for every device


class Hadamard(Oracle):
    """Local hashing whose hash is t rows of the Hadamard matrix: a report speaks for the values with those signs.

    With one row it is the Hadamard bit. Source: Acharya, Sun and Zhang (2019). Several rows that each device draws for
    itself, so that one transform counts them, are our addition.
    """

    name = "hadamard"
    title = "Hadamard response"
    parameters = Oracle.parameters | {ROWS}
    by_address = True

    rows: int = Field(
        default=0, ge=0, le=MOST_ROWS, description="Hadamard: public rows per answer; 0 for the best number [0]."
    )

    def sizes(self, values: int, world: World, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the number of rows; up to factors the noise is ``(e^eps + x)^2 / x`` with ``x = 2^t - 1``."""
        if self.rows or epsilon is None:
            return {ROWS: self.rows or MOST_ROWS}
        odds = odds_within(epsilon)
        return {ROWS: min(range(1, MOST_ROWS + 1), key=lambda rows: (odds + 2**rows - 1) ** 2 / (2**rows - 1))}

    def check(self, query: Query) -> None:
        super().check(query)
        require_whole_parameter(query, ROWS, MOST_ROWS)

    def answer_bits(self, query: Query) -> int:
        return int(query.parameters[ROWS])

    def channel(self, query: Query) -> KaryChannel:
        return kary_channel(query.epsilon, values=1 << int(query.parameters[ROWS]))

    def levels(self, query: Query) -> amplification.TwoLevels | None:
        return amplification.hadamard_levels(int(query.parameters[ROWS])) if query.own_questions else None

    def encode(self, values: Indices, query: Query, coins: DeviceCoins) -> Indices2:
        return signs_of(coins.streams(query), values, int(query.parameters[ROWS]), columns(query))[:, None]

    def reports(self, query: Query) -> Rates:
        """Return ``p = e^eps / (e^eps + 2^t - 1)``, as the channel has it, and ``q = 2^-t``."""
        return Rates(self.channel(query).same / COIN, 1 / (1 << int(query.parameters[ROWS])))

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices reported the signs of each value, by one transform of the sums of rows and products.

        Whether all t signs agree is the mean over all products of rows of the product's sign, which is what a device
        reports times what the value has; so counts are a 2^t-th of the transform, without a remainder.
        """
        rows, counts = int(query.parameters[ROWS]), np.zeros(columns(query), np.int64)
        streams, reports = _hashed_reports(query, release, 1 << rows)
        gather(streams, reports, rows, counts)
        transform(counts)
        return counts[: values_of(query)] >> rows


Chosen = Annotated[int, Field(ge=0, description="Subsets and sets: values per release; 0 for the best number [0].")]
"""A setting that subset selection and the set mechanism share."""
FAINT = Fraction(1, 10**9)
"""Smallest difference of a value's two rates, relative to them, at which floats are precise enough for estimates."""


SHARE = 0.15  # Share of devices that hold an item whose estimate has the least variance, where nothing else is said


class Subsets(PackedMechanism, Frequencies):
    """A subset that holds a value of the device's own, or, less often, one that does not; it speaks for all of it.

    Questions are the values of a subset, by their numbers; or all values, a bit each, where that is shorter.
    """

    parameters = Frequencies.parameters | {CHOSEN}

    @property
    def subset_size(self) -> int:
        """Values k in a release, fewer where a pool has no more; 0 for as many as have the least noise."""
        return int(getattr(self, CHOSEN))  # a setting that each mechanism lists at its own place

    def check_world(self, world: World) -> None:
        super().check_world(world)
        if self.subset_size > world.items:
            size = self.subset_size
            raise InputError(f"chosen is {size}; it must be at most the number of items, {world.items}")

    def set_size(self, query: Query) -> int:
        """Return the values of every device's set."""
        return 1

    def question_range(self, query: Query) -> range:
        parts, _ = subset_form(self.values(query), int(query.parameters[CHOSEN]))
        return range(parts, parts + 1)

    def answer_bits(self, query: Query) -> int:
        return subset_form(self.values(query), int(query.parameters[CHOSEN]))[1]

    def channel(self, query: Query) -> SubsetChannel:
        subset_size = int(query.parameters[CHOSEN])
        return subset_channel(
            query.epsilon, values=self.values(query), padded=self.set_size(query), subset_size=subset_size
        )

    def levels(self, query: Query) -> amplification.TwoLevels:
        return amplification.subset_levels(self.values(query), self.set_size(query), int(query.parameters[CHOSEN]))

    def packed(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits:
        return release_subsets(private.view(np.int32), self.channel(query), coins)

    def reports(self, query: Query) -> Rates:
        """Return how often a subset holds a value of the device's own, and another one, as the channel has it."""
        channel = self.channel(query)
        same, other = channel.rates
        if same - other < FAINT * other:
            raise InputError(
                f"chosen is {channel.subset_size} of {channel.values} values, which tells next to nothing of a set of "
                f"{channel.padded}; choose fewer, or pad less"
            )
        return Rates(float(same), float(other), both=float(channel.both / other**2) if other else 0.0)

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices named each value, dummies last."""
        return subset_counts(query, release, values=self.values(query), subset_size=int(query.parameters[CHOSEN]))

    @property
    def sizes_open(self) -> bool:
        """Whether a report names as many values as are best."""
        return self.subset_size == 0

    def sized(self, query: Query, devices: int, delta: float) -> Self:
        """Return the settings with as many values as a report should name behind a shuffler; see `amplified`."""
        assert query.epsilon is not None  # a shuffler amplifies a finite one
        padded, epsilon = self.set_size(query), float(query.epsilon)
        values = {"items": self.values(query) - padded, "padded": padded, "devices": max(devices, 1)}
        best = amplification.rough_set(**values, epsilon=epsilon, delta=delta, share=SHARE)
        sizes = {CHOSEN: best.subset_size, PADDED: int(query.parameters.get(PADDED, 0))}
        return self.model_copy(update={name: sizes[name] for name in sizes if name in type(self).model_fields})

    def amplified(self, query: Query, devices: int, delta: float, share: float = SHARE) -> Query:
        """Turn a query with the central epsilon into one behind a shuffler, by the number of honest devices.

        Its epsilon is the largest local one that keeps the central one, and it names as many values as are best for
        that.
        """
        if query.epsilon is None:
            return query
        size = self.set_size(query)
        best = _best_set(self.values(query) - size, size, query.epsilon, max(devices, 1), delta, share)
        parameters = {**query.parameters, CHOSEN: float(best.subset_size)}
        local = replace(query, epsilon=best.local_epsilon, parameters=parameters)
        return replace(local, questions=self.question_range(local).start, answer_bits=self.answer_bits(local))


class Subset(Subsets, Oracle):
    """Subset selection. Source: Ye and Barg (2018); Wang et al. (2016)."""

    name = "subset"
    title = "subset selection"

    chosen: Chosen = 0

    def sizes(self, values: int, world: World, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the number of values in a subset; the least noise has ``K / (e^eps + 1)``."""
        best = 1 if epsilon is None else round(values / (odds_within(epsilon) + 1))
        return {CHOSEN: max(1, min(self.subset_size or best, values - 1))}

    def check(self, query: Query) -> None:
        super().check(query)
        require_whole_parameter(query, CHOSEN, values_of(query) - 1)


@lru_cache(maxsize=1 << 12)
def _best_set(
    items: int, padded: int, epsilon: Fraction, devices: int, delta: float, share: float
) -> amplification.SetDesign:
    return amplification.best_set(
        items=items, padded=padded, epsilon=epsilon, devices=devices, delta=delta, share=share
    )


MECHANISMS = (Grr(), Oue(), Olh(), Hadamard(), Subset())
