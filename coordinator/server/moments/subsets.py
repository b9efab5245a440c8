"""Sums over subsets of the items: means of products of item factors, the combinatorics behind exact moments."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit, logit

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.server.moments.counts import NEGLIGIBLE, hypergeometric_masses
from coordinator.server.moments.roots import root_between


def mean_product(factors: Floats, sizes: Ints, chosen: int) -> float:
    """Mean of a product of item factors over the uniform subsets of a given size.

    Parameters
    ----------
    factors : array of float, shape (L,)
        Factor of every item of each cluster, at least 0.
    sizes : array of int, shape (L,)
        Items in each cluster, at least 0.
    chosen : int
        Size of the subsets, 0 to the number of items.

    Returns
    -------
    float
        ``sum over (k_1..k_L) of prod_l C(n_l, k_l) x_l^(k_l) / C(n, chosen)``; relative error below 1e-10 for
        a million items and subsets of some thousands.

    Raises
    ------
    InputError
        If no subset has that size.

    Examples
    --------
    >>> round(mean_product(np.array([0.5, 1.0]), np.array([1, 2]), 1), 12)
    0.833333333333
    """
    total = int(sizes.sum())
    if not 0 <= chosen <= total:
        raise InputError(f"no subset of {chosen} items in a set of {total}; choose 0 to {total}")
    whole = _log_coefficient((1.0,), (total,), chosen)
    return math.exp(_log_coefficient(tuple(factors.tolist()), tuple(sizes.tolist()), chosen) - whole)


def mean_product_in_a_set(factors: Floats, sizes: Ints, *, population: int, marked: int, drawn: int) -> float:
    """Mean of a product of item factors over the marked items that a random set holds.

    Of ``population`` items a uniform subset of ``marked`` is marked, and an independent uniform subset of ``drawn``
    is drawn; the items that are both, r of them, are a uniform r-subset of the items that ``sizes`` counts.

    Parameters
    ----------
    factors : array of float, shape (L,)
        Factor of every item of each cluster, in [0, 1].
    sizes : array of int, shape (L,)
        Items in each cluster; may sum to less than ``population``, where some items are known not to be both.
    population, marked, drawn : int
        Sizes of the hypergeometric distribution of r.

    Returns
    -------
    float
        ``sum_r Hyp(r; population, marked, drawn) mean_product(factors, sizes, r)``, over the r whose mass is not
        negligible (absolute error below 1e-15).

    Raises
    ------
    InputError
        If there are more marked or drawn items than items, or more of both than ``sizes`` counts.

    Examples
    --------
    >>> round(mean_product_in_a_set(np.array([0.5]), np.array([4]), population=4, marked=2, drawn=2), 12)
    0.541666666667
    """
    first, masses = hypergeometric_masses(population, marked, drawn)
    left, total = 1.0, 0.0
    for both, mass in enumerate(masses.tolist(), first):
        product = mean_product(factors, sizes, both)
        total += mass * product
        left -= mass
        if left * product <= NEGLIGIBLE + 1e-17 * total:  # products fall as r rises
            break
    return total


@lru_cache(maxsize=1 << 14)
def _log_coefficient(of: tuple[float, ...], many: tuple[int, ...], power: int) -> float:
    """Logarithm of the coefficient of z^power in prod_l (1 + x_l z)^(n_l).

    Cauchy's integral over ``z = r e^(i angle)``. The terms at radius r, scaled to sum to 1, are the distribution of
    a sum of binomials; r puts its mean at ``power``, so that the integral is the probability of the mean itself:
    no cancellation, no overflow. An equal-step sum adds only the mass that lies a multiple of ``steps`` away,
    below 1e-20 with 16 standard deviations + 65 steps (Bernstein's inequality).
    """
    factors, sizes = np.array(of), np.array(many)
    present = (factors > 0) & (sizes > 0)
    counts, degree = sizes[present].astype(np.float64), int(sizes[present].sum())
    if power > degree:
        return -math.inf
    if power == 0:
        return 0.0
    logs = np.log(factors[present])
    target = min(power, degree - 0.5) / degree
    centre = float(logit(target))
    tilt = root_between(
        lambda tilt: _excess(tilt, logs, counts, target), centre - float(logs.max()) - 1, centre - float(logs.min()) + 1
    )
    chance, rest = expit(logs + tilt), expit(-logs - tilt)
    deviation = math.sqrt(float(counts @ (chance * rest)))
    steps = min(math.ceil(16 * deviation) + 65, degree + 1) // 2 * 2 + 1
    angles = 2 * np.pi / steps * np.arange(1, steps // 2 + 1)[:, None]
    half = np.sin(angles / 2) ** 2
    size = np.log1p(-4 * chance * rest * half) @ counts / 2
    phase = np.arctan2(chance * np.sin(angles), 1 - 2 * chance * half) @ counts - power * angles[:, 0]
    mass = (1 + 2 * float(np.exp(size) @ np.cos(phase))) / steps
    return float(np.logaddexp(0, logs + tilt) @ counts) - power * tilt + math.log(mass)


def _excess(tilt: float, logs: Floats, counts: Floats, target: float) -> float:
    """Mean of the tilted distribution as a share of its range, less the target."""
    return float(counts @ expit(logs + tilt) / counts.sum()) - target
