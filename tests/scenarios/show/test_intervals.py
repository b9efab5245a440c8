"""Intervals of quantiles, medians, means, shares and ratios against direct computations."""

import math
from itertools import accumulate

import numpy as np
import pytest
from scipy import stats
from statistical import clopper_pearson

from scenarios.show import intervals
from scenarios.show.intervals import mean_interval, median_interval, median_ranks, quantile_interval, quantile_ranks


def at_most(count: int, share: float) -> list[float]:
    """P(B <= 0), P(B <= 1), ..., summed up."""
    return list(accumulate(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1)))


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 71, 72, 73, 100, 400])
def test_ranks_are_the_tightest_that_miss_with_at_most_half_the_rest(count: int, share: float) -> None:
    rank, low, high = quantile_ranks(count, share)
    assert rank == min(k for k in range(1, count + 1) if k >= share * count - 1e-9)
    below = at_most(count, share)
    lows = [j for j in range(1, count + 1) if below[j - 1] <= 0.025]
    highs = [k for k in range(1, count + 1) if 1 - below[k - 1] <= 0.025]
    assert low == max(lows, default=None)
    assert high == min(highs, default=None)
    assert (low or 0) <= rank <= (high or count)


def test_when_an_interval_opens() -> None:
    assert quantile_interval([5.0, math.nan, 1.0, 3.0], 0.5) == (3.0, None, None)
    assert quantile_interval([5.0, math.nan, 1.0, 3.0], 0.9) == (None, 3.0, None)
    most = quantile_interval([float(n) for n in range(100)], 0.95)
    assert most == (94.0, 89.0, 99.0)
    assert quantile_interval([*(float(n) for n in range(99)), math.nan], 0.95) == (94.0, 89.0, None)


def test_means_and_shares() -> None:
    values = [3.0, 4.0, 8.0]
    mean, low, high = mean_interval(values)
    error = np.std(values, ddof=1) / math.sqrt(3)
    assert mean == 5
    assert (low, high) == pytest.approx((5 - 4.302653 * error, 5 + 4.302653 * error))
    assert mean_interval([7.0]) == (7.0, None, None)
    for successes, count in ((0, 20), (18, 20), (20, 20)):
        ends = clopper_pearson(successes, count, false_alarm=0.05)
        assert intervals.share_interval(successes, count)[1:] == pytest.approx(ends)


def test_ratios_go_from_the_worst_case_to_the_best() -> None:
    assert intervals.ratio_interval((10.0, 8.0, 12.0), (2.0, 1.0, 4.0)) == (5.0, 2.0, 12.0)
    assert intervals.ratio_interval((10.0, 8.0, None), (2.0, 1.0, 4.0)) == (5.0, 2.0, None)
    assert intervals.ratio_interval((None, 8.0, None), (2.0, None, 4.0)) == (None, 2.0, None)
    assert intervals.ratio_interval((10.0, 10.0, 10.0), (2.0, 1.0, 0.0)) == (5.0, None, 10.0)


@pytest.mark.parametrize(("count", "ranks"), [(1, (1, 1)), (5, (1, 5)), (6, (1, 6)), (9, (2, 8)), (20, (6, 15))])
def test_ranks_are_those_of_the_tables(count: int, ranks: tuple[int, int]) -> None:
    """The classical table of confidence limits for a median; below six values 95 % cannot be had."""
    low, high, level = median_ranks(count)
    assert (low, high) == ranks
    assert level == pytest.approx(max(0.0, 1 - 2 * stats.binom.cdf(low - 1, count, 0.5)))
    assert (level >= 0.95) == (count >= 6)


def test_the_median_is_the_population_that_half_of_the_seeds_succeed_at() -> None:
    told = median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 7.0, 8.0])
    assert (told["users"], told["low"], told["high"], told["seeds"], told["unreached"]) == (4, 1, 8, 8, 0)
    assert median_interval([3.0, 1.0, 2.0])["users"] == 2
    assert median_interval([3.0])["level"] == 0


def test_seeds_that_were_not_reached_count_as_larger_than_all() -> None:
    told = median_interval([math.nan, 1.0, 2.0, math.nan, 3.0, 4.0, 5.0, 6.0])
    assert (told["users"], told["low"], told["high"], told["unreached"]) == (4, 1, None, 2)
    none = median_interval([math.nan, math.nan, math.nan, 1.0])
    assert (none["users"], none["low"], none["unreached"]) == (None, 1, 3)
