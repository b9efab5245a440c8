"""How many people like a file's a list by popularity needs, and pairs of items, where nobody is trusted.

These are formulas for choosing a mechanism, in a second; `blindrec compare` measures.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Bools, Floats, Floats2
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.server.decoding.pair_model import cleaned
from coordinator.server.liked_pairs import LikedPairs
from coordinator.server.mechanisms.set import LikedSet
from coordinator.server.mechanisms.subset import subset_rates
from scenarios.compare.settings import Comparison
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import judge_likes

EPSILONS = ("0.5", "1", "2", "4", "8")
TOP = 10
LIKES: int = Comparison.model_fields["likes"].default
ENOUGH = 0.1
"""Noise over the tenth item's share at which a list keeps some 95 % of plain popularity's NDCG."""
NOISE = (0.0, 0.01, 0.06, 0.13, 0.25, 0.4, 0.6, 1.14, 4.0)
KEPT = (1.0, 0.98, 0.96, 0.93, 0.82, 0.49, 0.23, 0.06, 0.01)
"""Share of plain popularity's NDCG that is kept, by noise over the tenth item's share.

A prototype measured it on MovieLens 1M; the last value is that of 610 people at epsilon 1 in docs/worth.md.
"""
WITHIN = 2.5
"""Factor around the formula's number of people within which measured ones lie at epsilon .5 to 8, on MovieLens."""
USEFUL = 0.5
"""Share of plain popularity below which volunteers or a curator serve better than what is local."""


def needs(table: RatingTable, *, like_from: float | None) -> list[dict[str, Any]]:
    """Return what a file's people could have at each of `EPSILONS`, and what to use.

    Parameters
    ----------
    table : RatingTable
        The file; people like its people are counted.
    like_from : float or None
        As in `scenarios.data.rating_split.judge_likes`.

    Returns
    -------
    list of dict
        ``epsilon``; ``people``, with ``people_low`` and ``people_high``: who suffice for 95 % of what a list by plain
        popularity is worth; ``kept``: the share of it that this file's people reach; ``people_for_pairs``: from how
        many on lists by pairs of items begin to beat it; ``use``: what to use with ``people_here``, this file's
        people. Empty where nothing is liked.

    Notes
    -----
    The noise of an item's share is ``sqrt(v / n)``, v being the set mechanism's variance at the tenth most liked
    item's share ``f10``; ``n = v / (0.1 f10)^2``. Pairs begin where the largest eigenvalue of what they have beyond
    popularity stands out of their noise, whose eigenvalues reach ``2 sigma sqrt(M)`` (Wigner).
    """
    likes, rated = judge_likes(table, like_from), min(LIKES, table.count)
    if table.count < 2 or not (share := tenth_share(table, likes, rated)):
        return []
    paired = LikedPairs(items=table.count, rated=rated)
    signal, found = pair_signal(table, likes, paired), list[dict[str, Any]]()
    for told in EPSILONS:
        epsilon = parse_epsilon(told)
        query = LikedSet(items=table.count, rated=rated, padded=rated).query(
            round_number=0, public_seed=bytes(16), epsilon=epsilon
        )
        variance = float(subset_rates(query).spread(np.array([share]))[0])
        people = variance / (ENOUGH * share) ** 2
        kept = float(np.interp(math.sqrt(variance / table.users) / share, NOISE, KEPT))
        pairs = pairs_begin(signal, paired, epsilon)
        found.append(
            {
                "epsilon": told,
                "people": round(people),
                "people_low": round(people / WITHIN),
                "people_high": round(people * WITHIN),
                "kept": kept,
                "people_for_pairs": None if math.isinf(pairs) else round(pairs),
                "use": used(kept, pairs <= table.users),
                "people_here": table.users,
            }
        )
    return found


def tenth_share(table: RatingTable, likes: Bools, padded: int) -> float:
    """Return the tenth largest share of people whose set has an item; of l likes one is kept with ``min(1, w / l)``."""
    many = np.bincount(table.owners[likes], minlength=table.users)
    kept = np.minimum(1.0, padded / np.maximum(many, 1))
    share = np.bincount(table.items[likes], weights=kept[table.owners[likes]], minlength=table.count) / table.users
    return float(np.sort(share)[-min(TOP, share.size)])


def pair_signal(table: RatingTable, likes: Bools, design: LikedPairs) -> tuple[float, float]:
    """Return the largest eigenvalue of what pairs of liked items have beyond popularity, and their mean share."""
    liked = sparse.csr_array(
        (np.ones(int(likes.sum())), (table.owners[likes], table.items[likes])), shape=(table.users, table.count)
    )
    counts: Floats = np.asarray(liked.sum(axis=0))
    inside = liked[:, np.argsort(-counts, kind="stable")[: design.top]]
    many: Floats = np.asarray(inside.sum(axis=1))
    kept = design.kept
    both = np.minimum(1.0, kept * (kept - 1) / np.maximum(many * (many - 1), 1))
    pairs: Floats2 = (inside.T @ (inside * both[:, None])).toarray() / table.users
    share: Floats = np.asarray(inside.sum(axis=0)) / table.users
    _, excess = cleaned(pairs, share, 0.0)
    mean = (pairs.sum() - np.trace(pairs)) / (design.top * (design.top - 1))
    return float(np.abs(np.linalg.eigvalsh(excess)).max()), float(mean)


def pairs_begin(signal: tuple[float, float], design: LikedPairs, epsilon: Epsilon) -> float:
    """Return from how many people on pairs stand out of their noise; see `needs`."""
    eigenvalue, share = signal
    query = design.query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    variance = float(subset_rates(query).spread(np.array([share]))[0])
    asked = 1 - design.first_group - design.second_group
    return 4 * design.top * variance / (asked * eigenvalue**2) if eigenvalue else math.inf


def used(kept: float, pairs: bool) -> str:
    """Return what to use; public features on the device cost nothing, and go with each."""
    if pairs:
        return "pairs"
    return "set" if kept >= USEFUL else "volunteers or curator"
