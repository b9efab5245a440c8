"""The spectral start: which of the pool's items go together, from the first eigenvector of its pairs' agreements."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.budget import Epsilon
from coordinator.server.anchor.course import Course
from coordinator.server.moments.signs import pair_contrast

ENOUGH = 1.06
"""Largest eigenvalue, as a multiple of what noise alone has, at which the first anchors are taken."""
FIRST_LOOK, NEXT_LOOK = 1.2, 0.12
"""Users of the first look, in units of ``1 / (M g2^2)``, and by what share later looks have more."""
CLIP = 6.0
"""Log-odds of a first anchor at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectralStart:
    """What the pairs tell of the pool's items."""

    pool: Indices  # shape (M,); The items
    edge: float  # Their largest eigenvalue over ``2 sqrt(M U)``, where noise alone ends
    odds: Floats  # shape (M,); Log-odds of one side against the other; 0 where noise hides everything
    level: float  # How far ratings lie from 0 on average on both sides, in [0, 1]

    @property
    def stands(self) -> bool:
        """Whether the first eigenvector is worth building on."""
        return self.edge >= ENOUGH


def first_look(pool_items: int, *, items: int, rated: int, epsilon: Epsilon) -> float:
    """Return the users of the first look at pairs of ``pool_items`` items; infinitely many if nobody rated two."""
    contrast = pair_contrast(pool_items, items=items, rated=rated, epsilon=epsilon)
    return FIRST_LOOK / (pool_items * contrast**2) if contrast else math.inf


def spectral_start(course: Course, *, rated: int) -> SpectralStart:
    """Return what the pairs so far tell, at least one round of them.

    With noise of variance U in each entry and a signal of eigenvalue ``U g2 Lambda``, the largest eigenvalue is
    ``(s + 1 / s) sqrt(M U)`` where ``s = sqrt(U / M) g2 Lambda`` is above 1, and the first eigenvector's squared
    overlap with the signal's is ``1 - 1 / s^2``. Its other part is noise, so that entries are normal around the truth.
    """
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
