"""Laplace noise on a grid, as an exact channel: one coordinate of a completed vector becomes noisy.

The coordinate is clipped to the range of ratings and put on a grid, the noise is two-sided geometric on the grid's
steps, and the sum is clipped far outside of the range. Laplace noise in floating point would leak through its low bits
(Mironov, 2012); whole numbers have none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.errors import InputError

LARGEST_EPSILON = 20
"""Above it the far tail of the noise would have too few of the 64-bit coins."""
STEPS = 64
"""Steps of the grid over the range of ratings, and over the noise's scale, at least."""
FARTHEST = 1 << 20
"""Most steps that a release lies outside of the range."""
_HALF = 1 << 63
_SLACK = 2.0**-20  # of epsilon: more than thresholds lose by being whole numbers


@dataclass(frozen=True, slots=True, eq=False)
class GridLaplace:
    """Two-sided geometric noise on a grid, ``P(n)`` proportional to ``exp(-epsilon |n| / steps)``.

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
        tails = [Fraction(2), *(Fraction(int(word), _HALF) for word in self.at_least[::-1]), Fraction(0)]
        row = []
        for told in range(-self.beyond, self.steps + self.beyond + 1):
            noise = abs(told - place)
            if told in (-self.beyond, self.steps + self.beyond):
                row.append(tails[noise] / 2)
            else:
                row.append((tails[noise] - tails[noise + 1]) / 2 if noise else 1 - tails[1])
        return row

    @property
    def epsilon(self) -> float:
        """Largest log-ratio of the probabilities of one release given two coordinates [nats]."""
        low, high = self.row(0), self.row(self.steps)
        return max(abs(math.log(one / other)) for one, other in zip(low, high, strict=True))


def grid_laplace(epsilon: Epsilon) -> GridLaplace:
    """Return the channel of one coordinate.

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
        If epsilon is infinite or above 20.
    """
    asked = as_float(epsilon)
    if not asked <= LARGEST_EPSILON:
        raise InputError(f"epsilon {asked:g} of one coordinate is above {LARGEST_EPSILON}; lower it, or use exact")
    steps = max(STEPS, math.ceil(STEPS * asked))
    rate = asked * (1 - _SLACK) / steps
    beyond = min(math.ceil(max(22 - asked, 4) / rate), FARTHEST)
    sizes = np.arange(beyond + steps, 0, -1)
    tails = 2.0 / (1.0 + math.exp(-rate)) * np.exp(-rate * sizes)
    return GridLaplace(steps, beyond, (tails * float(_HALF)).astype(np.uint64))
