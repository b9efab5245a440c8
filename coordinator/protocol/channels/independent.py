"""Independent bits, each through a channel and a coin of its own; and unary encoding, a bit for every value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import index

import numpy as np

from coordinator.protocol.arrays import Bits2, Indices2, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels.channel import (
    COIN,
    LARGEST_EPSILON,
    MOST_RELEASES,
    CoinOf,
    LogRatio,
    bit_channel,
    mended,
    odds_within,
    require_probabilities,
)
from coordinator.protocol.checked import shown
from coordinator.protocol.errors import InputError


@dataclass(frozen=True, slots=True)
class IndependentBits:
    """Every bit is released as 1 with one of two probabilities, by its private value: flips, or unary encoding.

    Source: Wang, Blocki, Li and Jha (2017), section 4.2, where ``count`` bits hold at most one 1.

    Attributes
    ----------
    count : int
        Number of bits.
    if_one, if_zero : int
        Number of the 2**64 coins that release 1, of a private 1 and of a private 0; the second is not above the first.
    ones : int or None
        A private sketch has at most so many ones; None: any number.
    """

    count: int
    if_one: int
    if_zero: int
    ones: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no channel, or tells the opposite."""
        counted = self.count, self.if_one, self.if_zero, 1 if self.ones is None else self.ones
        if any(type(number) is not int for number in counted):
            description = ", ".join(shown(number) for number in counted)
            raise InputError(
                f"bits, coins of a 1, coins of a 0 and most ones are {description}; give int, whole numbers"
            )
        if self.count < 1 or (self.ones is not None and self.ones < 1):
            raise InputError(f"{self.count} bits with at most {self.ones} ones are no sketch; give at least 1 of each")
        if not 0 <= self.if_zero <= self.if_one <= COIN or self.if_zero == COIN or self.if_one == 0:
            description = f"{self.if_one / COIN:g} of a private 1 and {self.if_zero / COIN:g} of a private 0"
            raise InputError(
                f"probabilities to release 1 are {description}; give some from 0 to 1, the first not below"
            )

    @property
    def bits(self) -> int:
        """Number of released bits."""
        return self.count

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two sketches' probabilities of one release, exact."""
        return worst_of_bits(self.count, Fraction(self.if_one, COIN), Fraction(self.if_zero, COIN), self.ones)

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        return float(self.log_ratio)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release; see `Channel.chances`.

        Raises
        ------
        InputError
            If there are too many releases to enumerate.
        """
        if 1 << min(self.count, 64) > MOST_RELEASES:
            raise InputError(f"{self.count} bits have more than {MOST_RELEASES} releases; look at fewer bits")
        coins = [1]
        for _, bit in zip(range(self.count), private, strict=True):
            on = self.if_one if bit else self.if_zero
            coins = [before * coin for before in coins for coin in (COIN - on, on)]
        return [Fraction(number, COIN**self.count) for number in coins]

    def draw(self, private: Bits2 | Indices2, coin: CoinOf) -> Bits2:
        """Return the released bits of a block of devices; ``private`` is used up. See `Sampled.draw`.

        Raises
        ------
        InputError
            If the sketches are none of this channel; the line tells nothing of them.
        """
        bits = private if private.dtype == np.uint8 else private.astype(np.uint8)
        if bits.ndim != 2 or bits.shape[1] != self.count or (bits.size and bits.max() > 1):
            raise InputError(f"sketches are no {self.count} bits each; give uint8 of 0 and 1, shape (devices, bits)")
        if self.ones is not None and bits.size and bits.sum(axis=1, dtype=np.int64).max() > self.ones:
            raise InputError(f"a sketch has more than {self.ones} ones, which the channel's epsilon does not cover")
        off, on = np.uint64(COIN - self.if_one), np.uint64(self.if_zero)
        if off or on:
            for question in range(self.count):
                column = bits[:, question]
                column ^= coin(question) < (on if off == on else np.where(column == 1, off, on))
        return bits.view(np.uint8)


def flipped_bits(count: int, epsilon: Epsilon) -> IndependentBits:
    """Return randomized response on each of ``count`` bits, each under ``epsilon``; together ``count`` times that.

    Raises
    ------
    InputError
        As `bit_channel`.
    """
    flips = bit_channel(epsilon).flips
    return IndependentBits(count, COIN - flips, flips)


def independent_bits(
    *, count: int, if_one: float | Fraction, if_zero: float | Fraction, epsilon: Epsilon, ones: int | None = None
) -> IndependentBits:
    """Return the channel of stated probabilities in whole coins, rounded towards more noise: within epsilon, exactly.

    Parameters
    ----------
    count : int
        Number of bits.
    if_one, if_zero : float or Fraction
        Probability that a private 1, and a private 0, is released as 1.
    epsilon : Fraction or None
        What the whole answer claims [nats]; None for no claim.
    ones : int or None
        A private sketch has at most so many ones; None: any number.

    Raises
    ------
    InputError
        If the probabilities are none, tell more than epsilon by more than floats' dust, or coins cannot express it.

    Examples
    --------
    >>> from math import e
    >>> oue = independent_bits(count=9, if_one=1 / 2, if_zero=1 / (e + 1), epsilon=Fraction(1), ones=1)
    >>> 1 - 1e-9 < oue.epsilon <= 1
    True
    """
    require_probabilities((if_one, if_zero))
    try:
        count, ones = index(count), None if ones is None else index(ones)
    except TypeError:
        description = f"{shown(count)} bits with at most {shown(ones)} ones"
        raise InputError(f"{description} are no sketch; give whole numbers from 1 on") from None
    if not 0 <= if_zero <= if_one <= 1:
        raise InputError(
            f"probabilities to release 1 are {if_one} and {if_zero}; give some from 0 to 1, the first not below"
        )
    high, low = Fraction(if_one), Fraction(if_zero)
    middle = (high + low) / 2

    def make(share: Fraction) -> IndependentBits:
        one, zero = (rate + share * (middle - rate) for rate in (high, low))
        most, least = math.floor(one * COIN), math.ceil(zero * COIN)
        if most < least:
            most = least = round(middle * COIN)
        return IndependentBits(count, most, least, ones)

    stated = worst_of_bits(count, high, low, ones)
    return mended(make, lambda channel: channel.log_ratio, stated, epsilon)


def worst_of_bits(count: int, high: Fraction, low: Fraction, ones: int | None) -> LogRatio:
    """Return the largest log-ratio of two sketches, of which a private 1 and 0 release 1 with these probabilities."""
    most = count if ones is None else min(ones, count)
    parts = [above / below if below else None for above, below in ((high, low), (1 - low, 1 - high)) if above]
    parts.sort(key=lambda ratio: (ratio is None, ratio), reverse=True)
    larger, smaller = [*parts, Fraction(1)][:2]
    return LogRatio.of(larger, most) + LogRatio.of(smaller, min(most, count - most))


@dataclass(frozen=True, slots=True)
class UnaryChannel:
    """Optimized unary encoding: `IndependentBits` with one 1, at the private value's place. See `unary_channel`.

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
        if 1 << min(count, 64) > MOST_RELEASES:
            raise InputError(f"{count} bits have more than {MOST_RELEASES} releases; look at fewer values")
        one, zero = self.rates
        others = [zero**ones * (1 - zero) ** (count - 1 - ones) for ones in range(count)]
        own = 1 << (count - 1 - value)
        return [
            (one if release & own else 1 - one) * others[(release & ~own).bit_count()] for release in range(1 << count)
        ]


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
