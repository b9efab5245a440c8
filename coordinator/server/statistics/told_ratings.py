"""Sums of openly told ratings: item queries, the toy of full reveal, and the trusted curator's totals."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Bits2
from coordinator.protocol.coins import round_key
from coordinator.protocol.item_queries import item_queries
from coordinator.protocol.messages import Query, Release
from coordinator.server.statistics.pairs import PairStatistic, check_items
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.statistic import no_answer


def aggregate_item_queries(query: Query, release: Release) -> ScoreStatistic:
    """Return for each item how many devices said yes (``sensed``), and yes to "is it liked?" (``scores``)."""
    release.require(query)
    if query.pool is None:
        raise ValueError(f"{query} names no pool of items")
    key = round_key(query.public_seed, query.round)
    items, values = item_queries(key, release.first, release.count, query.pool)
    answered = release.answered_mask()
    yes = (release.unpacked()[:, 0] == 1) & answered
    return ScoreStatistic(
        sensed=np.bincount(items[yes], minlength=query.items),
        scores=np.bincount(items[yes & values], minlength=query.items),
        asked=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
        ones=int(yes.sum()),
    )


def _revealed(query: Query, release: Release) -> tuple[Bits2, Bits2, int]:
    """Return who rated what and who liked what, uint8, shapes (devices, N), and how many devices answered.

    Raises
    ------
    InputError
        If a device likes an item that it did not rate, or tells more ratings than were asked for.
    """
    release.require(query)
    answered = release.answered_mask()
    bits = release.unpacked() & answered[:, None]
    rated, liked, most = bits[:, : query.items], bits[:, query.items :], int(query.parameters["most"])
    wrong = (liked > rated).any(axis=1) | (rated.sum(axis=1) > most)
    if wrong.any():
        told = (
            f"device {release.first + int(wrong.argmax())} likes what it did not rate, or rated more than {most} items"
        )
        raise no_answer(query, release, told)
    return rated, liked, int(answered.sum())


def aggregate_revealed(query: Query, release: Release) -> ScoreStatistic:
    """Return for each item how many devices told that they rated it (``sensed``), and liked it (``scores``)."""
    rated, liked, answered = _revealed(query, release)
    return ScoreStatistic(
        sensed=rated.sum(axis=0, dtype=np.int64),
        scores=liked.sum(axis=0, dtype=np.int64),
        asked=release.count,
        answered=answered,
        refused=release.refused,
        ones=int(liked.sum(dtype=np.int64)),
    )


def aggregate_revealed_pairs(query: Query, release: Release) -> PairStatistic:
    """Return for each pair of items how many devices rated both, and how many of these alike."""
    check_items(query.items)
    bits, likes, answered = _revealed(query, release)
    rated, liked = bits.astype(np.float32), likes.astype(np.float32)  # sums below 2**24 are exact
    disliked = rated - liked
    pairs, agreed = np.triu(rated.T @ rated, 1), np.triu(liked.T @ liked + disliked.T @ disliked, 1)
    return PairStatistic(
        pairs=pairs.astype(np.int64),
        agreed=agreed.astype(np.int64),
        asked=release.count,
        answered=answered,
        refused=release.refused,
    )
