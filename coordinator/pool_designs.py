"""Designs that can ask about a pool of items, and whose answers tell every item's estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from coordinator.aggregation import Statistic
from coordinator.designs import check_shape
from coordinator.estimates import Estimates, read_sets, read_signs
from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.signs import MOST_VECTORS, answer_bits
from coordinator.sign_moments import best_kept, sign_contrast
from coordinator.statistics import ScoreStatistic


@runtime_checkable
class PoolDesign(Protocol):
    """What adaptive policies need of a design.

    Attributes
    ----------
    widest : float
        Largest difference between the levels of two clusters that the design's estimates can have.
    """

    widest: ClassVar[float]

    @property
    def items(self) -> int:
        """Number of items N of the catalogue."""
        ...

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None = None) -> Query:
        """Return the query of one round about the items of ``pool``, by default all."""
        ...

    def read(self, query: Query, statistic: Statistic) -> Estimates:
        """Return what a round tells of every item."""
        ...

    def rate(self, pool: int, epsilon: Epsilon, liked: float) -> float:
        """Return the information of one device's answer about an item of a pool of that size."""
        ...

    def liked(self, level: float) -> float:
        """Return the share of likes that an estimate stands for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxSense:
    """MaxSense: each item is sensed with probability ``theta / rated``; the bit is 1 if a sensed item was liked.

    Source: Banerjee, Hegde, Massoulié, Figure 2 and Theorem 15 [5.1].

    Attributes
    ----------
    items : int
        Number of items N, at least 1.
    rated : int
        Number of items w that a user rated: public, typical where users differ; 1 to N.
    theta : float
        Expected number of a user's rated items that are sensed, in (0, rated].

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    rated: int
    theta: float = 1.0

    widest: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated, self.theta)

    @property
    def sensing(self) -> float:
        """Sensing probability p of each item, where all are asked about."""
        return self.theta / self.rated

    def sensing_in(self, pool: int) -> float:
        """Return the sensing probability of each of ``pool`` items; of less than all at most 1/2."""
        return self.sensing if pool == self.items else min(self.sensing * self.items / pool, 0.5)

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None = None) -> Query:
        """Return the query of one round; ``pool`` holds the items that are sensed, by default all."""
        whole = pool is None or pool.size == self.items
        return Query(
            design="maxsense",
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={"sensing": self.sensing_in(self.items if pool is None else pool.size)},
            pool=None if whole else pool,
        )

    def read(self, query: Query, statistic: Statistic) -> Estimates:
        """Return what a round tells of every item's b; see `estimates.read_sets`."""
        assert isinstance(statistic, ScoreStatistic)  # MaxSense's
        return read_sets(query, statistic, rated=self.rated)

    def rate(self, pool: int, epsilon: Epsilon, liked: float) -> float:
        """Return the information that a device's answer gives about an item of a pool, as `read` counts it.

        Parameters
        ----------
        pool : int
            Items of the pool.
        epsilon : Fraction or None
            Privacy parameter of the answer [nats].
        liked : float
            Mean of b over the pool, as far as it is known.
        """
        sensing, contrast, share = self.sensing_in(pool), bit_channel(epsilon).contrast, self.rated / self.items
        silent = math.exp(pool * math.log1p(-min(sensing * share * liked, 0.5)))
        answer = (1 - contrast) / 2 + contrast * (1 - silent)
        noise = answer * (1 - answer)
        return (contrast * share * silent) ** 2 * sensing * (1 - sensing) / noise if noise else 0.0

    def liked(self, level: float) -> float:
        """Return the share of likes that an estimate stands for: itself, as far as it is a probability."""
        return min(max(level, 0.0), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignSensing:
    """Sign sensing: every item of the pool has a public sign; the bit is the sign of the signed sum of the ratings.

    A like counts +1 and a dislike -1; at a sum of 0 the device tosses a fair coin of its own. With several sign vectors
    the device names one of those, with its sign, under which its sum is large: a few bits, and fewer users at the same
    epsilon. Source: ours (the paper's MaxSense uses likes only and needs a sensing rate).

    Attributes
    ----------
    items : int
        Number of items N, at least 1.
    rated : int
        Number of items w that a user rated: public, typical where users differ; 1 to N.
    vectors : int
        Sign vectors m that a device chooses among, a power of two up to `MOST_VECTORS`. The answer has
        ``1 + log2 m`` bits.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    rated: int
    vectors: int = 1

    widest: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated, 1)
        if not 1 <= self.vectors <= MOST_VECTORS or self.vectors & (self.vectors - 1):
            raise InputError(f"vectors is {self.vectors}; give a power of two, 1 to {MOST_VECTORS}")

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None = None) -> Query:
        """Return the query of one round; ``pool`` holds the items that have signs, by default all."""
        asked = np.arange(self.items, dtype=np.int32) if pool is None else pool
        return Query(
            design="sign",
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={"vectors": self.vectors, "kept": self._kept(asked.size, epsilon)},
            pool=asked,
            answer_bits=answer_bits(self.vectors),
        )

    def _kept(self, pool: int, epsilon: Epsilon) -> int:
        return best_kept(pool, items=self.items, rated=self.rated, vectors=self.vectors, epsilon=epsilon)

    def read(self, query: Query, statistic: Statistic) -> Estimates:
        """Return what a round tells of every item's ``2 b - 1``; see `estimates.read_signs`."""
        assert isinstance(statistic, ScoreStatistic)  # sign sensing's
        return read_signs(query, statistic, rated=self.rated)

    def rate(self, pool: int, epsilon: Epsilon, liked: float) -> float:  # noqa: ARG002 (not needed here)
        """Return the information that a device's answer gives about an item of a pool, as `read` counts it."""
        contrast = sign_contrast(
            pool,
            items=self.items,
            rated=self.rated,
            vectors=self.vectors,
            kept=self._kept(pool, epsilon),
            epsilon=epsilon,
        )
        return contrast**2

    def liked(self, level: float) -> float:
        """Return the share of likes b that an estimate of ``2 b - 1`` stands for, as far as it is a probability."""
        return min(max((level + 1) / 2, 0.0), 1.0)
