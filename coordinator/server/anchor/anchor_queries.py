"""What anchor sensing asks and stores: signs of a pool's pairs, its spectral start, then turned signs of all items."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.mechanisms.anchor import AnchorSensing
from coordinator.protocol.moments.sign_moments import pair_contrast
from coordinator.server.rounds.state import AnchorRound


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
    places = [number for number, anchor_round in enumerate(rounds) if not anchor_round.turned]
    last = places[-1] if places else -1
    voided = [number for number, anchor_round in enumerate(rounds[: last + 1]) if anchor_round.turned]
    before = rounds[: voided[-1]] if voided else ()
    return AnchorHistory(
        pairs=tuple(rounds[number] for number in places),
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
