"""Exact channels of local randomizers: what a release can be, given what is private, and the epsilon that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.errors import InputError

COIN = 1 << 64
"""A coin is uniform on the whole numbers below this."""
LARGEST_EPSILON = 30
"""Above it a flip has less than two million coins of 2**64 and epsilon could not be told to a millionth."""
SMALLEST_EPSILON = Fraction(1, 10**12)
"""Below it one coin more or less changes epsilon by more than a millionth of it."""


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
    def epsilon(self) -> float:
        """Largest log-ratio of the matrix's columns [nats]: what the channel really gives away."""
        flip = self.flip_probability
        if flip == 0:
            return math.inf
        ratio = 1 / flip - 1
        return math.log(ratio.numerator) - math.log(ratio.denominator) if ratio > 2 else math.log1p(float(ratio - 1))

    @property
    def threshold(self) -> np.uint64:
        """`flips` as the word that a coin is held against."""
        return np.uint64(self.flips)


@dataclass(frozen=True, slots=True)
class ChoiceChannel:
    """Subset selection: of ``choices`` ranked answers release one of the best ``kept``, or, less often, of the others.

    Which one of them is uniform. Source: Ye and Barg (2018), with the subset found by ranking public candidates.

    Attributes
    ----------
    choices, kept : int
        Number of answers, and of the best among them.
    misses : int
        Number of the 2**64 coins that release one of the others, rounded up: towards more noise.
    """

    choices: int
    kept: int
    misses: int

    @property
    def probabilities(self) -> tuple[Fraction, Fraction]:
        """Probability of each one of the best answers, and of each one of the others, exact."""
        miss = Fraction(self.misses, COIN)
        return (1 - miss) / self.kept, miss / (self.choices - self.kept)

    @property
    def contrast(self) -> float:
        """By how much a best answer is more probable than another one."""
        best, other = self.probabilities
        return float(best - other)

    @property
    def epsilon(self) -> float:
        """Largest log-ratio of two rankings' probabilities of one answer [nats]: what the channel really gives away."""
        best, other = self.probabilities
        return math.log1p(float(best / other - 1)) if other else math.inf

    @property
    def threshold(self) -> np.uint64:
        """`misses` as the word that a coin is held against."""
        return np.uint64(self.misses)


def choice_channel(epsilon: Epsilon, *, choices: int, kept: int) -> ChoiceChannel:
    """Return the epsilon-differentially private channel of one choice.

    Parameters
    ----------
    epsilon : Fraction or None
        Privacy parameter in nats; None for no noise.
    choices, kept : int
        Number of answers, and of the best among them, which is smaller.

    Raises
    ------
    InputError
        As `bit_channel`; if ``kept`` is not between 1 and ``choices - 1``; or if the number of choices is no power of
        two and epsilon so small that the nearest whole number of coins exceeds it.
    """
    if not 1 <= kept < choices:
        raise InputError(f"kept is {kept}; it must lie between 1 and {choices - 1}, one less than the choices")
    return ChoiceChannel(choices, kept, _share_of_coins(epsilon, kept=kept, others=choices - kept))


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
    return BitChannel(_share_of_coins(epsilon, kept=1, others=1))


def _share_of_coins(epsilon: Epsilon, *, kept: int, others: int) -> int:
    """Return ``2**64 * others / (kept * e**epsilon + others)``, rounded up."""
    if epsilon is None:
        return 0
    if epsilon > LARGEST_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one bit is above {LARGEST_EPSILON}, more than a 64-bit coin can "
            "express; lower it, or say inf for no noise"
        )
    odds = odds_within(epsilon)
    misses = math.ceil(COIN * others / (kept * odds + others))
    if misses * kept > odds * (COIN - misses) * others:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one choice among {kept + others} is less than 64-bit coins can express; "
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
