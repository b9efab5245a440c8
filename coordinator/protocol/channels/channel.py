"""Exact channels of local randomizers: what a release can be, given what is private; and one bit's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from coordinator.protocol.arrays import Bits2, Indices2, Ints, Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.checked import shown
from coordinator.protocol.errors import InputError

COIN = 1 << 64
"""A coin is uniform on the whole numbers below this."""
LARGEST_EPSILON = 30
"""Above it a flip has fewer than two million coins of 2**64, and epsilon would not be exact to a millionth."""
SMALLEST_EPSILON = Fraction(1, 10**12)
"""Below it one coin more or less changes epsilon by more than a millionth of it."""

ROUNDED = Fraction(1, 1 << 50)
"""What rounded floats may add to a log-ratio however small epsilon is, in nats; rounding to coins mends it, too."""
MOST_RELEASES = 1 << 16
"""Releases that a channel enumerates at most."""
DUST = Fraction(1, 10**9)
"""Share of epsilon by which stated probabilities may exceed it, as rounded floats do; rounding to coins mends it."""
DIGITS = 40
"""Digits of logarithms to begin with; a comparison that they do not decide takes twice as many."""
C = TypeVar("C")
CoinOf: TypeAlias = Callable[[int], Words]
"""Number of a question to each device's own 64-bit coin for it, uint64, shape (devices,): `actors.seeds.Coins`."""


@dataclass(frozen=True, slots=True)
class LogRatio:
    """The logarithm of a ratio of two probabilities, exact, 0 or more: it is compared with an epsilon, never rounded.

    It equals no rational epsilon but 0, because e to the power of any other rational number is irrational (Lambert,
    1761). So bounds of enough digits decide whether it is within one.

    Attributes
    ----------
    factors : tuple of (int, Fraction), or None
        The ratio as a product: how often a factor above 1 comes in it, and that factor; None: the ratio is infinite.
    """

    factors: tuple[tuple[int, Fraction], ...] | None

    @classmethod
    def of(cls, ratio: Fraction | None, times: int = 1) -> LogRatio:
        """Return ``times |ln ratio|``; of None, a ratio to probability 0, it is infinite."""
        if not times or ratio == 1:
            return cls(())
        return cls(None if ratio is None else ((times, max(ratio, 1 / ratio)),))

    def __add__(self, other: LogRatio) -> LogRatio:
        """Return the sum, what two independent releases give away together."""
        return LogRatio(None if self.factors is None or other.factors is None else self.factors + other.factors)

    @property
    def ratio(self) -> Fraction | None:
        """The ratio itself, multiplied out; None if it is infinite."""
        return None if self.factors is None else math.prod((one**many for many, one in self.factors), start=Fraction(1))

    def bounds(self, digits: int) -> tuple[Fraction, Fraction]:
        """Return rational numbers that a finite log-ratio lies between, apart in the last of so many digits [nats]."""
        low = high = Fraction(0)
        for many, ratio in self.factors or ():
            with localcontext() as context:
                context.prec = digits
                context.rounding = ROUND_FLOOR
                below = Decimal(ratio.numerator) / Decimal(ratio.denominator)
                context.rounding = ROUND_CEILING
                above = Decimal(ratio.numerator) / Decimal(ratio.denominator)
                # The standard library rounds logarithms correctly, to the nearest: the next ones lie on either side.
                low += many * (Fraction(below.ln().next_minus()) if below > 1 else 0)
                high += many * Fraction(above.ln().next_plus())
        return low, high

    def within(self, epsilon: Epsilon) -> bool:
        """Return whether the log-ratio is at most epsilon, exactly; None is infinite."""
        if epsilon is None or self.factors is None:
            return epsilon is None
        digits = DIGITS
        while True:
            low, high = self.bounds(digits)
            if high <= epsilon or low > epsilon:
                return high <= epsilon
            digits *= 2

    def beyond(self, epsilon: Fraction) -> float:
        """Return the float next to the log-ratio less epsilon, however little it is [nats]."""
        if self.factors is None:
            return math.inf
        digits = DIGITS
        while True:
            low, high = (float(bound - epsilon) for bound in self.bounds(digits))
            if low == high:
                return low
            digits *= 2

    def __float__(self) -> float:
        """Return the float next to it [nats]: not above that of an epsilon which it is within."""
        return self.beyond(Fraction(0))


class Channel(Protocol):
    """What a device's whole private sketch goes through: exact, in whole numbers of coins."""

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of one release's probabilities, over all pairs of private sketches, exact."""
        ...

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        ...

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release, given one device's private sketch; they sum to 1.

        Parameters
        ----------
        private : ndarray of whole numbers, shape (k,)
            As `actors.device_half.DeviceHalf.sketch` makes it, one row.

        Returns
        -------
        list of Fraction
            Place ``i`` is the release whose bits, most significant first, are the whole number ``i``; releases beyond
            the last one never happen.
        """
        ...


@runtime_checkable
class Sampled(Channel, Protocol):
    """A channel that knows how to draw releases from coins; a device half need not say how."""

    def draw(self, private: Bits2 | Indices2, coin: CoinOf) -> Bits2:
        """Return the released bits of a block of devices, uint8, shape (devices, bits); ``private`` may be used up."""
        ...


def share_of_coins(epsilon: Epsilon, *, best: int, others: int) -> int:
    """Return ``2**64 * others / (best * e**epsilon + others)``, rounded up."""
    if epsilon is None:
        return 0
    if epsilon > LARGEST_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one bit is above {LARGEST_EPSILON}, more than a 64-bit coin can "
            "express; lower it, or say inf for no noise"
        )
    odds = odds_within(epsilon)
    misses = math.ceil(COIN * others / (best * odds + others))
    if misses * best > odds * (COIN - misses) * others:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one choice among {best + others} is less than 64-bit coins can express; "
            "raise it, or let the number of choices be a power of two"
        )
    return misses


def odds_within(epsilon: Fraction) -> Fraction:
    """Return the odds that every channel is built with: a rational number from 1 to ``e**epsilon``, never above it.

    It falls short of ``e**epsilon`` by less than 1e-70 of it. Whoever rounds coins so that no two probabilities of one
    release are farther apart than these odds has an exact channel within epsilon.

    Parameters
    ----------
    epsilon : Fraction
        Privacy parameter [nats], above 0 and at most `LARGEST_EPSILON`.

    Raises
    ------
    InputError
        If epsilon is not above 0.
    """
    if epsilon <= 0:
        raise InputError(f"epsilon is {as_float(epsilon):g}; it must be above 0 (inf means no noise)")
    with localcontext() as context:
        context.prec = 80
        near = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
    return max(Fraction(1), Fraction(near) * (1 - Fraction(1, 10**74)))


def require_probabilities(values: Iterable[object]) -> None:
    """Refuse what is no real number.

    Raises
    ------
    InputError
    """
    for value in values:
        if not isinstance(value, float | int | Fraction | np.integer):
            raise InputError(f"a probability of a channel is {shown(value)}; give a float or a Fraction")


def mended(make: Callable[[Fraction], C], log_ratio: Callable[[C], LogRatio], stated: LogRatio, epsilon: Epsilon) -> C:
    """Return a channel in whole coins whose exact log-ratio is at most epsilon: stated probabilities, or next to them.

    Parameters
    ----------
    make : callable
        From a share, 0 for none, by which rows are mixed with what they have in common, to the channel.
    log_ratio : callable
        From a channel to its exact largest log-ratio.
    stated : LogRatio
        Largest log-ratio of the probabilities before they were rounded.
    epsilon : Fraction or None
        What the channel claims [nats]; None: no claim, and nothing is mended.

    Raises
    ------
    InputError
        If the stated log-ratio is above epsilon by more than `DUST` and `ROUNDED`, or the coins cannot express epsilon.
    """
    if epsilon is None:
        return make(Fraction(0))
    if not isinstance(epsilon, int | Fraction):
        raise InputError(f"epsilon is {shown(epsilon)}; give a Fraction, as question.epsilon, or None for no claim")
    if epsilon <= 0:
        raise InputError(f"epsilon is {as_float(epsilon):g}; it must be above 0 (inf means no noise)")
    if epsilon > LARGEST_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one answer is above {LARGEST_EPSILON}, more than a 64-bit coin can "
            "express; lower it, or say inf for no noise"
        )
    if not stated.within(epsilon * (1 + DUST) + ROUNDED):
        raise InputError(
            f"the largest log-ratio of the channel is {float(stated):.12g}, above its claim of epsilon "
            f"{float(epsilon):.12g}; claim more, or add noise"
        )
    # Rounding to whole coins changes a probability by up to a coin, 2^-64, and can lift a log-ratio above epsilon by as
    # much as a coin is of the smaller probability. Mixing all rows with a common row m, share s, takes it down: with h
    # > l and m between them, ((1 - s) h + s m) / ((1 - s) l + s m) falls as s rises. So the shares 2^-63, 2^-62, ...
    # are tried, and the first that is within epsilon, by the exact log-ratio of whole coins, is taken: about twice what
    # is needed, at most. Whether a share was enough is never argued, only computed. If 2^-10 is not, the coins are too
    # coarse for epsilon.
    for share in (Fraction(0), *(Fraction(1, 1 << power) for power in range(63, 9, -1))):
        channel = make(share)
        if log_ratio(channel).within(epsilon):
            return channel
    raise InputError(f"epsilon {as_float(epsilon):g} of one answer is less than 64-bit coins can express; raise it")


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
    return BitChannel(share_of_coins(epsilon, best=1, others=1))
