"""Designs that can ask about a pool of items, and whose answers tell every item's estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from coordinator.aggregation import Statistic
from coordinator.designs import check_shape
from coordinator.estimates import Estimates, contrasts_of, others_share, read_sets, read_signs
from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.signs import MOST_VECTORS, UNIT, answer_bits
from coordinator.sign_moments import best_kept
from coordinator.statistics import ScoreStatistic


@runtime_checkable
class PoolDesign(Protocol):
    """What adaptive policies need of a design.

    Attributes
    ----------
    name : str
        What its queries are called.
    widest : float
        Largest difference between the levels of two clusters that the design's estimates can have.
    """

    name: ClassVar[str]
    widest: ClassVar[float]

    @property
    def items(self) -> int:
        """Number of items N of the catalogue."""
        ...

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

        ``expected`` holds an estimate that the server expects of each of them; a design may make use of it.
        """
        ...

    def read(self, query: Query, statistic: Statistic, expected: Floats | None = None) -> Estimates:
        """Return what a round tells of every item.

        ``expected``, shape (N,), holds the estimates that are expected by now; by default what the query tells.
        """
        ...

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item of a query's pool, as `read` counts it."""
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

    name: ClassVar[str] = "maxsense"
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

    def query(
        self,
        *,
        round_number: int,
        public_seed: bytes,
        epsilon: Epsilon,
        pool: Indices | None = None,
        expected: Floats | None = None,  # noqa: ARG002 (other designs use it)
    ) -> Query:
        """Return the query of one round; ``pool`` holds the items that are sensed, by default all."""
        whole = pool is None or pool.size == self.items
        return Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={"sensing": self.sensing_in(self.items if pool is None else pool.size)},
            pool=None if whole else pool,
        )

    def read(self, query: Query, statistic: Statistic, expected: Floats | None = None) -> Estimates:  # noqa: ARG002 (not needed)
        """Return what a round tells of every item's b; see `estimates.read_sets`."""
        assert isinstance(statistic, ScoreStatistic)  # MaxSense's
        return read_sets(query, statistic, rated=self.rated)

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; ``expected`` holds b, by default 1/2."""
        pool = query.items if query.pool is None else query.pool.size
        sensing, contrast, share = self.sensing_in(pool), bit_channel(query.epsilon).contrast, self.rated / self.items
        liked = np.full(pool, 0.5) if expected is None else np.clip(expected, 0, 1)
        none = math.exp(np.log1p(-np.minimum(sensing * share * liked, 0.5)).sum())
        answer, silent = (
            (1 - contrast) / 2 + contrast * (1 - none),
            none ** others_share(pool, items=self.items, rated=self.rated),
        )
        noise = answer * (1 - answer)
        rate = (contrast * share * silent) ** 2 * sensing * (1 - sensing) / noise if noise else 0.0
        return np.full(pool, rate)


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
    centred : bool
        Whether ratings are counted from what the server expects of them, once it does: see `centred_moments`. With
        several sign vectors they are counted from 0.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    rated: int
    vectors: int = 1
    centred: bool = True

    name: ClassVar[str] = "sign"
    widest: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated, 1)
        if not 1 <= self.vectors <= MOST_VECTORS or self.vectors & (self.vectors - 1):
            raise InputError(f"vectors is {self.vectors}; give a power of two, 1 to {MOST_VECTORS}")

    def query(
        self,
        *,
        round_number: int,
        public_seed: bytes,
        epsilon: Epsilon,
        pool: Indices | None = None,
        expected: Floats | None = None,
    ) -> Query:
        """Return the query of one round; ``pool`` holds the items that have signs, by default all."""
        centres = None
        if expected is not None and self.centred and self.vectors == 1:
            centres = np.rint(np.clip(expected, -1, 1) * UNIT).astype(np.int32)
        asked = np.arange(self.items, dtype=np.int32) if pool is None else pool
        return Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={"vectors": self.vectors, "kept": self._kept(asked.size, epsilon)},
            pool=asked,
            answer_bits=answer_bits(self.vectors),
            centres=centres,
        )

    def _kept(self, pool: int, epsilon: Epsilon) -> int:
        return best_kept(pool, items=self.items, rated=self.rated, vectors=self.vectors, epsilon=epsilon)

    def read(self, query: Query, statistic: Statistic, expected: Floats | None = None) -> Estimates:
        """Return what a round tells of every item's ``2 b - 1``; see `estimates.read_signs`."""
        assert isinstance(statistic, ScoreStatistic)  # sign sensing's
        likes = None if expected is None else np.clip((1 + expected) / 2, 0, 1)
        return read_signs(query, statistic, rated=self.rated, likes=likes)

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:  # noqa: ARG002 (the query tells)
        """Return the information of one device's answer about each item; see `estimates.contrasts_of`."""
        contrast, _ = contrasts_of(query, rated=self.rated)
        return contrast**2
