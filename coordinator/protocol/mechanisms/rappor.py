"""RAPPOR: a Bloom filter of one random liked item, each bit flipped, from which items' shares are read by regression.

The filter has a part for each hash, and a public hash of the item sets one bit of every part. A share of devices with a
bit is the sum of the shares of the items that set it: least squares solve for these, best for more bits than items.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Floats, Indices, Indices2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import COIN, IndependentBits, bit_channel
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.errors import InputError
from coordinator.protocol.law import BlockPeople
from coordinator.protocol.mechanism import (
    FIXED,
    KMEANS,
    ONE_ROUND,
    POSTERIOR,
    DeviceCoins,
    DeviceRatings,
    Mechanism,
    RoundTerms,
    Sketch,
    World,
    check_shape,
    query_of,
    require_whole_parameter,
)
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.count_moments import LIKED, FrequencyMoments, item_share
from coordinator.protocol.pools import places_in

HASHES, FILTER_BITS = "hashes", "filter_bits"
"""Parameters of every query: parts of a filter, and bits of all of them."""
MOST_HASHES, MOST_BITS, BITS_AN_ITEM = 16, 1 << 16, 2


@lru_cache(maxsize=4)
def positions(public_seed: bytes, items: int, hashes: int, filter_bits: int) -> Indices2:
    """Return the bits that each item sets, one of every part, int32, shape (hashes, N): the same in all rounds."""
    # Items of a block, as many as a part has bits, never share one: those of two blocks do as chance has it
    part, coins = filter_bits // hashes, np.random.default_rng(int.from_bytes(derive(public_seed, "Bloom filter")))
    offsets, item = coins.integers(part, size=(hashes, items // part + 1)), np.arange(items)
    return ((offsets[:, item // part] + item) % part + part * np.arange(hashes)[:, None]).astype(np.int32)


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
        default=0, ge=0, le=MOST_BITS, description="RAPPOR: bits of a device's filter, 0 for two an item [0]."
    )

    def check_world(self, world: World) -> None:
        check_shape(world.items, world.rated)
        if 0 < self.filter_bits < self.filter_hashes:
            raise InputError(
                f"filter_bits is {self.filter_bits}; give at least one for each of {self.filter_hashes} hashes"
            )

    def _bits(self, world: World) -> int:
        """Return the bits of all parts of the filter, which are of one size."""
        bits = self.filter_bits or min(max(BITS_AN_ITEM * world.items, self.filter_hashes), MOST_BITS)
        return bits // self.filter_hashes * self.filter_hashes

    def query(
        self, world: World, *, pool: Indices | None = None, expected: Floats | None = None, **terms: Unpack[RoundTerms]
    ) -> Query:
        bits = self._bits(world)
        parameters = {HASHES: float(self.filter_hashes), FILTER_BITS: float(bits)}
        return query_of(self.name, world.items, terms, parameters=parameters, questions=bits)

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
        from scipy.sparse import csr_array  # noqa: PLC0415 (settings load none of it)
        from scipy.sparse.linalg import lsqr  # noqa: PLC0415

        places, slope, (flips, contrast) = self._positions(query), self._slope(query, world), self._rates(query)
        starts = np.arange(0, places.size + 1, len(places))
        sets = csr_array((np.ones(places.size), places.T.ravel(), starts), (query.items, query.questions))
        shares = (statistic.sums / users - flips) / contrast
        value = lsqr(sets.T, shares, atol=1e-12, btol=1e-12)[0]
        liking = float(np.clip(shares.sum() / len(places), 0, 1))  # devices that like anything
        information = np.full(query.items, slope**2 * users / (self._variance(query, liking) + 1e-12))
        return Estimates(weighted=information * value / slope, information=information)

    def rates(self, query: Query, world: World, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item."""
        return np.full(query.items, self._slope(query, world) ** 2 / (self._variance(query, 1.0) + 1e-12))

    def _slope(self, query: Query, world: World) -> float:
        """Return the share of devices whose value is an item, for each unit of how much users like it."""
        return item_share(query.items, items=world.items, rated=world.rated, likes=LIKED)

    def _rates(self, query: Query) -> tuple[float, float]:
        """Return how often a bit of 0 is released as 1, and how much more often one of 1 is."""
        channel = self.channel(query)
        return channel.if_zero / COIN, (channel.if_one - channel.if_zero) / COIN

    def _variance(self, query: Query, liking: float) -> float:
        """Return the variance of one device's estimate of an item, where so many devices have a value."""
        hashes, (flips, contrast) = int(query.parameters[HASHES]), self._rates(query)
        rate = flips + contrast * liking * hashes / query.questions
        # Items that share bits are told apart by their others: about so much of what the bits say is left
        shared = query.items * hashes > query.questions
        left = max(1 - query.items / query.questions, 1 / query.questions) if shared else 1.0
        return rate * (1 - rate) / contrast**2 / hashes / left

    def moments(self, world: World) -> FrequencyMoments | None:
        if world.block is None:
            return None
        query = self.query(world, round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        level = BlockPeople.of(world.block).likers(lambda likes: 1 / likes)
        return FrequencyMoments(level=level, variance=np.full(level.size, self._variance(query, 1.0)))


MECHANISMS = (Rappor(),)
