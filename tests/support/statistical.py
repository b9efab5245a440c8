"""Error radii with a stated false-alarm probability: how far an estimate may stray before a test calls it wrong."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

FALSE_ALARM = 1e-6
"""Probability that one statistical test of this suite fails although the code is right, if it says nothing else."""


def hoeffding_radius(count: int, *, false_alarm: float = FALSE_ALARM) -> float:
    """Radius around the mean of ``count`` independent values in [0, 1] (Hoeffding's inequality, two-sided)."""
    return math.sqrt(math.log(2 / false_alarm) / (2 * count))


def clopper_pearson(successes: int, count: int, *, false_alarm: float = FALSE_ALARM) -> tuple[float, float]:
    """Exact confidence interval of a probability, from ``successes`` in ``count`` independent trials."""
    low, high = stats.binomtest(successes, count).proportion_ci(1 - false_alarm, "exact")
    return float(low), float(high)


def rate_fits(successes: int, count: int, probability: float, *, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether ``probability`` lies in the Clopper-Pearson interval of the count."""
    low, high = clopper_pearson(successes, count, false_alarm=false_alarm)
    return low <= probability <= high


def binomial_bounds(
    count: int, probability: float, *, comparisons: int = 1, false_alarm: float = FALSE_ALARM
) -> tuple[int, int]:
    """Smallest and largest of ``comparisons`` binomial counts that do not raise an alarm, all together (Bonferroni)."""
    tail = false_alarm / (2 * comparisons)
    return int(stats.binom.ppf(tail, count, probability)), int(stats.binom.isf(tail, count, probability))


def normal_radius(deviation: float, *, comparisons: int = 1, false_alarm: float = FALSE_ALARM) -> float:
    """Radius of ``comparisons`` normal variables of one standard deviation, all together (Bonferroni, two-sided)."""
    return float(stats.norm.isf(false_alarm / (2 * comparisons))) * deviation


def chi_square_fits(counts: ArrayLike, probabilities: ArrayLike, *, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether counts of a multinomial agree with its probabilities (Pearson's test; it wants large counts)."""
    observed, shares = np.asarray(counts, float), np.asarray(probabilities, float)
    expected = observed.sum() * shares / shares.sum()
    return bool(stats.chisquare(observed, expected).pvalue >= false_alarm)


def variance_fits(sample: ArrayLike, variance: float, *, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether the mean square of independent centred normals agrees with ``variance`` (chi-square, two-sided)."""
    values = np.asarray(sample, float).ravel()
    ratio = float(np.square(values).sum()) / variance
    low, high = stats.chi2.ppf(false_alarm / 2, values.size), stats.chi2.isf(false_alarm / 2, values.size)
    return bool(low <= ratio <= high)
