"""Counters: sums of what came in each period, under noise of earlier periods that takes part of itself back.

A discounted sum of periods is a lower triangular matrix A of them, ``gamma^(t - j)``. With its root C, whose
coefficients are ``a_j gamma^j``, ``a_j = binomial(2 j, j) / 4^j``, a release is ``A x + C z`` with independent z: as if
C x had been released under noise once. A person's entries reach every later period through a column of C, so that z has
the deviation of one release times that column's norm. A person adds to an item's counter once at most; columns have
products above 0, so that an item in both of two histories only brings them nearer.
Source: Fichtenberger, Henzinger and Upadhyay (2023); Denisov, McMahan, Rush, Smith and Thakurta (2022).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Ints


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
