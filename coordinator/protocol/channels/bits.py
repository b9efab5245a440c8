"""Randomized response on one bit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels.channel import COIN, LogRatio, share_of_coins


@dataclass(frozen=True, slots=True)
class BitChannel:
    """Randomized response on one bit: flip it when the device's 64-bit coin is below ``flips``.

    Source: Banerjee, Hegde, Massoulié, Proposition 4 [2.4]; Warner (1965).

    Attributes
    ----------
    flips : int
        Number of the 2**64 coins that flip the bit, ``2**64 / (1 + e**epsilon)`` rounded up: towards more noise.
    """

    flips: int

    @property
    def flip_probability(self) -> Fraction:
        """Probability that the bit is flipped, exact."""
        return Fraction(self.flips, COIN)

    @property
    def contrast(self) -> float:
        """``P(S = 1 | S0 = 1) - P(S = 1 | S0 = 0)``: tanh(epsilon / 2)."""
        return float(1 - 2 * self.flip_probability)

    @property
    def matrix(self) -> list[list[Fraction]]:
        """Channel matrix ``[private bit][released bit]``, exact; rows sum to 1."""
        flip = self.flip_probability
        return [[1 - flip, flip], [flip, 1 - flip]]

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of the matrix's columns, exact: what the channel really gives away."""
        return LogRatio.of(Fraction(COIN - self.flips, self.flips) if self.flips else None)

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        return float(self.log_ratio)

    @property
    def threshold(self) -> np.uint64:
        """`flips` as the word that a coin is held against."""
        return np.uint64(self.flips)


def bit_channel(epsilon: Epsilon) -> BitChannel:
    """Return the epsilon-differentially private channel of one bit.

    Parameters
    ----------
    epsilon : Fraction or None
        Privacy parameter of this bit in nats; None for no noise.

    Returns
    -------
    BitChannel
        Its epsilon is at most the one asked for, and less than it by no more than one coin of 2**64 makes: below a
        millionth of it from 1e-12 on. What is too small for one coin gets the fair coin, epsilon 0.

    Raises
    ------
    InputError
        If epsilon is finite and above `LARGEST_EPSILON`: 64-bit coins cannot express it.

    Examples
    --------
    >>> round(bit_channel(Fraction(1)).epsilon, 12)
    1.0
    """
    return BitChannel(share_of_coins(epsilon, kept=1, others=1))
