"""Channels of a few private values and releases: a matrix of probabilities, or a likelihood given public coins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from coordinator.protocol.arrays import Bits2, Indices2, Ints, Words
from coordinator.protocol.budget import Epsilon, as_float, require_epsilon
from coordinator.protocol.channels.channel import (
    COIN,
    DUST,
    MOST_RELEASES,
    CoinOf,
    LogRatio,
    mended,
    require_probabilities,
)
from coordinator.protocol.checked import require_whole, shown
from coordinator.protocol.errors import InputError

_SCALE = 256
"""Stated probabilities are held in units of two to minus this, far below one coin."""


@dataclass(frozen=True, slots=True)
class MatrixChannel:
    """One of a few private values becomes one of a few releases, by one coin.

    Attributes
    ----------
    rows : tuple of tuples of int
        Number of the 2**64 coins of every release, a row for each private value; each row sums to 2**64.
    """

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        """Refuse what is no channel."""
        if type(self.rows) is not tuple or any(type(row) is not tuple for row in self.rows):
            raise InputError("a channel's rows are no tuple of tuples; give that, or see matrix_channel")
        if not self.rows or not self.rows[0] or len({len(row) for row in self.rows}) > 1:
            raise InputError("a channel's rows are missing or of several lengths; give one a private value")
        if any(type(coins) is not int for row in self.rows for coins in row):
            raise InputError("a channel's row holds something else than whole coins; give int, or see matrix_channel")
        if any(min(row) < 0 or sum(row) != COIN for row in self.rows):
            raise InputError("a channel's row is no probability distribution in 2**64 coins; let each sum to 2**64")

    @property
    def bits(self) -> int:
        """Number of bits that name a release."""
        return max(1, (len(self.rows[0]) - 1).bit_length())

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two private values' probabilities of one release, exact."""
        return LogRatio.of(_largest_ratio(self.rows))

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        return float(self.log_ratio)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release; see `Channel.chances`. ``private`` holds one number."""
        return [Fraction(coins, COIN) for coins in self.rows[int(np.ravel(private)[0])]]

    def draw(self, private: Bits2 | Indices2, coin: CoinOf) -> Bits2:
        """Return the released bits of a block of devices, whose private values are numbers of rows.

        Raises
        ------
        InputError
            If a value is no row's number; the line tells nothing of it.
        """
        value = np.asarray(private).reshape(len(private)).astype(np.int64)
        if value.size and not 0 <= value.min() <= value.max() < len(self.rows):
            raise InputError(
                f"a sketch is no whole number from 0 to {len(self.rows) - 1}, the channel's private values"
            )
        coins, outputs = coin(0), np.empty(value.size, np.int64)
        order = np.argsort(value, kind="stable")
        ends = np.searchsorted(value[order], np.arange(len(self.rows) + 1))
        for row, (first, stop) in enumerate(pairwise(ends)):
            if first < stop:
                thresholds = np.array([mark for mark in accumulate(self.rows[row]) if mark < COIN], np.uint64)
                members = order[first:stop]
                outputs[members] = np.searchsorted(thresholds, coins[members], side="right")
        return ((outputs[:, None] >> np.arange(self.bits)[::-1]) & 1).astype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """A channel that its author states as a likelihood, given a device's public coins, with the author's own sampler.

    Its epsilon is claimed, not checked, but where `matrix` holds it against an enumeration.

    Attributes
    ----------
    claimed : Fraction or None
        Epsilon that the author claims [nats].
    bits : int
        Number of released bits.
    likelihood : callable
        From one device's private sketch and its public stream to the probability of every release, in the order of
        `Channel.chances`, floats or Fractions.
    sampler : callable
        From private sketches of a block of devices, their public streams, and their coins to the released bits.
    """

    claimed: Epsilon
    bits: int
    likelihood: Callable[[Ints, np.uint64], Sequence[float | Fraction]]
    sampler: Callable[[Bits2 | Indices2, Words, CoinOf], Bits2]

    def __post_init__(self) -> None:
        """Refuse what is no channel."""
        object.__setattr__(self, "claimed", require_epsilon(self.claimed, "what a likelihood claims"))
        require_whole("bits of a likelihood", self.bits, 1, 64)
        if not all(callable(function) for function in (self.likelihood, self.sampler)):
            raise InputError("a likelihood or its sampler cannot be called; give two functions")

    @property
    def epsilon(self) -> float:
        """What the author claims [nats]."""
        return as_float(self.claimed)

    def chances(self, private: Ints, public: np.uint64) -> list[Fraction]:
        """Return the probability of every release of a device with this public stream; they sum to 1.

        Raises
        ------
        InputError
            If they are no probabilities.
        """
        return list(_exact(self.likelihood(private, public)))

    def matrix(self, privates: Sequence[Ints], public: np.uint64) -> MatrixChannel:
        """Return the exact channel among some private sketches, given one public stream: within the claim.

        Raises
        ------
        InputError
            If it exceeds the claim; see `matrix_channel`.
        """
        return matrix_channel([self.chances(private, public) for private in privates], self.claimed)

    def draw(self, private: Bits2 | Indices2, public: Words, coin: CoinOf) -> Bits2:
        """Return the released bits of a block of devices with these public streams, as the author draws them."""
        return self.sampler(private, public, coin)


def matrix_channel(rows: Sequence[Sequence[float | Fraction]], epsilon: Epsilon) -> MatrixChannel:
    """Return the channel of stated probabilities in whole coins, rounded towards more noise: within epsilon, exactly.

    Parameters
    ----------
    rows : sequence of sequences of float or Fraction
        Probabilities of every release, a row for each private value; each sums to 1, but for floats' dust.
    epsilon : Fraction or None
        What the channel claims [nats]; None for no claim.

    Raises
    ------
    InputError
        If a row is no distribution, two rows tell more than epsilon by more than floats' dust, or coins cannot
        express it.

    Examples
    --------
    >>> channel = matrix_channel([[0.75, 0.25], [0.25, 0.75]], Fraction(11, 10))
    >>> round(channel.epsilon, 6)
    1.098612
    """
    try:
        stated = tuple(tuple(row) for row in rows)
    except TypeError:
        raise InputError(f"a channel's rows are {shown(rows)}; give a row of probabilities a private value") from None
    for row in stated:
        require_probabilities(row)
    return _matrix_channel(stated, epsilon)


@lru_cache(maxsize=32)
def _matrix_channel(rows: tuple[tuple[float | Fraction, ...], ...], epsilon: Epsilon) -> MatrixChannel:
    if not rows or len({len(row) for row in rows}) > 1:
        raise InputError("a channel's rows are missing or of several lengths; give one a private value")
    stated = tuple(_scaled(row) for row in rows)
    mean = _whole([sum(column) // len(stated) for column in zip(*stated, strict=True)])

    def make(share: Fraction) -> MatrixChannel:
        power = share.denominator.bit_length() - 1
        mixed = ([(p << power) + share.numerator * (m - p) for p, m in zip(row, mean, strict=True)] for row in stated)
        return MatrixChannel(tuple(_in_coins(row, _SCALE + power) for row in mixed))

    return mended(make, lambda channel: channel.log_ratio, LogRatio.of(_largest_ratio(stated)), epsilon)


def _exact(row: Sequence[float | Fraction]) -> tuple[Fraction, ...]:
    """Return probabilities that sum to 1, where they do so but for floats' dust."""
    require_probabilities(row)
    if not 1 <= len(row) <= MOST_RELEASES:
        raise InputError(f"a channel has {len(row)} releases; give 1 to {MOST_RELEASES}")
    if not all(0 <= p <= 1 + DUST for p in row) or abs(math.fsum(row) - 1) > DUST:
        raise InputError(f"probabilities of a channel's row sum to {math.fsum(row):.12g}; give some from 0 on, sum 1")
    exact = [Fraction(p) for p in row]
    total = sum(exact, Fraction(0))
    return tuple(p / total for p in exact)


def _scaled(row: Sequence[float | Fraction]) -> list[int]:
    """Return probabilities in whole units of 2**-_SCALE, which sum to 1."""
    return _whole([math.floor(p * (1 << _SCALE)) for p in _exact(row)])


def _whole(units: list[int]) -> list[int]:
    """Return units of 2**-_SCALE that sum to 1: the largest takes what flooring left."""
    units[units.index(max(units))] += (1 << _SCALE) - sum(units)
    return units


def _in_coins(row: Sequence[int], scale: int) -> tuple[int, ...]:
    """Return units of 2**-scale as whole coins that sum to 2**64, each within one; the largest remainders go up."""
    shift = scale - 64
    coins = [units >> shift for units in row]
    order = sorted(range(len(row)), key=lambda place: (coins[place] << shift) - row[place])
    for place in order[: COIN - sum(coins)]:
        coins[place] += 1
    return tuple(coins)


def _largest_ratio(rows: Sequence[Sequence[int]]) -> Fraction | None:
    largest = Fraction(1)
    for column in zip(*rows, strict=True):
        most, least = max(column), min(column)
        if most and not least:
            return None
        if most and most * largest.denominator > largest.numerator * least:
            largest = Fraction(most, least)
    return largest
