"""Laplace noise on a grid, as an exact channel: one coordinate of a completed vector becomes noisy.

The coordinate is clipped to the range of ratings and put on a grid, the noise is two-sided geometric on the grid's
steps, and the sum is clipped far outside of the range. Laplace noise in floating point would leak through its low bits
(Mironov, 2012); whole numbers have none.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import LogRatio, odds_within
from coordinator.protocol.errors import InputError

LARGEST_EPSILON = 20
"""Above it the far tail of the noise would have too few of the 64-bit coins."""
SMALLEST_EPSILON = Fraction(1, 1000)
"""Below it the noise would reach beyond `FARTHEST`, and most releases would be clipped."""
STEPS = 64
"""Steps of the grid over the range of ratings, and over the noise's scale, at least."""
FARTHEST = 1 << 20
"""Most steps that a release lies outside of the range."""
_HALF = 1 << 63
_ODDS_UNIT = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class GridLaplace:
    """Two-sided geometric noise on a grid, ``P(n)`` proportional to ``exp(-epsilon |n| / steps)`` up to single coins.

    Attributes
    ----------
    steps : int
        Steps of the grid over the range of ratings: a coordinate is 0 to ``steps``.
    beyond : int
        Releases are ``-beyond`` to ``steps + beyond``.
    at_least : ndarray of uint64, shape (beyond + steps,)
        Of the 2**63 coins those for which the noise's size is at least ``beyond + steps, ..., 2, 1``; ascending.
    """

    steps: int
    beyond: int
    at_least: Words = field(repr=False)

    def row(self, place: int) -> list[Fraction]:
        """Return the exact probabilities of all releases, ``-beyond`` to ``steps + beyond``, given the coordinate."""
        return [Fraction(int(coins), 2 * _HALF) for coins in self._coins(place)]

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of the probabilities of one release given two coordinates, exact."""
        most = least = 1
        for pair in zip(*(self._coins(place).tolist() for place in (0, self.steps)), strict=True):
            if max(pair) * least > most * min(pair):
                most, least = max(pair), min(pair)
        return LogRatio.of(Fraction(most, least))

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        return float(self.log_ratio)

    def _coins(self, place: int) -> Words:
        """Return how many of 2**64 coins make every release, in the order of `row`."""
        tails = self.at_least[::-1]  # of noise at least 1, 2, ...
        sizes = np.append(tails[:1], tails)
        sizes[0] = 2 * (_HALF - int(tails[0]))
        sizes[1:-1] -= tails[1:]
        row: Words = sizes[np.abs(np.arange(-self.beyond, self.steps + self.beyond + 1) - place)]
        row[0], row[-1] = tails[self.beyond + place - 1], tails[self.beyond + self.steps - place - 1]
        return row


@functools.lru_cache(maxsize=16)
def grid_laplace(epsilon: Epsilon) -> GridLaplace:
    """Return the channel of one coordinate.

    Noise that is ``steps`` larger gets its coins by division by ``e**epsilon``, rounded up; so no rounding, however
    small epsilon is, makes two releases' odds exceed it.

    Parameters
    ----------
    epsilon : Fraction or None
        Privacy parameter of one coordinate [nats].

    Returns
    -------
    GridLaplace
        Its epsilon is at most the one asked for, and within a millionth of it.

    Raises
    ------
    InputError
        If epsilon is infinite, above 20, or below 1/1000.
    """
    if epsilon is None or epsilon > LARGEST_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one coordinate is above {LARGEST_EPSILON}; lower it, or use exact"
        )
    if epsilon < SMALLEST_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one coordinate is below {as_float(SMALLEST_EPSILON):g}, where noise "
            "would reach beyond the grid; raise it, or use sslp or privunit"
        )
    steps = max(STEPS, math.ceil(STEPS * epsilon))
    beyond = min(math.ceil(max(22 - epsilon, Fraction(4)) * steps / epsilon), FARTHEST)
    sizes = _coins_of_sizes(math.floor(odds_within(epsilon) * _ODDS_UNIT), steps, beyond)
    return GridLaplace(steps, beyond, np.cumsum(np.array(sizes[::-1], np.uint64)))


def _coins_of_sizes(odds: int, steps: int, beyond: int) -> list[int]:
    """Return how many of 2**63 coins make noise of size 1, 2, ..., and at last of at least ``beyond + steps``.

    Parameters
    ----------
    odds : int
        Largest odds of two releases, in parts of 2**62.
    """
    with localcontext() as context:
        context.prec = 60
        fall = (-(Decimal(odds) / _ODDS_UNIT).ln() / steps).exp() * (1 + Decimal("1e-55"))
        sizes = [math.ceil(2 * _HALF * (1 - fall) / (1 + fall) * fall**size) for size in range(1, steps + 1)]
    for size in range(steps, beyond + steps - 1):
        sizes.append(-(-sizes[size - steps] * _ODDS_UNIT // odds))
    last = sum(sizes[beyond - 1 :])
    return [*sizes, -(-last * _ODDS_UNIT // (odds - _ODDS_UNIT))]
