"""Probabilities of counts, binomial and hypergeometric, without the second that loading `scipy.stats` takes."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError

NEGLIGIBLE = 1e-20  # masses below this share of the largest one are left out
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)  # of Stirling's, good to 1e-14 from `_FEW` on
_FEW = 16.0


def binomial_mass(count: ArrayLike, many: ArrayLike, chance: ArrayLike) -> Floats:
    """Return the probability of a binomial count.

    Parameters
    ----------
    count : array of whole numbers, of any shape
        What is counted, 0 to ``many``; of other numbers the probability is 0.
    many, chance : arrays that broadcast with it
        How many trials there are, and the probability of each, in [0, 1].

    Notes
    -----
    By Loader's deviance, from which large logarithms are gone: the relative error is below 1e-8 for 10^12 trials. C.
    Loader, *Fast and accurate computation of binomial probabilities*, 2000.

    Examples
    --------
    >>> binomial_mass([0, 1, 2, 3], 2, 0.5).round(12).tolist()
    [0.25, 0.5, 0.25, 0.0]
    """
    k, n, p = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (count, many, chance)))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = _correction(n) - _correction(k) - _correction(n - k) - _deviance(k, n * p) - _deviance(n - k, n - n * p)
        inside = np.exp(logs) * np.sqrt(n / (2 * math.pi * k * (n - k)))
    found: Floats = np.select(
        [(k < 0) | (k > n), k == 0, k == n],
        [0.0, np.exp(scipy.special.xlog1py(n, -p)), np.exp(scipy.special.xlogy(n, p))],
        inside,
    )
    return found


def _correction(number: Floats) -> Floats:
    """Return the logarithm of n! over Stirling's formula for it."""
    few, many = np.minimum(number, _FEW), np.maximum(number, _FEW)
    exact = scipy.special.gammaln(few + 1) - (few + 0.5) * np.log(few) + few - math.log(2 * math.pi) / 2
    series = sum(term / many ** (2 * power + 1) for power, term in enumerate(_SERIES))
    return np.where(number < _FEW, exact, series)


def _deviance(count: Floats, mean: Floats) -> Floats:
    """Return ``count log(count / mean) + mean - count`` with little loss where the two are close."""
    away = (mean - count) / count
    return np.asarray(count * (away - np.log1p(away)))


def hypergeometric_masses(population: int, marked: int, drawn: int) -> tuple[int, Floats]:
    """Masses of the hypergeometric distribution that are not negligible, and the value of the first.

    From the ratios of neighbours, which are exact where differences of log-factorials of large numbers are not.

    Parameters
    ----------
    population, marked, drawn : int
        How many there are, how many of them are marked, and how many are drawn; the marked among the drawn count.

    Raises
    ------
    InputError
        If more are marked or drawn than there are.
    """
    if not (0 <= marked <= population and 0 <= drawn <= population):
        raise InputError(f"{marked} marked and {drawn} drawn items of {population}; choose 0 to {population}")
    lowest, highest = max(0, marked + drawn - population), min(marked, drawn)
    both = np.arange(lowest, highest, dtype=np.float64)
    rising = (marked - both) * (drawn - both)
    falling = (both + 1) * (population - marked - drawn + both + 1)
    logs = np.concatenate(([0.0], np.cumsum(np.log(rising / falling))))
    masses = np.exp(logs - logs.max())
    kept = np.flatnonzero(masses > NEGLIGIBLE)
    return lowest + int(kept[0]), np.asarray(masses[kept] / masses.sum())
