"""Popularity: whether the items that a run scores highest are those that most devices like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from scenarios.data.populations import liked_share
from scenarios.given.config import Scenario
from scenarios.given.run_spec import half_in
from scenarios.own.halves import OwnSettings

if TYPE_CHECKING:
    from scenarios.run.job import Result

TOP_ITEMS = 50
"""Length of the list whose items are compared; all items where there are fewer."""


def ranks(scores: Floats) -> Ints:
    """Return every item's rank by falling score, from 1, int64, shape (N,); of equal scores the lower item comes first.

    Examples
    --------
    >>> ranks(np.array([0.1, 0.7, 0.1])).tolist()
    [2, 1, 3]
    """
    rank = np.empty(scores.size, np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(1, scores.size + 1)
    return rank


def top_share(scores: Floats, truth: Floats, top: int = TOP_ITEMS) -> float:
    """Return which share of the ``top`` items of highest score belong to the truly most popular ones.

    Shapes: ``scores`` (N,); ``truth`` (N,).

    Examples
    --------
    >>> top_share(np.array([5.0, 4.0, 3.0, 2.0]), np.array([0.4, 0.1, 0.3, 0.1]), top=2)
    0.5
    """
    length = min(top, truth.size)
    last = np.sort(truth)[truth.size - length]
    return int(np.count_nonzero(truth[ranks(scores) <= length] >= last)) / length


def _mean_ranks(values: Floats) -> Floats:
    """Return ranks from 1 on, ties at their mean rank; scipy.stats has it, and takes a second to load."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean: Floats = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return mean


def rank_correlation(scores: Floats, truth: Floats) -> float | None:
    """Return Spearman's rank correlation, ties at their mean rank; None where either has one value only."""
    estimated, true = (_mean_ranks(values) for values in (scores, truth))
    return float(np.corrcoef(estimated, true)[0, 1]) if np.ptp(estimated) and np.ptp(true) else None


def ranked(scenario: Scenario) -> bool:
    """Return whether scores rank items by popularity; of one's own mechanism a larger estimate is liked more."""
    return half_in(scenario).ranks or isinstance(scenario.settings, OwnSettings)


def list_scores(run: Result) -> dict[str, Any]:
    """Return how well a run's list by score is the list by popularity; None where scores rank by something else."""
    if not ranked(run.scenario):
        return {"top_50": None, "rank_correlation": None}
    scores, truth = run.outcome.model.score, liked_share(run.population)
    return {"top_50": top_share(scores, truth), "rank_correlation": rank_correlation(scores, truth)}
