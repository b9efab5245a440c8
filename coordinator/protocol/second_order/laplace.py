"""Laplace noise on every coordinate of the completed vector, in whole steps of a grid."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.arrays import Bits2, Floats2, Indices2, Words, Words2
from coordinator.protocol.budget import REPLACE, Epsilon, as_float
from coordinator.protocol.channels import ExactChannel, LogRatio, odds_within
from coordinator.protocol.compiled import compiled, uint64
from coordinator.protocol.errors import InputError
from coordinator.protocol.second_order import A_COORDINATE, Coins, SecondOrderQuery, as_bytes
from coordinator.protocol.second_order.exact import Numbers

if TYPE_CHECKING:
    from coordinator.protocol.features import ItemFeatures

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


def noisy_places(shares: Floats2, channel: GridLaplace, coins: Coins) -> Indices2:
    """Return coordinates with Laplace noise, as steps of the channel's grid.

    Shapes: ``shares`` (devices, m).
    """
    return _add_noise(shares, channel.steps, channel.beyond, channel.at_least, coins.places(shares.shape[1]))


@compiled
def _add_noise(shares: Floats2, steps: int, beyond: int, at_least: Words, coins: Words2) -> Indices2:
    sign_bit, places = uint64(1) << uint64(63), np.empty(shares.shape, np.int32)
    for k in range(shares.shape[0]):
        for item in range(shares.shape[1]):
            share = shares[k, item]
            grid_step = round(min(share, 1.0) * steps) if share > 0.0 else 0  # 0 if it is not a number, too
            coin = coins[k, item]
            size = at_least.size - np.searchsorted(at_least, coin & (sign_bit - uint64(1)), side="right")
            noisy = grid_step + (size if coin >= sign_bit else -size)
            places[k, item] = min(max(noisy, -beyond), steps + beyond)
    return places


class Laplace(Numbers):
    """Releases the clipped completed vector with noise on every coordinate; see `grid_laplace`."""

    name, order = "laplace", 40
    guarantee = "epsilon for one coordinate of the completed vector, m times epsilon for the whole; none a rating"
    neighbours = REPLACE
    takes_epsilon, epsilon_of = True, A_COORDINATE
    smallest, largest = SMALLEST_GRID_EPSILON, LARGEST_GRID_EPSILON
    needs_range = True
    swept, attacked = ("5", "1"), ("5", "1")

    def channel(self, query: SecondOrderQuery, features: ItemFeatures) -> GridLaplace:
        return grid_laplace(query.epsilon)

    def randomize(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> Bits2:
        channel, width = grid_laplace(query.epsilon), features.highest - features.lowest
        shares = (vectors + (features.mean - features.lowest)) / width
        noise: Floats2 = noisy_places(shares, channel, coins) * np.float64(width / channel.steps)
        return as_bytes(features.lowest + noise)


MECHANISMS = (Laplace(),)
