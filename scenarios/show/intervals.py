"""Intervals of what is measured over seeds: means, quantiles and medians, shares, and ratios."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats

Interval = tuple[float | None, float | None, float | None]
"""A number and its interval's ends; None where it is not known, or where the interval is open."""
CONFIDENCE = 0.95


def quantile_ranks(count: int, share: float, confidence: float = CONFIDENCE) -> tuple[int, int | None, int | None]:
    """Return the ranks, from 1, of a quantile among ``count`` values in ascending order, and of its interval's ends."""
    # The quantile is the smallest value that at least ``share`` of all do not exceed. The true one lies below the value
    # of rank j with the probability that fewer than j of ``count`` values do not exceed it, ``P(B < j)``, and above
    # that of rank k with ``P(B >= k)``, B binomial with ``share``, whatever the distribution. Each end misses with at
    # most half of ``1 - confidence``.
    from scipy import special  # noqa: PLC0415 (loaded only where there are several runs)

    tail = (1 - confidence) / 2
    ranks = np.arange(1, count + 1)
    lows = ranks[special.bdtr(ranks - 1.0, count, share) <= tail]
    highs = ranks[special.bdtrc(ranks - 1.0, count, share) <= tail]
    rank = max(1, math.ceil(share * count - 1e-9))
    return rank, int(lows[-1]) if lows.size else None, int(highs[0]) if highs.size else None


def quantile_interval(values: Sequence[float], share: float, confidence: float = CONFIDENCE) -> Interval:
    """Return a quantile with its interval of order statistics; see `quantile_ranks`."""
    rank, low, high = quantile_ranks(len(values), share, confidence)
    return _at_rank(values, rank), _at_rank(values, low), _at_rank(values, high)


def _at_rank(values: Floats | Sequence[float], rank: int | None) -> float | None:
    """Return the value of a rank, from 1; None where there is no such rank, or the value was not reached."""
    value = math.inf if rank is None else float(np.sort(np.where(np.isnan(values), np.inf, values))[rank - 1])
    return None if math.isinf(value) else value


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return a mean with Student's interval, which a single value does not have."""
    mean, error = float(np.mean(values)), standard_error(values)
    if error is None:
        return mean, None, None
    from scipy import special  # noqa: PLC0415 (loaded only where there are several runs)

    reach = float(special.stdtrit(len(values) - 1, (1 + confidence) / 2)) * error
    return mean, mean - reach, mean + reach


def share_interval(successes: int, count: int, confidence: float = CONFIDENCE) -> Interval:
    """Return a share with its exact interval (Clopper and Pearson)."""
    from scipy import special  # noqa: PLC0415 (loaded only where there are several runs)

    tail = (1 - confidence) / 2
    low = float(special.betaincinv(successes, count - successes + 1, tail)) if successes else 0.0
    high = float(special.betainccinv(successes + 1, count - successes, tail)) if successes < count else 1.0
    return successes / count, low, high


def ratio_interval(numerator: Interval, denominator: Interval) -> Interval:
    """Return the ratio of two positive numbers, with the interval from the worst case to the best of both."""
    # For two errors that are about normal it holds it at their confidence at least, however they depend on each other.

    def divided(dividend: float | None, divisor: float | None) -> float | None:
        return dividend / divisor if dividend is not None and divisor else None

    return (
        divided(numerator[0], denominator[0]),
        divided(numerator[1], denominator[2]),
        divided(numerator[2], denominator[1]),
    )


def standard_error(values: Sequence[float]) -> float | None:
    """Return a mean's standard error; None for a single value."""
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None


def named(bounds: Interval, name: str) -> dict[str, float | None]:
    """Return a number and its interval as a record has them: ``name``, ``name_low``, ``name_high``."""
    return {name: bounds[0], f"{name}_low": bounds[1], f"{name}_high": bounds[2]}


def median_ranks(count: int, confidence: float = CONFIDENCE) -> tuple[int, int, float]:
    """Return the ranks, from 1, of the values that enclose the median, and the level that they reach."""
    # Where too few values leave the interval of `quantile_ranks` open, it ends at the smallest and at the largest.
    from scipy import special  # noqa: PLC0415 (loaded only where there are several runs)

    low = quantile_ranks(count, 0.5, confidence)[1] or 1
    return low, count + 1 - low, max(0.0, 1 - 2 * float(special.bdtr(low - 1.0, count, 0.5)))


def median_interval(users: Floats | Sequence[float]) -> dict[str, Any]:
    """Return U* with its interval: ``users``, ``low``, ``high`` (None: not reached), ``level``; seeds and unreached."""
    low, high, level = median_ranks(len(users))
    ranks = {"users": quantile_ranks(len(users), 0.5)[0], "low": low, "high": high}
    interval = {name: None if (value := _at_rank(users, rank)) is None else int(value) for name, rank in ranks.items()}
    return {**interval, "level": level, "seeds": len(users), "unreached": int((~np.isfinite(users)).sum())}


def paired_ratio(numerator: Floats, denominator: Floats) -> dict[str, Any]:
    """Return the geometric mean of ratios seed by seed, with Student's interval of the mean logarithm."""
    logs = np.log(numerator / denominator)
    logs = logs[np.isfinite(logs)]
    ends = mean_interval(list(logs)) if logs.size else (None, None, None)
    ratio, low, high = (None if end is None else math.exp(end) for end in ends)
    return {"ratio": ratio, "low": low, "high": high, "seeds": int(logs.size)}
