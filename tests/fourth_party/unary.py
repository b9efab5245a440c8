"""Unary encoding: a bit for each item and each rating of it, one of them 1 at most (Wang et al., 2017)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Unpack

import numpy as np

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import COIN, IndependentBits, independent_bits
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.mechanism import (
    Decoding,
    DeviceCoins,
    DeviceRatings,
    Mechanism,
    QueryHeader,
    Sketch,
    World,
    query_of,
)
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.statistics.statistic import Statistic


@dataclass(frozen=True, kw_only=True)
class Told(Statistic):
    """How many devices told each bit."""

    counts: ClassVar[tuple[str, ...]] = ("told",)

    told: Ints

    @property
    def ones(self) -> int:
        """Ones among the answered bits."""
        return int(self.told.sum())


@lru_cache
def channel(count: int, epsilon: Epsilon) -> IndependentBits:
    """Return the channel of so many bits: a 1 is told by a fair coin, a 0 becomes 1 once in ``e**epsilon + 1``."""
    if epsilon is None:
        return IndependentBits(count, COIN, 0, 1)
    zero = 1 / (math.exp(as_float(epsilon)) + 1)
    return independent_bits(count=count, if_one=1 / 2, if_zero=zero, epsilon=epsilon, ones=1)


class Unary(Mechanism):
    """A bit for each of an item's two ratings; one rating a device, drawn at random, has a 1."""

    name = "unary"
    title = "unary encoding"
    decoders = ("totals",)

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of one round."""
        return query_of(self.name, world.items, header, questions=2 * world.items)

    def question_range(self, query: Query) -> range:
        """Return the number of bits: two an item."""
        return range(2 * query.items, 2 * query.items + 1)

    def channel(self, query: Query) -> IndependentBits:
        """Return the channel of all bits together."""
        return channel(query.questions, query.epsilon)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return the bits of one rating a device; nothing rated: no 1."""
        told = ratings.rated()
        starts, items, likes = told.starts, told.items, told.values
        rated = np.diff(starts)
        some = np.flatnonzero(rated)
        drawn = coins.sketch()[some] % rated[some].astype(np.uint64)
        place = starts[some] + drawn.astype(np.int64)
        bits = np.zeros((coins.devices, query.questions), np.uint8)
        bits[some, 2 * items[place] + likes[place]] = 1
        return Sketch(bits)

    def count(self, query: Query, release: Release) -> Told:
        """Return how often each bit was told."""
        answered, bits = release.answered_mask(), release.unpacked()
        return Told(
            told=bits[answered].sum(axis=0, dtype=np.int64),
            devices=release.count,
            answered=int(answered.sum()),
            refused=release.refused,
        )

    def decode(self, statistic: Told, query: Query, how: Decoding) -> Model:
        """Cluster items by likes less dislikes."""
        zero = 1 / (np.exp(as_float(query.epsilon)) + 1)
        score = (statistic.told[1::2] - statistic.told[::2]) / (1 / 2 - zero)
        error = np.sqrt(2 * statistic.answered * zero * (1 - zero)) / (1 / 2 - zero)
        cluster = kmeans_on_line(score, how.clusters)
        return Model(cluster=cluster, score=score, error=np.full(score.size, float(error)), clusters=how.clusters)


MECHANISMS = (Unary(),)
