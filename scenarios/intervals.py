"""Intervals of what an adaptive sweep measures: quantiles, means, shares, and ratios of two of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

Interval = tuple[float | None, float | None, float | None]
"""A number and its interval's ends; None where it is not known, or where the interval is open."""
CONFIDENCE = 0.95


def quantile_ranks(count: int, share: float, confidence: float = CONFIDENCE) -> tuple[int, int | None, int | None]:
    """Return the ranks, from 1, of a quantile among ``count`` values in ascending order, and of its interval's ends.

    The quantile is the smallest value that at least ``share`` of all do not exceed. The true one lies below the value
    of rank j with the probability that fewer than j of ``count`` values do not exceed it, ``P(B < j)``, and above that
    of rank k with ``P(B >= k)``, B binomial with ``share``, whatever the distribution. Each end misses with at most
    half of ``1 - confidence``.

    Parameters
    ----------
    count : int
        Number of values, at least 1.
    share : float
        Which quantile, in (0, 1).
    confidence : float
        Of the interval.

    Returns
    -------
    rank : int
        Of the quantile.
    low, high : int or None
        Of the ends; None where the values are too few: the interval is open there.
    """
    tail = (1 - confidence) / 2
    ranks = np.arange(1, count + 1)
    lows = ranks[scipy.stats.binom.cdf(ranks - 1, count, share) <= tail]
    highs = ranks[scipy.stats.binom.sf(ranks - 1, count, share) <= tail]
    rank = max(1, math.ceil(share * count - 1e-9))
    return rank, int(lows[-1]) if lows.size else None, int(highs[0]) if highs.size else None


def quantile_interval(values: Sequence[float], share: float, confidence: float = CONFIDENCE) -> Interval:
    """Return a quantile with its interval of order statistics; see `quantile_ranks`.

    Parameters
    ----------
    values : sequence of float
        NaN where it is larger than anything that was looked at; what falls on one of these is None.
    share, confidence : float
        As for `quantile_ranks`.
    """
    ordered = np.sort(np.where(np.isnan(values), np.inf, values))

    def at(rank: int | None) -> float | None:
        return None if rank is None or math.isinf(value := float(ordered[rank - 1])) else value

    rank, low, high = quantile_ranks(ordered.size, share, confidence)
    return at(rank), at(low), at(high)


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return a mean with Student's interval, which a single value does not have."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    reach = float(scipy.stats.t.ppf((1 + confidence) / 2, len(values) - 1) * scipy.stats.sem(values))
    return mean, mean - reach, mean + reach


def share_interval(successes: int, count: int, confidence: float = CONFIDENCE) -> Interval:
    """Return a share with its exact interval (Clopper and Pearson)."""
    tail = (1 - confidence) / 2
    low = float(scipy.stats.beta.ppf(tail, successes, count - successes + 1)) if successes else 0.0
    high = float(scipy.stats.beta.isf(tail, successes + 1, count - successes)) if successes < count else 1.0
    return successes / count, low, high


def ratio_interval(over: Interval, under: Interval) -> Interval:
    """Return the ratio of two positive numbers, with the interval from the worst case to the best of both.

    It holds the true ratio wherever both intervals hold theirs. For two errors that are about normal it holds it at
    their confidence at least, however they depend on each other.
    """

    def divided(one: float | None, other: float | None) -> float | None:
        return one / other if one is not None and other else None

    return divided(over[0], under[0]), divided(over[1], under[2]), divided(over[2], under[1])
