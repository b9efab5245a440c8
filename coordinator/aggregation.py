"""Aggregation: one block's release becomes a statistic, by the design of its query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from coordinator.pair_moments import AGREEMENTS
from coordinator.pair_statistics import PairStatistic, aggregate_pairs
from coordinator.partition_statistics import aggregate_partition
from coordinator.protocol.messages import Query, Release
from coordinator.rating_statistics import aggregate_item_queries, aggregate_revealed, aggregate_revealed_pairs
from coordinator.sign_statistics import aggregate_signs
from coordinator.statistics import ScoreStatistic, aggregate_scores

Statistic: TypeAlias = ScoreStatistic | PairStatistic
"""What releases sum up to."""

AGGREGATIONS: dict[str, Callable[[Query, Release], Statistic]] = {
    "maxsense": aggregate_scores,
    "multi-maxsense": aggregate_partition,
    "sign": aggregate_signs,
    **{f"pairwise-{name}{of}": aggregate_pairs for name in AGREEMENTS for of in ("", "-of-rated")},
    "item-query": aggregate_item_queries,
    "full-reveal": aggregate_revealed,
    "curator-items": aggregate_revealed,
    "curator-pairs": aggregate_revealed_pairs,
}


def aggregate(query: Query, release: Release) -> Statistic:
    """Return the statistic of one block's release, regenerating what was asked from public coins.

    Parameters
    ----------
    query : Query
        The query that was asked.
    release : Release
        Its answer.

    Returns
    -------
    ScoreStatistic or PairStatistic

    Raises
    ------
    ValueError
        If the release answers another query.
    """
    return AGGREGATIONS[query.design](query, release)


def merge(first: Statistic, *others: Statistic) -> Statistic:
    """Return the sum of statistics of one design, in the order given."""
    total = first
    for other in others:
        total = total + other  # type: ignore[operator] # all of one design
    return total


def no_release(query: Query) -> Release:
    """Return the release of no device: aggregating it compiles what real ones need."""
    return Release(query_id=query.id, first=0, count=0, width=query.bits, bits=b"")
