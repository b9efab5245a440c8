"""Aggregation: one block's release becomes a statistic, by the design of its query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TypeAlias

import numpy as np

from coordinator.pair_statistics import PairStatistic, aggregate_pairs
from coordinator.partition_statistics import aggregate_partition
from coordinator.protocol.checked import require_array, require_whole
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.questions import AGREEMENTS, check_question
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
    InputError
        If the query is none, or the release is none of the query.
    """
    check_question(query)
    Release.arrived(release).require(query)
    return AGGREGATIONS[query.design](query, release)


def merge(first: Statistic, *others: Statistic) -> Statistic:
    """Return the sum of statistics of one design, in the order given.

    Raises
    ------
    InputError
        If one is no statistic, or not of the same kind and size as the first.
    """
    shape = _shape(first)
    total = first
    for other in others:
        if _shape(other) != shape:
            raise InputError("statistics of different designs or catalogues have no sum; merge those of one query")
        total = total + other  # type: ignore[operator] # all of one design
    return total


def _shape(statistic: object) -> tuple[object, ...]:
    """Return a statistic's kind and the sizes of its counts.

    Raises
    ------
    InputError
        If it is no statistic, or its counts are none.
    """
    kinds = {ScoreStatistic, PairStatistic}
    if not isinstance(statistic, ScoreStatistic | PairStatistic) or type(statistic) not in kinds:
        raise InputError(f"a statistic is expected here, not a {type(statistic).__name__}")
    counts = ("sensed", "scores") if isinstance(statistic, ScoreStatistic) else ("pairs", "agreed")
    shapes = [require_array(name, getattr(statistic, name, None), np.int64, None).shape for name in counts]
    for part in fields(statistic):
        if part.name not in counts:
            require_whole(part.name, getattr(statistic, part.name, None), 0, 1 << 62)
    return type(statistic), *shapes, getattr(statistic, "questions", 1)


def no_release(query: Query) -> Release:
    """Return the release of no device: aggregating it compiles what real ones need."""
    return Release(query_id=query.id, first=0, count=0, width=query.bits, bits=b"")
