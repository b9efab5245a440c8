"""Exact channels of local randomizers, in whole 64-bit coins: each with its epsilon, its chances and its sampler."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import index
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from coordinator.protocol.arrays import Bits2, Indices2, Ints, Words
from coordinator.protocol.budget import Epsilon, as_float, require_epsilon
from coordinator.protocol.checked import require_whole, shown
from coordinator.protocol.errors import InputError

COIN = 1 << 64  # A coin is uniform on the whole numbers below this
LARGEST_EPSILON = 30
"""Above it a flip has fewer than two million coins of 2**64, and epsilon would not be exact to a millionth."""
SMALLEST_EPSILON = Fraction(1, 10**12)  # Below it one coin more or less changes epsilon by more than a millionth of it

ROUNDED = Fraction(1, 1 << 50)
"""What rounded floats may add to a log-ratio however small epsilon is, in nats; rounding to coins mends it, too."""
MOST_RELEASES = 1 << 16  # Releases that a channel enumerates at most
DUST = Fraction(1, 10**9)
"""Share of epsilon by which stated probabilities may exceed it, as rounded floats do; rounding to coins mends it."""
DIGITS = 40  # Digits of logarithms to begin with; a comparison that they do not decide takes twice as many
C = TypeVar("C")
CoinOf: TypeAlias = Callable[[int], Words]
"""Number of a question to each device's own 64-bit coin for it, uint64, shape (devices,): `actors.seeds.Coins`."""


@dataclass(frozen=True, slots=True)
class LogRatio:
    """The logarithm of a ratio of two probabilities, exact, 0 or more: it is compared with an epsilon, never rounded.

    It equals no rational epsilon but 0, because e to the power of any other rational number is irrational (Lambert,
    1761). So bounds of enough digits decide whether it is within one.
    """

    # The ratio as a product: how often a factor above 1 comes in it, and that factor; None: the ratio is infinite
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
        return None if self.factors is None else math.prod((factor**n for n, factor in self.factors), start=Fraction(1))

    def bounds(self, digits: int) -> tuple[Fraction, Fraction]:
        """Return rational numbers that a finite log-ratio lies between, apart in the last of so many digits [nats]."""
        low = high = Fraction(0)
        for times, ratio in self.factors or ():
            with localcontext() as context:
                context.prec = digits
                context.rounding = ROUND_FLOOR
                below = Decimal(ratio.numerator) / Decimal(ratio.denominator)
                context.rounding = ROUND_CEILING
                above = Decimal(ratio.numerator) / Decimal(ratio.denominator)
                # The standard library rounds logarithms correctly, to the nearest: the next ones lie on either side.
                low += times * (Fraction(below.ln().next_minus()) if below > 1 else 0)
                high += times * Fraction(above.ln().next_plus())
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


class ExactChannel:
    """The local randomizer of a device's private sketch, or of a part of it: exact, in whole numbers of coins."""

    __slots__ = ()

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of one release's probabilities, over all pairs of private sketches, exact."""
        raise NotImplementedError

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        return float(self.log_ratio)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release, given one device's private sketch, shape (k,); they sum to 1.

        The sketch is one row as `Mechanism.sketch` makes it. Place ``i`` is the release whose bits,
        most significant first, are the whole number ``i``; releases beyond the last one never happen.
        """
        raise NotImplementedError


@runtime_checkable
class Sampled(Protocol):
    """A channel that knows how to draw releases from coins; a device half need not say how."""

    def draw(self, private: Bits2 | Indices2, coin: CoinOf) -> Bits2:
        """Return the released bits of a block of devices, uint8, shape (devices, bits); ``private`` may be used up."""
        ...


def require_expressible(epsilon: Fraction, what: str) -> None:
    """Refuse an epsilon of one bit, answer or subset that 64-bit coins cannot express."""
    if epsilon > LARGEST_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one {what} is above {LARGEST_EPSILON}, more than a 64-bit coin can "
            "express; lower it, or say inf for no noise"
        )


@lru_cache(maxsize=1024)
def share_of_coins(epsilon: Epsilon, *, best: int, others: int) -> int:
    """Return ``2**64 * others / (best * e**epsilon + others)``, rounded up."""
    if epsilon is None:
        return 0
    require_expressible(epsilon, "bit")
    odds = odds_within(epsilon)
    misses = math.ceil(COIN * others / (best * odds + others))
    if misses * best > odds * (COIN - misses) * others:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one choice among {best + others} is less than 64-bit coins can express; "
            "raise it, or let the number of choices be a power of two"
        )
    return misses


@lru_cache(maxsize=1024)
def odds_within(epsilon: Fraction) -> Fraction:
    """Return the odds that every channel is built with: a rational number from 1 to ``e**epsilon``, never above it."""
    # It falls short of ``e**epsilon`` by less than 1e-70 of it. Whoever rounds coins so that no two probabilities of
    # one release are farther apart than these odds has an exact channel within epsilon.
    if epsilon <= 0:
        raise InputError(f"epsilon is {as_float(epsilon):g}; it must be above 0 (inf means no noise)")
    with localcontext() as context:
        context.prec = 80
        near = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
    return max(Fraction(1), Fraction(near) * (1 - Fraction(1, 10**74)))


def require_probabilities(values: Iterable[object]) -> None:
    """Refuse what is no real number."""
    numbers = {type(value): value for value in values}  # of millions, of which few types are looked at
    for value in numbers.values():
        if not isinstance(value, float | int | Fraction | np.integer):
            raise InputError(f"a probability of a channel is {shown(value)}; give a float or a Fraction")


def mended(make: Callable[[Fraction], C], log_ratio: Callable[[C], LogRatio], stated: LogRatio, epsilon: Epsilon) -> C:
    """Return a channel in whole coins whose exact log-ratio is at most epsilon: stated probabilities, or next to them.

    ``make`` takes the share, 0 for none, by which rows are mixed with what they have in common; ``stated`` is the
    largest log-ratio before rounding.
    """
    if epsilon is None:
        return make(Fraction(0))
    if not isinstance(epsilon, int | Fraction):
        raise InputError(f"epsilon is {shown(epsilon)}; give a Fraction, as question.epsilon, or None for no claim")
    if epsilon <= 0:
        raise InputError(f"epsilon is {as_float(epsilon):g}; it must be above 0 (inf means no noise)")
    require_expressible(epsilon, "answer")
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
class BitChannel(ExactChannel):
    """Randomized response on one bit: flip it when the device's 64-bit coin is below ``flips``.

    Source: Banerjee, Hegde, Massoulié, Proposition 4 [2.4]; Warner (1965).
    """

    # Number of the 2**64 coins that flip the bit, ``2**64 / (1 + e**epsilon)`` rounded up: towards more noise
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
    def threshold(self) -> np.uint64:
        """`flips` as the word that a coin is compared with."""
        return np.uint64(self.flips)


def bit_channel(epsilon: Epsilon) -> BitChannel:
    """Return the epsilon-differentially private channel of one bit; None [nats] for no noise.

    Its epsilon is at most ``epsilon``, and less by no more than one coin of 2**64 makes: below a millionth of it from
    1e-12 on. What is too small for one coin gets the fair coin, epsilon 0; what is finite and above `LARGEST_EPSILON`
    is refused.

    >>> round(bit_channel(Fraction(1)).epsilon, 12)
    1.0
    """
    return BitChannel(share_of_coins(epsilon, best=1, others=1))


@dataclass(frozen=True, slots=True)
class IndependentBits(ExactChannel):
    """Every bit is released as 1 with one of two probabilities, by its private value: flips, or unary encoding.

    Source: Wang, Blocki, Li and Jha (2017), section 4.2, where ``count`` bits hold at most one 1.
    """

    count: int  # Number of bits
    # Number of the 2**64 coins that release 1, of a private 1 and of a private 0; the second is not above the first
    if_one: int
    if_zero: int
    ones: int | None = None  # A private sketch has at most so many ones; None: any number

    def __post_init__(self) -> None:
        counted = self.count, self.if_one, self.if_zero, 1 if self.ones is None else self.ones
        if any(type(number) is not int for number in counted):
            description = ", ".join(shown(number) for number in counted)
            raise InputError(f"bits, coins of a 1, coins of a 0 and most ones are {description}; give whole numbers")
        if self.count < 1 or (self.ones is not None and self.ones < 1):
            raise InputError(f"{self.count} bits with at most {self.ones} ones are no sketch; give at least 1 of each")
        if not 0 <= self.if_zero <= self.if_one <= COIN or self.if_zero == COIN or self.if_one == 0:
            rates = f"{self.if_one / COIN:g} of a private 1 and {self.if_zero / COIN:g} of a private 0"
            raise InputError(f"probabilities to release 1 are {rates}; give some from 0 to 1, the first not below")

    @property
    def bits(self) -> int:
        """Number of released bits."""
        return self.count

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two sketches' probabilities of one release, exact."""
        return worst_of_bits(self.count, Fraction(self.if_one, COIN), Fraction(self.if_zero, COIN), self.ones)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release; see `ExactChannel.chances`."""
        if 1 << min(self.count, 64) > MOST_RELEASES:
            raise InputError(f"{self.count} bits have more than {MOST_RELEASES} releases; look at fewer bits")
        coins = [1]
        for _, bit in zip(range(self.count), private, strict=True):
            on = self.if_one if bit else self.if_zero
            coins = [before * coin for before in coins for coin in (COIN - on, on)]
        exact = {number: Fraction(number, COIN**self.count) for number in set(coins)}
        return [exact[number] for number in coins]

    def draw(self, private: Bits2 | Indices2, coin: CoinOf) -> Bits2:
        """Return the released bits of a block of devices; ``private`` is used up. See `Sampled.draw`."""
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
    """Return randomized response on each of ``count`` bits, each under ``epsilon``; together ``count`` times that."""
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
        Largest number of ones in a private sketch; None: any.

    Raises
    ------
    InputError
        If the probabilities are none, reveal more than epsilon by more than floats' dust, or coins cannot express it.

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
        high_rate, zero = (rate + share * (middle - rate) for rate in (high, low))
        most, least = math.floor(high_rate * COIN), math.ceil(zero * COIN)
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
class UnaryChannel(ExactChannel):
    """Optimized unary encoding: `IndependentBits` with one 1, at the private value's place. See `unary_channel`."""

    encoded: IndependentBits  # The channel of the bits

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two values' probabilities of one release; see `ExactChannel.log_ratio`."""
        return self.encoded.log_ratio

    @property
    def rates(self) -> tuple[Fraction, Fraction]:
        """Probability that the bit of the device's own value is released as 1, and that of another one, exact."""
        return Fraction(self.encoded.if_one, COIN), Fraction(self.encoded.if_zero, COIN)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release; see `ExactChannel.chances`. ``private`` holds one value."""
        count, value = self.encoded.count, int(np.ravel(private)[0])
        if 1 << min(count, 64) > MOST_RELEASES:
            raise InputError(f"{count} bits have more than {MOST_RELEASES} releases; look at fewer values")
        one_rate, zero = self.rates
        others = [zero**ones * (1 - zero) ** (count - 1 - ones) for ones in range(count)]
        on, off = ([rate * other for other in others] for rate in (one_rate, 1 - one_rate))
        mask = 1 << (count - 1 - value)
        return [(on if bits & mask else off)[(bits & ~mask).bit_count()] for bits in range(1 << count)]


@lru_cache(maxsize=64)
def unary_channel(epsilon: Epsilon, *, values: int) -> UnaryChannel:
    """Return the epsilon-differentially private channel of one of ``values`` values.

    The bit of the device's own value is a fair coin; another one is 1 with probability ``1 / (e**epsilon + 1)``.
    Source: Wang, Blocki, Li and Jha (2017), section 4.2.

    ``epsilon`` is that of the whole answer in nats; where it is None, no other value's bit is 1.

    >>> channel = unary_channel(Fraction(1), values=1000)
    >>> round(channel.epsilon, 12), [round(float(rate), 5) for rate in channel.rates]
    (1.0, [0.5, 0.26894])
    """
    odds = None if epsilon is None else odds_within(min(epsilon, Fraction(LARGEST_EPSILON)))
    zero = Fraction(0) if odds is None else 1 / (odds + 1)
    return UnaryChannel(independent_bits(count=values, if_one=Fraction(1, 2), if_zero=zero, epsilon=epsilon, ones=1))


_SCALE = 256  # Stated probabilities are held in units of two to minus this, far below one coin


@dataclass(frozen=True, slots=True)
class MatrixChannel(ExactChannel):
    """One of a few private values becomes one of a few releases, by one coin."""

    # Number of the 2**64 coins of every release, a row for each private value; each row sums to 2**64
    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
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
        return LogRatio.of(_farthest(self.rows)[0])

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release; see `ExactChannel.chances`. ``private`` holds one number."""
        return [Fraction(coins, COIN) for coins in self.rows[int(np.ravel(private)[0])]]

    def draw(self, private: Bits2 | Indices2, coin: CoinOf) -> Bits2:
        """Return the released bits of a block of devices, whose private values are numbers of rows."""
        value = np.asarray(private).reshape(len(private)).astype(np.int64)
        most = len(self.rows) - 1
        if value.size and not 0 <= value.min() <= value.max() <= most:
            raise InputError(f"a sketch is no whole number from 0 to {most}, the channel's private values")
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
        `ExactChannel.chances`, floats or Fractions.
    sampler : callable
        From private sketches of a block of devices, their public streams, and their coins to the released bits.
    """

    claimed: Epsilon
    bits: int
    likelihood: Callable[[Ints, np.uint64], Sequence[float | Fraction]]
    sampler: Callable[[Bits2 | Indices2, Words, CoinOf], Bits2]

    def __post_init__(self) -> None:
        object.__setattr__(self, "claimed", require_epsilon(self.claimed, "what a likelihood claims"))
        require_whole("bits of a likelihood", self.bits, 1, 64)
        if not all(callable(function) for function in (self.likelihood, self.sampler)):
            raise InputError("a likelihood or its sampler cannot be called; give two functions")

    @property
    def epsilon(self) -> float:
        """What the author claims [nats]."""
        return as_float(self.claimed)

    def chances(self, private: Ints, public: np.uint64) -> list[Fraction]:
        """Return the probability of every release of a device with this public stream; they sum to 1."""
        return list(_exact(self.likelihood(private, public)))

    def matrix(self, privates: Sequence[Ints], public: np.uint64) -> MatrixChannel:
        """Return the exact channel among some private sketches, given one public stream: within the claim."""
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
        If a row is no distribution, two rows reveal more than epsilon by more than floats' dust, or coins cannot
        express it.

    Notes
    -----
    The time grows with the number of different cells: of a thousand rows of a thousand releases two seconds if these
    are few, some twelve if all differ. A call takes at most 60 seconds; a class whose channel takes longer sets its
    ``seconds`` higher, or states a `Likelihood`.

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
    stated = [_units(row) for row in rows]
    mean = _whole([sum(column) // len(stated) for column in zip(*stated, strict=True)])
    level = {m: index for index, m in enumerate(dict.fromkeys(mean))}
    levels = [level[m] for m in mean]

    apart: set[int] = set()  # Rows that were too far from each other before

    def make(share: Fraction) -> MatrixChannel:
        """Return the channel, or some of its rows where these are too far from each other: all take much longer."""
        power = share.denominator.bit_length() - 1

        def mix(row: list[int]) -> list[int]:
            if not share:
                return row
            pairs = list(zip(row, levels, strict=True))
            means = list(level)
            mixed = {(p, at): (p << power) + share.numerator * (means[at] - p) for p, at in set(pairs)}
            return [mixed[pair] for pair in pairs]

        for places in (*([sorted(apart)] if apart else []), range(len(stated))):
            channel = MatrixChannel(tuple(_in_coins(mix(stated[index]), _SCALE + power) for index in places))
            ratio, pair = _farthest(channel.rows)
            if epsilon is not None and not LogRatio.of(ratio).within(epsilon):
                break
        apart.update(places[index] for index in pair)
        return channel

    return mended(make, lambda channel: channel.log_ratio, LogRatio.of(_farthest(stated)[0]), epsilon)


def _exact(row: Sequence[float | Fraction]) -> tuple[Fraction, ...]:
    """Return probabilities that sum to 1, where they do so but for floats' dust."""
    shares = _shares(row)
    return tuple(shares[p] for p in row)


def _units(row: Sequence[float | Fraction]) -> list[int]:
    """Return such probabilities in units of 2**-_SCALE."""
    units = {p: math.floor(share * (1 << _SCALE)) for p, share in _shares(row).items()}
    return _whole([units[p] for p in row])


def _shares(row: Sequence[float | Fraction]) -> dict[float | Fraction, Fraction]:
    """Return what each value of a row is where the row sums to 1; rows of thousands of releases have few values."""
    require_probabilities(row)
    if not 1 <= len(row) <= MOST_RELEASES:
        raise InputError(f"a channel has {len(row)} releases; give 1 to {MOST_RELEASES}")
    numbers = Counter(row)
    if not all(0 <= p <= 1 + DUST for p in numbers) or abs(math.fsum(row) - 1) > DUST:
        raise InputError(f"probabilities of a channel's row sum to {math.fsum(row):.12g}; give some from 0 on, sum 1")
    exact = {p: Fraction(p) for p in numbers}
    total = sum((number * exact[p] for p, number in numbers.items()), Fraction(0))
    return {p: value / total for p, value in exact.items()}


def _whole(units: list[int]) -> list[int]:
    """Return units of 2**-_SCALE that sum to 1: the largest takes what flooring left."""
    units[units.index(max(units))] += (1 << _SCALE) - sum(units)
    return units


def _in_coins(row: Sequence[int], scale: int) -> tuple[int, ...]:
    """Return units of 2**-scale as whole coins that sum to 2**64, each within one; the largest remainders go up."""
    shift = scale - 64
    whole = {units: units >> shift for units in set(row)}
    coins = [whole[units] for units in row]
    if missing := COIN - sum(coins):
        rest = {units: (coin << shift) - units for units, coin in whole.items()}
        rank = {value: index for index, value in enumerate(sorted(set(rest.values())))}
        ranks = {units: rank[value] for units, value in rest.items()}
        order = np.argsort(np.array([ranks[units] for units in row]), kind="stable")
        for index in order[:missing].tolist():
            coins[index] += 1
    return tuple(coins)


def _farthest(rows: Sequence[Sequence[int]]) -> tuple[Fraction | None, tuple[int, int]]:
    """Return the largest ratio of two rows' chances of one release, None without bound, and which rows these are."""
    largest, pair = Fraction(1), (0, 0)
    for column in zip(*rows, strict=True):
        most, least = max(column), min(column)
        if most and not least:
            return None, (column.index(most), column.index(least))
        if most and most * largest.denominator > largest.numerator * least:
            largest, pair = Fraction(most, least), (column.index(most), column.index(least))
    return largest, pair
