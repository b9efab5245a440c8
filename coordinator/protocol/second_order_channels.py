"""Exact channels of two-tier rivals: PrivUnit's caps over public candidates, moments, and Laplace noise on a grid."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import LARGEST_EPSILON, SMALLEST_EPSILON, ExactChannel, LogRatio, odds_within
from coordinator.protocol.coins import significant
from coordinator.protocol.errors import InputError
from coordinator.protocol.value_channels import ChoiceChannel, choice_channel

if TYPE_CHECKING:
    from coordinator.protocol.features import ItemFeatures


FEWEST, MOST = 5, 13
"""There are 2 to the power ``FEWEST + ceil(3 epsilon / 4)`` vectors, `MOST` at most in the exponent."""
_ANGLES = 4096
_WIDE = 5050  # Dimensions up to which the angles of the table span a right angle
_BITS = 30  # Significant bits of a length: its last ones differ between processors


@dataclass(frozen=True, slots=True)
class CapChannel(ExactChannel):
    """PrivUnit over public candidates in ``dimension`` dimensions."""

    dimension: int  # d
    choice: ChoiceChannel  # Of the vectors and their opposites, ranked by how near they are to the private vector
    length: float  # Mean component of the named vector, whose length is 1, along the private one; it is divided by this

    @property
    def vectors(self) -> int:
        """Number of public vectors m; with their opposites there are 2 m answers."""
        return self.choice.choices // 2

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two private vectors' probabilities of one answer, exact."""
        return self.choice.log_ratio

    @property
    def second_moment(self) -> float:
        """``E |Z|^2`` of the unbiased release Z of a unit vector; ``|Z|`` is always the same."""
        return 1 / self.length**2


@functools.cache
def cap_channel(epsilon: Epsilon, dimension: int) -> CapChannel:
    """Return the epsilon-differentially private channel of a unit vector with the least second moment.

    >>> from fractions import Fraction
    >>> channel = cap_channel(Fraction(5), 55)
    >>> channel.vectors, channel.choice.best_count, round(channel.second_moment / 55, 2)
    (512, 34, 0.3)
    """
    nats = as_float(epsilon)
    if epsilon is None or epsilon > LARGEST_EPSILON:
        raise InputError(f"epsilon {nats:g} of one vector is above {LARGEST_EPSILON}; lower it, or use exact")
    if epsilon < SMALLEST_EPSILON:
        raise InputError(f"epsilon {nats:g} of one vector is below {float(SMALLEST_EPSILON):g}; raise it")
    vectors = 1 << min(FEWEST + math.ceil(epsilon * 3 / 4), MOST)
    nearest = _nearest(dimension, vectors)

    def length(best_count: int) -> float:
        return choice_channel(epsilon, choices=2 * vectors, best_count=best_count).contrast * nearest(best_count)

    low, high = 1, vectors
    while low < high:  # the length rises up to the best number, and falls from there on
        middle = (low + high) // 2
        low, high = (middle + 1, high) if length(middle) < length(middle + 1) else (low, middle)
    return CapChannel(
        dimension, choice_channel(epsilon, choices=2 * vectors, best_count=low), significant(length(low), _BITS)
    )


def _nearest(dimension: int, vectors: int) -> Callable[[int], float]:
    """Return the expected sum of the s largest of m sizes of cosines, as a function of s, 1 to m."""
    # A cosine is that of a fixed direction with a uniform one in d dimensions; the s largest hold one at an angle if at
    # most s - 1 of the m - 1 others lie nearer. The sum is an integral over angles. Most of them are almost right,
    # within about ``d^(-1/2)``: in many dimensions the table spans the last ones only, and all others have no mass in a
    # float.
    if dimension == 1:
        return float
    step = np.pi / 2 / _ANGLES * min(1.0, math.sqrt(_WIDE / dimension))
    angles = (np.arange(_ANGLES) + 0.5) * step + (np.pi / 2 - _ANGLES * step)
    cosines, log_sines = np.cos(angles), np.log(np.sin(angles))
    scale = math.lgamma(dimension / 2) - math.lgamma((dimension - 1) / 2) - math.log(math.pi) / 2
    mass = 2 * np.exp(scale + (dimension - 2) * log_sines) * cosines * step
    from scipy import special  # noqa: PLC0415 (settings load no scipy)

    below = special.betainc(0.5, (dimension - 1) / 2, cosines**2)

    def total(best_count: int) -> float:
        among = special.betainc(vectors - best_count, best_count, below) if best_count < vectors else 1.0
        return float(vectors * (mass * among).sum())

    return total


LARGEST_GRID_EPSILON = 20  # Above it the far tail of the noise would have too few of the 64-bit coins
SMALLEST_GRID_EPSILON = Fraction(1, 1000)
"""Below it the noise would reach beyond `FARTHEST`, and most releases would be clipped."""
STEPS = 64  # Steps of the grid over the range of ratings, and over the noise's scale, at least
FARTHEST = 1 << 20  # Most steps that a release lies outside of the range
_HALF = 1 << 63
_ODDS_UNIT = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class GridLaplace(ExactChannel):
    """Two-sided geometric noise on a grid, ``P(n)`` proportional to ``exp(-epsilon |n| / steps)`` up to coins."""

    steps: int  # Steps of the grid over the range of ratings: a coordinate is 0 to ``steps``
    beyond: int  # Releases are ``-beyond`` to ``steps + beyond``
    # shape (beyond + steps,); Of the 2**63 coins those for which the noise's size is at least ``beyond + steps, ..., 2,
    # 1``; ascending
    at_least: Words = field(repr=False)

    def row(self, step: int) -> list[Fraction]:
        """Return the exact probabilities of all releases, ``-beyond`` to ``steps + beyond``, given the coordinate."""
        return [Fraction(int(coins), 2 * _HALF) for coins in self._coins(step)]

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of the probabilities of one release given two coordinates, exact."""
        most = least = 1
        for pair in zip(*(self._coins(step).tolist() for step in (0, self.steps)), strict=True):
            if max(pair) * least > most * min(pair):
                most, least = max(pair), min(pair)
        return LogRatio.of(Fraction(most, least))

    def _coins(self, step: int) -> Words:
        """Return how many of 2**64 coins make every release, in the order of `row`."""
        tails = self.at_least[::-1]  # of noise at least 1, 2, ...
        sizes = np.append(tails[:1], tails)
        sizes[0] = 2 * (_HALF - int(tails[0]))
        sizes[1:-1] -= tails[1:]
        row: Words = sizes[np.abs(np.arange(-self.beyond, self.steps + self.beyond + 1) - step)]
        row[0], row[-1] = tails[self.beyond + step - 1], tails[self.beyond + self.steps - step - 1]
        return row


@functools.lru_cache(maxsize=16)
def grid_laplace(epsilon: Epsilon) -> GridLaplace:
    """Return the channel of one coordinate."""
    # Noise that is ``steps`` larger gets its coins by division by ``e**epsilon``, rounded up; so no rounding, however
    # small epsilon is, makes two releases' odds exceed it.
    if epsilon is None or epsilon > LARGEST_GRID_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one coordinate is above {LARGEST_GRID_EPSILON}; lower it, or use exact"
        )
    if epsilon < SMALLEST_GRID_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one coordinate is below {as_float(SMALLEST_GRID_EPSILON):g}, where "
            "noise would reach beyond the grid; raise it, or use sslp or privunit"
        )
    steps = max(STEPS, math.ceil(STEPS * epsilon))
    beyond = min(math.ceil(max(22 - epsilon, Fraction(4)) * steps / epsilon), FARTHEST)
    sizes = _coins_of_sizes(math.floor(odds_within(epsilon) * _ODDS_UNIT), steps, beyond)
    return GridLaplace(steps, beyond, np.cumsum(np.array(sizes[::-1], np.uint64)))


def _coins_of_sizes(odds: int, steps: int, beyond: int) -> list[int]:
    """Return how many of 2**63 coins make noise of size 1, 2, ..., and at last of at least ``beyond + steps``."""
    with localcontext() as context:
        context.prec = 60
        fall = (-(Decimal(odds) / _ODDS_UNIT).ln() / steps).exp() * (1 + Decimal("1e-55"))
        sizes = [math.ceil(2 * _HALF * (1 - fall) / (1 + fall) * fall**size) for size in range(1, steps + 1)]
    for size in range(steps, beyond + steps - 1):
        sizes.append(-(-sizes[size - steps] * _ODDS_UNIT // odds))
    last = sum(sizes[beyond - 1 :])
    return [*sizes, -(-last * _ODDS_UNIT // (odds - _ODDS_UNIT))]


def basis_of(features: ItemFeatures) -> Floats2:
    """Return the model's own directions: V's columns, which are orthogonal, at length 1, shape (m, r); 0 stays 0."""
    lengths = np.sqrt(np.square(features.vectors).sum(axis=0))
    return features.vectors / np.where(lengths > 0, lengths, 1.0)


def pack_moment(moment: Floats2) -> Floats:
    """Return the lower triangle of a symmetric matrix with its inner product: off the diagonal times sqrt(2)."""
    rows, columns = np.tril_indices(moment.shape[0])
    return moment[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2))


def unpack_moment(packed: Floats, rank: int) -> Floats2:
    """Return the symmetric matrix behind `pack_moment`, shape (r, r)."""
    rows, columns = np.tril_indices(rank)
    moment = np.zeros((rank, rank))
    moment[rows, columns] = packed / np.where(rows == columns, 1.0, math.sqrt(2))
    moment[columns, rows] = moment[rows, columns]
    return moment
