"""Unary encoding of one value: a bit for every value, of which the device's own is 1 before bits are randomized."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels.channel import COIN, LARGEST_EPSILON, MOST_TOLD, LogRatio, odds_within
from coordinator.protocol.channels.independent import IndependentBits, independent_bits
from coordinator.protocol.errors import InputError


@dataclass(frozen=True, slots=True)
class UnaryChannel:
    """Optimized unary encoding: `IndependentBits` with one 1, told by where it stands. See `unary_channel`.

    Attributes
    ----------
    encoded : IndependentBits
        The channel of the bits.
    """

    encoded: IndependentBits

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two values' probabilities of one release, exact: what the channel really gives away."""
        return self.encoded.log_ratio

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        return float(self.log_ratio)

    @property
    def rates(self) -> tuple[Fraction, Fraction]:
        """Probability that the bit of the device's own value is released as 1, and that of another one, exact."""
        return Fraction(self.encoded.if_one, COIN), Fraction(self.encoded.if_zero, COIN)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release; see `Channel.chances`. ``private`` holds one value.

        Raises
        ------
        InputError
            If there are too many releases to enumerate.
        """
        count, value = self.encoded.count, int(np.ravel(private)[0])
        if 1 << min(count, 64) > MOST_TOLD:
            raise InputError(f"{count} bits have more than {MOST_TOLD} releases; look at fewer values")
        one, zero = self.rates
        others = [zero**ones * (1 - zero) ** (count - 1 - ones) for ones in range(count)]
        own = 1 << (count - 1 - value)
        return [(one if told & own else 1 - one) * others[(told & ~own).bit_count()] for told in range(1 << count)]


@lru_cache(maxsize=64)
def unary_channel(epsilon: Epsilon, *, values: int) -> UnaryChannel:
    """Return the epsilon-differentially private channel of one of ``values`` values.

    The bit of the device's own value is a fair coin; another one is 1 with probability ``1 / (e**epsilon + 1)``.
    Source: Wang, Blocki, Li and Jha (2017), section 4.2.

    Parameters
    ----------
    epsilon : Fraction or None
        Privacy parameter of the whole answer in nats; None: no other value's bit is 1.
    values : int
        Number of values K.

    Raises
    ------
    InputError
        If the coins cannot express epsilon.

    Examples
    --------
    >>> channel = unary_channel(Fraction(1), values=1000)
    >>> round(channel.epsilon, 12), [round(float(rate), 5) for rate in channel.rates]
    (1.0, [0.5, 0.26894])
    """
    odds = None if epsilon is None else odds_within(min(epsilon, Fraction(LARGEST_EPSILON)))
    zero = Fraction(0) if odds is None else 1 / (odds + 1)
    return UnaryChannel(independent_bits(count=values, if_one=Fraction(1, 2), if_zero=zero, epsilon=epsilon, ones=1))
