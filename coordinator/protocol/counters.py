"""Counters: sums of what came in each period, under noise of earlier periods that takes part of itself back.

A discounted sum of periods is a lower triangular matrix A of them, ``gamma^(t - j)``. With its root C, whose
coefficients are ``a_j gamma^j``, ``a_j = binomial(2 j, j) / 4^j``, a release is ``A x + C z`` with independent z: as if
C x had been released under noise once. A person's entries reach every later period through a column of C, so that z has
the deviation of one release times that column's norm. A person adds to an item's counter once at most; columns have
products above 0, so that an item in both of two histories only brings them nearer.
Source: Fichtenberger, Henzinger and Upadhyay (2023); Denisov, McMahan, Rush, Smith and Thakurta (2022).

Each of two servers adds such noise to the sums that it publishes, rounded. A device's likes are whole numbers, so that
this is as if sums and noise were rounded together, which reveals no more than they do. The coefficients are real, and
so is the noise: a normal law, where sums with fresh noise have a discrete one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Ints
from coordinator.protocol.budget import as_float
from coordinator.protocol.composition import gaussian_delta_at, gaussian_distance, gaussian_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.noise import LARGEST_DEVIATION, LEAST_DEVIATION, normal_draws, on_public_grid


def root_coefficients(periods: int, discount: float = 1.0) -> Floats:
    """Return ``a_j gamma^j``, the coefficients of the root of discounted sums, for so many periods.

    >>> root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    steps = np.arange(1, periods)
    return np.concatenate([[1.0], np.cumprod(discount * (2 * steps - 1) / (2 * steps))])


def counter_noise(periods: int, discount: float = 1.0) -> Floats:
    """Return the deviation of a counter's noise in every period, by that of one release, shape (T,).

    >>> [round(factor, 3) for factor in counter_noise(12)[[0, -1]].tolist()]
    [1.36, 1.851]
    """
    squares = root_coefficients(periods, discount) ** 2
    return np.asarray(np.sqrt(squares.sum() * np.cumsum(squares)))


@dataclass(frozen=True, slots=True)
class CounterNoise:
    """Noise of counters that began in several periods; a counter of a new item starts with it.

    Attributes
    ----------
    periods : int
        Periods T of the budget.
    discount : float
        gamma, by which what came a period earlier counts less.
    deviation : float
        Deviation of the noise of one release of everything that a person may add in all periods.
    """

    periods: int
    discount: float
    deviation: float
    starts: Ints  # shape (..., N); The period in which each counter began, from 1 on
    draws: tuple[Floats, ...] = field(default=(), repr=False)  # Independent noise of every period so far

    def next_period(self, coins: np.random.Generator, new: Bools) -> tuple[CounterNoise, Floats]:
        """Return the noise of one more period, with counters that begin in it."""
        period = len(self.draws) + 1
        coefficients = root_coefficients(self.periods, self.discount)
        column = float(np.sqrt(np.sum(coefficients**2)))
        draws = (*self.draws, coins.normal(0.0, self.deviation * column, self.starts.shape))
        starts = np.where(new, period, self.starts)
        noise = np.zeros(starts.shape)
        for number, draw in enumerate(draws, 1):
            noise += np.where(starts <= number, coefficients[period - number] * draw, 0.0)
        return replace(self, starts=starts, draws=draws), noise

    @property
    def variance(self) -> Floats:
        """Variance of the latest noise of each counter."""
        ages = len(self.draws) - self.starts
        return np.asarray((self.deviation * counter_noise(self.periods, self.discount))[ages] ** 2)


def counter_deviation(periods: int, changes: int, epsilon: Fraction, delta: float) -> float:
    """Return the least deviation of z, on a public grid, with which a counter of so many periods keeps its promise.

    ``changes`` entries, of items in periods, change by one if a person's likes of all periods are replaced.
    """
    deviation = on_public_grid(counter_distance(periods, changes, 1.0) / gaussian_distance(epsilon, delta))
    if deviation > LARGEST_DEVIATION:
        raise InputError(f"delta {delta:g} needs noise of deviation above {LARGEST_DEVIATION:g}; raise epsilon")
    return max(deviation, LEAST_DEVIATION)


def counter_distance(periods: int, changes: int, deviation: float) -> float:
    """Return the distance of two normal laws that a person's likes of all periods come to."""
    return math.sqrt(changes * math.fsum(root_coefficients(periods) ** 2)) / deviation


def keeps_counter(periods: int, changes: int, deviation: float, epsilon: Fraction, delta: float) -> bool:
    """Return whether the sums of all periods together keep (epsilon, delta)."""
    return deviation > 0 and (
        gaussian_delta_at(counter_distance(periods, changes, deviation), as_float(epsilon)) <= delta
    )


def counter_epsilon(periods: int, changes: int, deviation: float, most: Fraction, delta: float) -> Fraction:
    """Return the epsilon of a counter's first periods, in whole thousandths; no more than that of its plan [nats]."""
    epsilon = gaussian_epsilon(counter_distance(periods, changes, deviation), delta)
    return min(most, Fraction(math.ceil(1000 * epsilon), 1000))


def standings_variance(periods: int, deviation: float) -> float:
    """Return the variance of one server's noise in the sums of all likes so far, after so many periods."""
    return deviation**2 * math.fsum(root_coefficients(periods) ** 2) + 1 / 12  # which rounding adds


def carried_noise(seeds: Sequence[bytes], deviation: float, count: int) -> Ints:
    """Return what one server adds to the last of its sums so far, whole numbers, shape (count,).

    Parameters
    ----------
    seeds : sequence of bytes
        The seed of each sum's own noise, the first one first.
    deviation : float
        Of the noise z that belongs to one sum.
    count : int
        Items that are counted.

    Notes
    -----
    Together they are ``C z``, rounded: each sum of all periods so far has one rounding.
    """
    draws = [deviation * normal_draws(seed, count) for seed in seeds]

    def standings(periods: int) -> Floats:
        total = np.zeros(count)
        for coefficient, draw in zip(root_coefficients(periods)[::-1], draws[:periods], strict=False):
            total += coefficient * draw
        return np.rint(total)

    return (standings(len(draws)) - standings(len(draws) - 1)).astype(np.int64)
