"""RAPPOR: a Bloom filter of one random liked item, each bit flipped, from which items' shares are read by regression.

The filter has a part for each hash, and a public hash of the item sets one bit of every part. A share of devices with a
bit is the sum of the shares of the items that set it, and least squares solve for these.

With two hashes no two items share a bit by default. A filter's flips are paid for by the number of hashes, not by its
length: shared bits save length alone and make every estimate worse, and without more bits than items their shares do
not follow. RAPPOR shares bits because nobody lists its strings; here items are listed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Floats, Floats2, Indices, Indices2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import COIN, IndependentBits, bit_channel
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.errors import InputError
from coordinator.protocol.law import BlockPeople, Law, People
from coordinator.protocol.mechanism import (
    FIXED,
    KMEANS,
    ONE_ROUND,
    POSTERIOR,
    DeviceCoins,
    DeviceRatings,
    Mechanism,
    QueryHeader,
    Sketch,
    World,
    check_shape,
    query_of,
    require_whole_parameter,
)
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.count_moments import LIKED, FrequencyMoments, item_share
from coordinator.protocol.pools import places_in
from coordinator.protocol.statistics.counts import CountStatistic

HASHES, FILTER_BITS = "hashes", "filter_bits"
"""Parameters of every query: parts of a filter, and bits of all of them."""
MOST_HASHES, MOST_BITS, BITS_AN_ITEM = 16, 1 << 16, 2
DRAWS = 64  # Filters that are drawn until one tells all items apart
MOST_SHARED = 2000  # Items that share bits, of which the noise of each is worked out


@lru_cache(maxsize=4)
def positions(public_seed: bytes, items: int, hashes: int, filter_bits: int) -> Indices2:
    """Return the bits that each item sets, one of every part, int32, shape (hashes, N): the same in all rounds."""
    # The first items, as many as a part has bits, never share one: all others share as chance has it, which is asked
    # again where shares of items would not follow from those of bits
    part, coins = filter_bits // hashes, np.random.default_rng(int.from_bytes(derive(public_seed, "Bloom filter")))
    first = min(items, part)
    for _ in range(DRAWS):
        offsets = coins.integers(part, size=(hashes, 1))
        alone, others = (offsets + np.arange(first)) % part, coins.integers(part, size=(hashes, items - first))
        parts = part * np.arange(hashes)[:, None]
        places: Indices2 = (np.concatenate([alone, others], axis=1) + parts).astype(np.int32)
        if first == items or items > MOST_SHARED or np.linalg.matrix_rank(_overlaps(places, filter_bits)) == items:
            return places
    raise InputError(f"no {DRAWS} filters of {filter_bits} bits tell {items} items apart; give more filter_bits")


def _overlaps(places: Indices2, filter_bits: int) -> Floats2:
    """Return how many bits any two items share, shape (N, N)."""
    bits = np.zeros((filter_bits, places.shape[1]))
    bits[places, np.arange(places.shape[1])] = 1
    shared: Floats2 = bits.T @ bits
    return shared


@lru_cache(maxsize=4)
def leverages(public_seed: bytes, items: int, hashes: int, filter_bits: int) -> Floats:
    """Return the noise of each item's estimate by least squares in units of that of one bit, shape (N,)."""
    if filter_bits // hashes >= items:
        return np.full(items, 1 / hashes)
    if items > MOST_SHARED:  # about so much of what bits say is left, once items are told apart by their others
        return np.full(items, 1 / hashes / (1 - items / filter_bits))
    shared = _overlaps(positions(public_seed, items, hashes, filter_bits), filter_bits)
    return np.asarray(np.diag(np.linalg.inv(shared)))


@lru_cache(maxsize=64)
def filter_channel(epsilon: Epsilon, hashes: int, filter_bits: int) -> IndependentBits:
    """Return the channel that flips every bit: two filters differ in twice as many bits as there are hashes."""
    flips = bit_channel(None if epsilon is None else epsilon / (2 * hashes)).flips
    channel = IndependentBits(filter_bits, COIN - flips, flips, hashes)
    # Every bit's rounding leaves less than a coin, and all of them together a few, which are taken
    while channel.if_zero and epsilon is not None:
        closer = replace(channel, if_zero=channel.if_zero - 1)
        if not closer.log_ratio.within(epsilon):
            break
        channel = closer
    return channel


class Rappor(Mechanism):
    """RAPPOR, one answer a device. Source: Erlingsson, Pihur and Korolova (2014), sections 3.1 and 4, without lasso."""

    name = "rappor"
    title = "RAPPOR"
    parameters = frozenset({HASHES, FILTER_BITS})
    decoders = (KMEANS, POSTERIOR)
    policies = (ONE_ROUND, FIXED)
    ranks = True

    filter_hashes: int = Field(default=2, ge=1, le=MOST_HASHES, description="RAPPOR: bits that an item sets [2].")
    filter_bits: int = Field(
        default=0,
        ge=0,
        le=MOST_BITS,
        description="RAPPOR: bits of a device's filter; 0 for two bits per item [0].",
    )

    def check_world(self, world: World) -> None:
        check_shape(world.items, world.rated)
        bits, least = self._bits(world), world.items + self.filter_hashes - 1
        if bits < least:
            raise InputError(
                f"filter_bits is {self.filter_bits or bits}; shares of {world.items} items follow from {least} bits at "
                "least, and from each part alone where it has as many bits as there are items"
            )

    def _bits(self, world: World) -> int:
        """Return the bits of all parts of the filter, which are of one size."""
        hashes = self.filter_hashes
        least = max(BITS_AN_ITEM * world.items, world.items + hashes - 1)
        bits = self.filter_bits or min(-(-least // hashes) * hashes, MOST_BITS)
        return bits // hashes * hashes

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        bits = self._bits(world)
        parameters = {HASHES: float(self.filter_hashes), FILTER_BITS: float(bits)}
        return query_of(self.name, world.items, header, parameters=parameters, questions=bits)

    def check(self, query: Query) -> None:
        hashes = require_whole_parameter(query, HASHES, MOST_HASHES)
        bits = require_whole_parameter(query, FILTER_BITS, MOST_BITS)
        if bits % hashes:
            raise InputError(f"{query} has {bits} bits for {hashes} hashes; give each as many")

    def question_range(self, query: Query) -> range:
        bits = int(query.parameters[FILTER_BITS])
        return range(bits, bits + 1)

    def channel(self, query: Query) -> IndependentBits:
        return filter_channel(query.epsilon, int(query.parameters[HASHES]), int(query.parameters[FILTER_BITS]))

    def _positions(self, query: Query) -> Indices2:
        hashes, bits = (int(query.parameters[name]) for name in (HASHES, FILTER_BITS))
        return positions(query.public_seed, query.items, hashes, bits)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return each device's filter, which is empty where it likes nothing."""
        everything = places_in(np.arange(query.items, dtype=np.int32), ratings.items)
        values = ratings.random_values(coins.sketch(), everything, 1)
        filters, liking = np.zeros((coins.devices, query.questions), np.uint8), np.flatnonzero(values < query.items)
        for places in self._positions(query):
            filters[liking, places[values[liking]]] = 1
        return Sketch(filters)

    def estimate(self, query: Query, statistic: Any, world: World, expected: Floats | None = None) -> Estimates:
        """Return estimates of how much users like every item."""
        if not (users := statistic.answered):
            return Estimates(weighted=np.zeros(query.items), information=np.zeros(query.items))
        places, slope, (flips, contrast) = self._positions(query), self._slope(query, world), self._rates(query)
        value = _shares_of(places, (statistic.sums / users - flips) / contrast)
        information = slope**2 * users / (self._variance(query, np.clip(value, 0, 1)) + 1e-12)
        return Estimates(weighted=information * value / slope, information=information)

    def rates(self, query: Query, world: World, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; ``expected`` holds b, by default 1/2."""
        slope = self._slope(query, world)
        likes = np.full(query.items, LIKED) if expected is None else np.clip(expected, 0, 1)
        return slope**2 / (self._variance(query, slope * likes) + 1e-12)

    def _slope(self, query: Query, world: World) -> float:
        """Return the share of devices whose value is an item, for each unit of how much users like it."""
        return item_share(query.items, items=world.items, rated=world.rated, likes=LIKED)

    def _rates(self, query: Query) -> tuple[float, float]:
        """Return how often a bit of 0 is released as 1, and how much more often one of 1 is."""
        channel = self.channel(query)
        return channel.if_zero / COIN, (channel.if_one - channel.if_zero) / COIN

    def _variance(self, query: Query, shares: Floats) -> Floats:
        """Return the variance of one device's estimate of each item, by the share of devices with that item."""
        # Given the filters, flips of bits are independent; a device's value is one item, or none
        hashes, bits = (int(query.parameters[name]) for name in (HASHES, FILTER_BITS))
        flips, contrast = self._rates(query)
        noise = flips * (1 - flips) / contrast**2
        return shares * (1 - shares) + noise * leverages(query.public_seed, query.items, hashes, bits)

    def moments(self, world: World) -> FrequencyMoments | None:
        if world.block is None:
            return None
        query = self.query(world, round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        level = BlockPeople.of(world.block).likers(lambda likes: 1 / likes)
        noise = self._variance(query, np.zeros(query.items)).mean()
        return FrequencyMoments(level=level, variance=level * (1 - level) + noise)

    def law(self, query: Query, people: People) -> Law:
        """Return the law of the sums of bits: flips are drawn of the devices that set a bit, and of all others."""
        shares, channel = people.likers(lambda likes: 1 / likes), self.channel(query)
        places = self._positions(query)
        rest = max(0.0, 1 - float(shares.sum()))

        def draw(users: int, coins: np.random.Generator) -> CountStatistic:
            values = coins.multinomial(users, np.append(shares, rest) / (shares.sum() + rest))[:-1]
            ones = np.zeros(query.questions, np.int64)
            for part in places:
                np.add.at(ones, part, values)
            sums = coins.binomial(ones, channel.if_one / COIN) + coins.binomial(users - ones, channel.if_zero / COIN)
            return CountStatistic(
                sums=sums.astype(np.int64), ones=int(sums.sum()), devices=users, answered=users, refused=0
            )

        return Law(draw)


def _shares_of(places: Indices2, shares: Floats) -> Floats:
    """Return the shares of items, (N,), of which those of bits, (bits,), are sums: by least squares, the smallest."""
    hashes, items = places.shape
    if shares.size // hashes >= items:  # no two items share a bit
        return np.asarray(shares[places].mean(axis=0))
    from scipy.sparse import csr_array  # noqa: PLC0415 (settings load none of it)
    from scipy.sparse.linalg import lsqr  # noqa: PLC0415 (as above)

    sets = csr_array(
        (np.ones(places.size), places.T.ravel(), np.arange(0, places.size + 1, hashes)), (items, shares.size)
    )
    return np.asarray(lsqr(sets.T, shares, atol=1e-12, btol=1e-12)[0])


MECHANISMS = (Rappor(),)
