"""What anchor sensing asks: signs of a pool's pairs first, then turned signs of all items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coordinator.protocol.arrays import Indices, Indices2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.anchor import COUNTS, GUESS, LEAN, LEVELS, MOST_POOL, PRIOR, SENSED
from coordinator.protocol.messages import Query
from coordinator.server.server_half import check_shape

LEAST_POOL, POOL = 20, 2.0
"""A pool has so many items at least, or so many times N / w."""
LEAST_OF_EACH, POOL_OF_MORE = 12, 3.0
"""With three clusters or more, or three classes, it has so many items of each at least, or so many times N / w."""
SENSING_LEVELS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The public arrays of a query about turned signs; see `coordinator.protocol.mechanisms.anchor`."""

    # shape (K,); Score of each class before any rating, and what is added to the sum where it was guessed
    prior: Indices
    # shape (2 K, N); Row ``2 k + r``: what a rating r adds to the score of class k, and to the sum where class k was
    # guessed
    guess: Indices2
    counts: Indices2
    lean: Indices
    sensed: Indices  # shape (N,); How many of `SENSING_LEVELS` have an item sensed


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorSensing:
    """Anchor sensing of N items in L clusters, of which each device rated w."""

    items: int  # N, w and L
    rated: int
    clusters: int = 2
    pool_items: int = 0  # Items of the pool whose pairs are asked about; 0 for as many as suit N, w and L
    classes: int = 2  # User classes K to tell apart
    # one of "auto", "mirrored", "tables", "mixed"; Whether two classes are taken to be opposite, or tables are measured
    # of any; mixed ones begin with first-order signs of the pool. ``auto`` is mirrored for two classes and two clusters
    learner: str = "auto"

    name: ClassVar[str] = "anchor"
    pairs: ClassVar[str] = "pair-signs"

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated)
        if self.clusters < 2 or self.classes < 2:
            raise InputError(
                f"clusters is {self.clusters} and classes is {self.classes}; anchor sensing tells 2 apart, or more"
            )
        if self.items < 2:
            raise InputError(f"items is {self.items}; anchor sensing needs at least 2")
        if self.pool_items and not 2 <= self.pool_items <= min(self.items, MOST_POOL):
            raise InputError(f"pool_items is {self.pool_items}; give 2 to {min(self.items, MOST_POOL)}")

    def pool(self, public_seed: bytes) -> Indices:
        """Return the items whose pairs are asked about, ascending, by public coins."""
        kinds = max(self.clusters, self.classes)
        least, times = (LEAST_POOL, POOL) if kinds == 2 else (LEAST_OF_EACH * kinds, POOL_OF_MORE)
        suits = max(least, round(times * self.items / self.rated))
        count = self.pool_items or min(suits, self.items, MOST_POOL)
        order = np.random.default_rng(int.from_bytes(derive(public_seed, "anchor pool"))).permutation(self.items)
        return np.sort(order[:count]).astype(np.int32)

    def query(
        self,
        *,
        round_number: int,
        public_seed: bytes,
        epsilon: Epsilon,
        pool: Indices | None = None,
        centres: Indices | None = None,
    ) -> Query:
        """Return a query about signs of pairs, by default of the pool; ``centres`` are in units of 1 / `UNIT`."""
        return Query(
            design=self.pairs,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            pool=self.pool(public_seed) if pool is None else pool,
            centres=centres,
        )

    def turned(self, tables: Tables, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return a query about turned signs."""
        return Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={LEVELS: float(SENSING_LEVELS)},
            arrays={
                PRIOR: tables.prior,
                GUESS: tables.guess,
                COUNTS: tables.counts,
                LEAN: tables.lean,
                SENSED: tables.sensed,
            },
        )

    def of_turned(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return a query about turned signs such as rounds may ask, where nothing is known: for checks."""
        guess = np.zeros((4, self.items), np.int32)
        guess[[0, 3], ::2], guess[[1, 2], ::2] = -3, 3
        guess[[0, 3], 1::2], guess[[1, 2], 1::2] = 2, -2
        counts = np.tile(np.array([-4, 5, -5, 4], np.int32)[:, None], self.items)
        counts[2:] = -counts[2:]
        sensed = np.resize(np.array([0, 10, 10, 16], np.int32), self.items)
        none = np.zeros(2, np.int32)
        tables = Tables(prior=none, guess=guess, counts=counts, lean=none, sensed=sensed)
        return self.turned(tables, round_number=round_number, public_seed=public_seed, epsilon=epsilon)
