"""Exact channels of local randomizers: what a release can be, given what is private, and the epsilon that follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext
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
"""Above it a flip has less than two million coins of 2**64 and epsilon could not be told to a millionth."""
SMALLEST_EPSILON = Fraction(1, 10**12)
"""Below it one coin more or less changes epsilon by more than a millionth of it."""

ROUNDED = Decimal(2) ** -50
"""What rounded floats may add to a log-ratio however small epsilon is, in nats; rounding to coins mends it, too."""
MOST_TOLD = 1 << 16
"""Releases that a channel enumerates at most."""
DUST = Fraction(1, 10**9)
"""Share of epsilon by which stated probabilities may exceed it, as rounded floats do; rounding to coins mends it."""
C = TypeVar("C")
CoinOf: TypeAlias = Callable[[int], Words]
"""Number of a question to each device's own 64-bit coin for it, uint64, shape (devices,): `actors.coins.Coins`."""


class Channel(Protocol):
    """What a device's whole private sketch goes through: exact, in whole numbers of coins."""

    @property
    def epsilon(self) -> float:
        """Largest log-ratio of one release's probabilities, over all pairs of private sketches [nats]."""
        ...

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release, given one device's private sketch; they sum to 1.

        Parameters
        ----------
        private : ndarray of whole numbers, shape (k,)
            As `actors.halves.DeviceHalf.sketch` makes it, one row.

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


def share_of_coins(epsilon: Epsilon, *, kept: int, others: int) -> int:
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


def log_of(ratio: Fraction) -> float:
    """Return the natural logarithm of a ratio of probabilities, to the last bits also where it is close to 1."""
    return math.log(ratio.numerator) - math.log(ratio.denominator) if ratio > 2 else math.log1p(float(ratio - 1))


def exact_log(ratio: Fraction) -> Decimal:
    """Return the natural logarithm of a ratio of at least 1, within 1e-75."""
    with localcontext() as context:
        context.prec = 80
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


def require_probabilities(values: Iterable[object]) -> None:
    """Refuse what is no real number.

    Raises
    ------
    InputError
    """
    for value in values:
        if not isinstance(value, float | int | Fraction | np.integer):
            raise InputError(f"a probability of a channel is {shown(value)}; give a float or a Fraction")


def mended(make: Callable[[Fraction], C], log_ratio: Callable[[C], Decimal], stated: Decimal, epsilon: Epsilon) -> C:
    """Return a channel in whole coins whose exact log-ratio is at most epsilon: stated probabilities, or next to them.

    Parameters
    ----------
    make : callable
        From a share, 0 for none, by which rows are mixed with what they have in common, to the channel.
    log_ratio : callable
        From a channel to its exact largest log-ratio.
    stated : Decimal
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
    with localcontext() as context:
        context.prec = 80
        claimed = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        if stated > claimed * (1 + Decimal(DUST.numerator) / DUST.denominator) + ROUNDED:
            raise InputError(
                f"the largest log-ratio of the channel is {float(stated):.12g}, above its claim of epsilon "
                f"{float(claimed):.12g}; claim more, or add noise"
            )
        for share in (Fraction(0), *(Fraction(1, 1 << power) for power in range(63, 9, -1))):
            channel = make(share)
            if not (found := log_ratio(channel)) or found <= claimed - Decimal("1e-70"):
                return channel
    raise InputError(f"epsilon {as_float(epsilon):g} of one answer is less than 64-bit coins can express; raise it")
