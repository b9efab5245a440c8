"""What anchor sensing asks and stores: signs of a pool's pairs, its spectral start, then turned signs of all items."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Unpack

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Indices2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.anchor import MOST_POOL
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.sign_moments import pair_contrast
from coordinator.protocol.pools import COUNTS, GUESS, LEAN, LEVELS, PRIOR, SENSED
from coordinator.server.design import RoundTerms, query_of
from coordinator.server.rounds.state import AnchorRound
from coordinator.server.server_half import check_shape

LEAST_POOL, POOL = 20, 2.0  # A pool has so many items at least, or so many times N / w
LEAST_OF_EACH, POOL_OF_MORE = 12, 3.0
"""With three clusters or more, or three classes, it has so many items of each at least, or so many times N / w."""
SENSING_LEVELS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The public arrays of a query about turned signs; see `coordinator.protocol.mechanisms.anchor`."""

    # shape (K,); Score of each class before any rating, and what is added to the sum where it was guessed
    prior: Indices
    # shape (2 K, N); Row ``2 k + r``: what a rating r adds to the score of class k, and to the sum if k was guessed
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
        self, *, pool: Indices | None = None, centres: Indices | None = None, **terms: Unpack[RoundTerms]
    ) -> Query:
        """Return a query about signs of pairs, by default of the pool; ``centres`` in units of 1 / `CENTRE_UNIT`."""
        pool = self.pool(terms["public_seed"]) if pool is None else pool
        return query_of(self.pairs, self.items, terms, pool=pool, centres=centres)

    def turned(self, tables: Tables, **terms: Unpack[RoundTerms]) -> Query:
        """Return a query about turned signs."""
        arrays = {name: getattr(tables, name) for name in (PRIOR, GUESS, COUNTS, LEAN, SENSED)}
        return query_of(self.name, self.items, terms, parameters={LEVELS: float(SENSING_LEVELS)}, arrays=arrays)

    def of_turned(self, **terms: Unpack[RoundTerms]) -> Query:
        """Return a query about turned signs such as rounds may ask, where nothing is known: for checks."""
        guess = np.zeros((4, self.items), np.int32)
        guess[[0, 3], ::2], guess[[1, 2], ::2] = -3, 3
        guess[[0, 3], 1::2], guess[[1, 2], 1::2] = 2, -2
        counts = np.tile(np.array([-4, 5, -5, 4], np.int32)[:, None], self.items)
        counts[2:] = -counts[2:]
        sensed = np.resize(np.array([0, 10, 10, 16], np.int32), self.items)
        none = np.zeros(2, np.int32)
        tables = Tables(prior=none, guess=guess, counts=counts, lean=none, sensed=sensed)
        return self.turned(tables, **terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorHistory:
    """The rounds so far, by what they are good for."""

    pairs: tuple[AnchorRound, ...]  # All rounds about pairs; they have one pool
    given_up: int  # Users who had answered about pairs when turned signs were last given up; 0 if they never were
    turned: tuple[AnchorRound, ...]  # Rounds of turned signs since then
    plain: tuple[AnchorRound, ...] = ()  # Rounds of first-order signs

    @property
    def paired_users(self) -> int:
        """Users who answered about pairs."""
        return sum(anchor_round.statistic.answered for anchor_round in self.pairs)

    @property
    def turned_users(self) -> int:
        """Users who answered with turned signs since these were last given up."""
        return sum(anchor_round.statistic.answered for anchor_round in self.turned)

    @property
    def agreements(self) -> Floats2:
        """Sum of ``Q_ij S`` over users, a symmetric matrix of the pool's items with zeros on its diagonal."""
        pool = self.pairs[0].query.pool
        assert pool is not None  # pairs are those of a pool
        matrix, places = np.zeros((pool.size, pool.size)), np.triu_indices(pool.size, 1)
        matrix[places] = sum(
            2 * anchor_round.statistic.pairs - anchor_round.statistic.answered for anchor_round in self.pairs
        )
        return matrix + matrix.T


def history_of(rounds: Sequence[AnchorRound]) -> AnchorHistory:
    """Return the rounds by what they are good for: where pairs are asked again, turned signs before them are void."""
    plain = tuple(anchor_round for anchor_round in rounds if anchor_round.plain)
    rounds = [anchor_round for anchor_round in rounds if not anchor_round.plain]
    places = [place for place, anchor_round in enumerate(rounds) if not anchor_round.turned]
    last = places[-1] if places else -1
    voided = [place for place, anchor_round in enumerate(rounds[: last + 1]) if anchor_round.turned]
    before = rounds[: voided[-1]] if voided else ()
    return AnchorHistory(
        pairs=tuple(rounds[place] for place in places),
        given_up=sum(anchor_round.statistic.answered for anchor_round in before if not anchor_round.turned),
        turned=tuple(rounds[last + 1 :]),
        plain=plain,
    )


ENOUGH = 1.06  # Largest eigenvalue, as a multiple of what noise alone has, at which the first anchors are taken
FIRST_LOOK, NEXT_LOOK = 1.2, 0.12
"""Users of the first look, in units of ``1 / (M g2^2)``, and by what share later looks have more."""
CLIP = 6.0  # Log-odds of a first anchor at most


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectralStart:
    """The pool's items, as far as answers about pairs show them."""

    pool: Indices  # shape (M,); The items
    edge: float  # Their largest eigenvalue over ``2 sqrt(M U)``, where noise alone ends
    odds: Floats  # shape (M,); Log-odds of one side against the other; 0 where noise hides everything
    level: float  # How far ratings lie from 0 on average on both sides, in [0, 1]

    @property
    def stands(self) -> bool:
        """Whether the first eigenvector is worth building on."""
        return self.edge >= ENOUGH


def first_look(design: AnchorSensing, *, public_seed: bytes, epsilon: Epsilon) -> float:
    """Return the users of the first look at pairs of the pool's items; infinitely many if nobody rated two."""
    pool_items = design.pool(public_seed).size
    contrast = pair_contrast(pool_items, items=design.items, rated=design.rated, epsilon=epsilon)
    return FIRST_LOOK / (pool_items * contrast**2) if contrast else math.inf


def spectral_start(course: AnchorHistory, *, rated: int) -> SpectralStart:
    """Return the start by the pairs so far, at least one round of them."""
    # With noise of variance U in each entry and a signal of eigenvalue ``U g2 Lambda``, the largest eigenvalue is ``(s
    # + 1 / s) sqrt(M U)`` where ``s = sqrt(U / M) g2 Lambda`` is above 1, and the first eigenvector's squared overlap
    # with the signal's is ``1 - 1 / s^2``. Its other part is noise, so that entries are normal around the truth.
    query = course.pairs[0].query
    assert query.pool is not None  # pairs are those of a pool
    users, pool_items = max(course.paired_users, 1), query.pool.size
    values, vectors = np.linalg.eigh(course.agreements)
    edge = float(values[-1]) / (2 * math.sqrt(pool_items * users))
    if edge <= 1:
        return SpectralStart(pool=query.pool, edge=edge, odds=np.zeros(pool_items), level=0.0)
    strength = edge + math.sqrt(edge**2 - 1)
    overlap, entries = 1 - strength**-2, vectors[:, -1] * math.sqrt(pool_items)
    entries = entries if entries[np.abs(entries).argmax()] > 0 else -entries
    odds = np.clip(2 * math.sqrt(overlap) * entries / (1 - overlap), -CLIP, CLIP)
    contrast = pair_contrast(pool_items, items=query.items, rated=rated, epsilon=query.epsilon)
    level = math.sqrt(min(strength / (math.sqrt(users * pool_items) * contrast), 1.0))
    return SpectralStart(pool=query.pool, edge=edge, odds=odds, level=level)
