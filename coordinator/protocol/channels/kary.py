"""k-ary randomized response: a value is told as it is, or, less often, any of the others, all of these alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Bits2, Indices2, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels.channel import COIN, LARGEST_EPSILON, MOST_TOLD, CoinOf, LogRatio, odds_within
from coordinator.protocol.checked import require_whole
from coordinator.protocol.errors import InputError

MOST_VALUES = 1 << 31
"""Values that are told apart at most."""


@dataclass(frozen=True, slots=True)
class KaryChannel:
    """One of ``values`` values becomes one of them, by one coin and in closed form: there is no matrix.

    Source: Warner (1965); Kairouz, Bonawitz and Ramage (2016), k-ary randomized response.

    Attributes
    ----------
    values : int
        Number of values k, private and released.
    other : int
        Number of the 2**64 coins that tell one other value, rounded up: towards more noise.
    """

    values: int
    other: int

    def __post_init__(self) -> None:
        """Refuse what is no channel."""
        require_whole("values of a channel", self.values, 2, MOST_VALUES)
        require_whole("coins of another value", self.other, 0, COIN // self.values)

    @property
    def own(self) -> int:
        """Number of the 2**64 coins that tell the value itself."""
        return COIN - (self.values - 1) * self.other

    @property
    def bits(self) -> int:
        """Number of bits that name a value."""
        return (self.values - 1).bit_length()

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two values' probabilities of one release, exact."""
        return LogRatio.of(Fraction(self.own, self.other) if self.other else None)

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        return float(self.log_ratio)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release; see `Channel.chances`. ``private`` holds one number.

        Raises
        ------
        InputError
            If there are too many releases to enumerate.
        """
        if self.values > MOST_TOLD:
            raise InputError(f"{self.values} values are more than {MOST_TOLD} releases; look at fewer values")
        own, other = Fraction(self.own, COIN), Fraction(self.other, COIN)
        return [own if value == int(np.ravel(private)[0]) else other for value in range(self.values)]

    def draw(self, private: Bits2 | Indices2, coin: CoinOf) -> Bits2:
        """Return the released bits of a block of devices, whose private values are whole numbers below ``values``.

        Raises
        ------
        InputError
            If a value is none; the line tells nothing of it.
        """
        from coordinator.protocol.channels.kary_kernels import tell  # noqa: PLC0415 (compiled)

        value = np.ascontiguousarray(private.reshape(len(private)), np.int32)
        if value.size and not 0 <= value.min() <= value.max() < self.values:
            raise InputError(f"a sketch is no whole number from 0 to {self.values - 1}, the channel's private values")
        told = np.empty((value.size, self.bits), np.uint8)
        tell(value, coin(0), np.uint64(self.other), self.values, told)
        return told


def kary_channel(epsilon: Epsilon, *, values: int) -> KaryChannel:
    """Return the epsilon-differentially private channel of one of ``values`` values.

    Parameters
    ----------
    epsilon : Fraction or None
        Privacy parameter in nats; None for no noise.
    values : int
        Number of values k, at least 2.

    Raises
    ------
    InputError
        If 64-bit coins cannot express epsilon among so many values.

    Examples
    --------
    >>> channel = kary_channel(Fraction(1), values=4)
    >>> round(channel.epsilon, 9), round(channel.own / channel.other, 6)
    (1.0, 2.718282)
    """
    if epsilon is None:
        return KaryChannel(values, 0)
    if epsilon > LARGEST_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one answer is above {LARGEST_EPSILON}, more than a 64-bit coin can "
            "express; lower it, or say inf for no noise"
        )
    other = math.ceil(COIN / (odds_within(epsilon) + values - 1))
    if values * other > COIN:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one of {values} values is less than 64-bit coins can express; raise it, "
            "or ask about fewer items"
        )
    return KaryChannel(values, other)
