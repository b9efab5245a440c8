"""PrivUnitG as an exact channel: a unit vector becomes a Gaussian one that leans towards it.

Source: Asi, Feldman and Talwar (2022), after Bhowmick et al. (2018). A Gaussian vector's component along the private
unit vector is taken from its upper quantiles (the cap) with some probability, and from the lower ones otherwise. Given
the private vector, the density of a release is that of the Gaussian times one of two numbers, so epsilon is exact.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import optimize, special

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import COIN, LARGEST_EPSILON
from coordinator.protocol.errors import InputError


@dataclass(frozen=True, slots=True)
class CapChannel:
    """PrivUnitG in ``dimension`` dimensions.

    Attributes
    ----------
    dimension : int
        d.
    below : float
        Quantile q at which the cap starts: a Gaussian's component lies in the cap with probability 1 - q.
    misses : int
        Number of the 2**64 coins that take the component from outside of the cap, rounded up: towards more noise.
    """

    dimension: int
    below: float
    misses: int

    @property
    def densities(self) -> tuple[Fraction, Fraction]:
        """Density of a release in the cap, and outside of it, over that of the Gaussian; exact."""
        miss, below = Fraction(self.misses, COIN), Fraction(self.below)
        return (1 - miss) / (1 - below), miss / below

    @property
    def epsilon(self) -> float:
        """Largest log-ratio of the densities of one release given two private vectors [nats]."""
        inside, outside = self.densities
        return math.log(inside / outside)

    @property
    def threshold(self) -> np.uint64:
        """`misses` as the word that a coin is held against."""
        return np.uint64(self.misses)

    @property
    def length(self) -> float:
        """Mean component along the private vector, of a Gaussian with unit variance; the release is divided by it."""
        inside, outside = (float(one) for one in self.densities)
        return _density(float(special.ndtri(self.below))) * (inside - outside)

    @property
    def second_moment(self) -> float:
        """``E |Z|^2`` of the unbiased release Z of a unit vector."""
        inside, outside = (float(one) for one in self.densities)
        start = float(special.ndtri(self.below))
        along = inside * (1 - self.below) + outside * self.below + start * _density(start) * (inside - outside)
        return (along + self.dimension - 1) / self.length**2


def _density(at: float) -> float:
    return math.exp(-at * at / 2) / math.sqrt(2 * math.pi)


def _channel(epsilon: float, dimension: int, below: float) -> CapChannel:
    """Return the channel of epsilon whose cap starts at a quantile."""
    odds = math.exp(epsilon) * (1 - below) / below
    return CapChannel(dimension, below, math.ceil(COIN / (1 + Fraction(odds))))


@functools.cache
def cap_channel(epsilon: Epsilon, dimension: int) -> CapChannel:
    """Return the epsilon-differentially private channel of a unit vector with the least second moment.

    Parameters
    ----------
    epsilon : Fraction or None
        Privacy parameter of the whole vector [nats].
    dimension : int
        d, at least 1.

    Returns
    -------
    CapChannel
        Its epsilon is at most the one asked for, and within a millionth of it.

    Raises
    ------
    InputError
        If epsilon is infinite or above 30.

    Examples
    --------
    >>> channel = cap_channel(Fraction(5), 55)
    >>> round(channel.epsilon, 6), round(channel.second_moment / 55, 2)
    (5.0, 0.31)
    """
    asked = as_float(epsilon)
    if not asked <= LARGEST_EPSILON:
        raise InputError(f"epsilon {asked:g} of one vector is above {LARGEST_EPSILON}; lower it, or use exact")
    told = asked * (1 - 2.0**-40)  # the odds are rounded floats

    def noise(start: float) -> float:
        return _channel(told, dimension, float(special.ndtr(start))).second_moment

    grid = np.linspace(-1.0, 8.0, 181)
    best = int(np.argmin([noise(start) for start in grid]))
    found = optimize.minimize_scalar(
        noise, bounds=(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]), method="bounded"
    )
    return _channel(told, dimension, float(special.ndtr(found.x)))
