"""Binomial and hypergeometric probabilities and roots of functions, without a second of loading SciPy's own."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError

NEGLIGIBLE = 1e-20  # masses below this share of the largest one are left out
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)  # of Stirling's, good to 1e-14 from `_FEW` on
_FEW = 16.0


def binomial_mass(count: ArrayLike, trials: ArrayLike, chance: ArrayLike) -> Floats:
    """Return the probability of a binomial count.

    >>> binomial_mass([0, 1, 2, 3], 2, 0.5).round(12).tolist()
    [0.25, 0.5, 0.25, 0.0]
    """
    from scipy.special import xlog1py, xlogy  # noqa: PLC0415 (settings stand beside what predicts them, and load no scipy)

    # By Loader's deviance, from which large logarithms are gone: the relative error is below 1e-8 for 10^12 trials. C.
    # Loader, *Fast and accurate computation of binomial probabilities*, 2000.
    k, n, p = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (count, trials, chance)))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = _correction(n) - _correction(k) - _correction(n - k) - _deviance(k, n * p) - _deviance(n - k, n - n * p)
        inside = np.exp(logs) * np.sqrt(n / (2 * math.pi * k * (n - k)))
    masses: Floats = np.select(
        [(k < 0) | (k > n), k == 0, k == n],
        [0.0, np.exp(xlog1py(n, -p)), np.exp(xlogy(n, p))],
        inside,
    )
    return masses


def _correction(number: Floats) -> Floats:
    """Return the logarithm of n! over Stirling's formula for it."""
    from scipy.special import gammaln  # noqa: PLC0415 (settings stand beside what predicts them, and load no scipy)

    few, many = np.minimum(number, _FEW), np.maximum(number, _FEW)
    exact = gammaln(few + 1) - (few + 0.5) * np.log(few) + few - math.log(2 * math.pi) / 2
    series = sum(term / many ** (2 * power + 1) for power, term in enumerate(_SERIES))
    return np.where(number < _FEW, exact, series)


def _deviance(count: Floats, mean: Floats) -> Floats:
    """Return ``count log(count / mean) + mean - count`` with little loss where the two are close."""
    away = (mean - count) / count
    return np.asarray(count * (away - np.log1p(away)))


def hypergeometric_masses(population: int, marked: int, sample_size: int) -> tuple[int, Floats]:
    """Masses of the hypergeometric distribution that are not negligible, and the value of the first."""
    # From the ratios of neighbours, which are exact where differences of log-factorials of large numbers are not.
    if not (0 <= marked <= population and 0 <= sample_size <= population):
        raise InputError(f"{marked} marked and {sample_size} drawn items of {population}; choose 0 to {population}")
    lowest, highest = max(0, marked + sample_size - population), min(marked, sample_size)
    both = np.arange(lowest, highest, dtype=np.float64)
    rising = (marked - both) * (sample_size - both)
    falling = (both + 1) * (population - marked - sample_size + both + 1)
    logs = np.concatenate(([0.0], np.cumsum(np.log(rising / falling))))
    masses = np.exp(logs - logs.max())
    relevant = np.flatnonzero(masses > NEGLIGIBLE)
    return lowest + int(relevant[0]), np.asarray(masses[relevant] / masses.sum())


STEPS = 100
FINEST = 4 * 2.0**-52  # Relative width of the smallest bracket


def root_between(function: Callable[[float], float], low: float, high: float, *, width: float = 2e-12) -> float:
    """Return where a function is 0, by Brent's method, step for step as `scipy.optimize.brentq` does it.

    >>> round(root_between(lambda x: x * x - 2, 0, 2), 9)
    1.414213562
    """
    before, at_before, here, at_here = low, function(low), high, function(high)
    if at_before == 0:
        return before
    if not (at_here == 0 or at_before < 0 < at_here or at_here < 0 < at_before):
        raise InputError(f"the function is {at_before} at {low} and {at_here} at {high}; its signs must differ")
    across, at_across, last, step = before, at_before, here - before, here - before
    for _ in range(STEPS):
        if at_before != 0 and at_here != 0 and (at_before < 0) != (at_here < 0):
            across, at_across, last, step = before, at_before, here - before, here - before
        if abs(at_across) < abs(at_here):
            before, here, across = here, across, here
            at_before, at_here, at_across = at_here, at_across, at_here
        least, half_width = (width + FINEST * abs(here)) / 2, (across - here) / 2
        if at_here == 0 or abs(half_width) < least:
            break
        guess = math.inf
        if abs(last) > least and abs(at_here) < abs(at_before):
            guess = _interpolated(before, at_before, here, at_here, across, at_across)
        good = 2 * abs(guess) < min(abs(last), 3 * abs(half_width) - least)
        last, step = (step, guess) if good else (half_width, half_width)
        before, at_before = here, at_here
        here += step if abs(step) > least else math.copysign(least, half_width)
        at_here = function(here)
    return here


def _interpolated(
    before: float, at_before: float, here: float, at_here: float, across: float, at_across: float
) -> float:
    """Return the step to the root of the line, or of the inverse parabola, through the points."""
    if before == across:
        return -at_here * (here - before) / (at_here - at_before)
    first, second = (at_before - at_here) / (before - here), (at_across - at_here) / (across - here)
    return -at_here * (at_across * second - at_before * first) / (second * first * (at_across - at_before))
