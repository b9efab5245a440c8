"""PrivUnit over public candidates, as an exact channel: a unit vector becomes the number of a candidate near it.

Source: Bhowmick and others (2018), whose release is a point of the sphere, drawn from a cap around the private vector
or from outside of it. Here both sides draw the same random unit vectors, and the device names one of them or its
opposite: one of the ``kept`` nearest to its vector, or, less often, one of the others. There are finitely many answers,
and every one of them has one of two probabilities, whatever the vector; so epsilon is exact, and no number has low bits
that tell more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import LARGEST_EPSILON, SMALLEST_EPSILON, ChoiceChannel, LogRatio, choice_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.grid import significant

FEWEST, MOST = 5, 13
"""There are 2 to the power ``FEWEST + ceil(3 epsilon / 4)`` vectors, `MOST` at most in the exponent."""
_ANGLES = 4096
_WIDE = 5050
"""Dimensions up to which the angles of the table span a right angle."""
_BITS = 30
"""Significant bits of a length: its last ones differ between processors."""


@dataclass(frozen=True, slots=True)
class CapChannel:
    """PrivUnit over public candidates in ``dimension`` dimensions.

    Attributes
    ----------
    dimension : int
        d.
    choice : ChoiceChannel
        Of the vectors and their opposites, ranked by how near they are to the private vector.
    length : float
        Mean component of the named vector, whose length is 1, along the private one; it is divided by this.
    """

    dimension: int
    choice: ChoiceChannel
    length: float

    @property
    def vectors(self) -> int:
        """Number of public vectors m; with their opposites there are 2 m answers."""
        return self.choice.choices // 2

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two private vectors' probabilities of one answer, exact."""
        return self.choice.log_ratio

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        return float(self.log_ratio)

    @property
    def second_moment(self) -> float:
        """``E |Z|^2`` of the unbiased release Z of a unit vector; ``|Z|`` is always the same."""
        return 1 / self.length**2


@functools.cache
def cap_channel(epsilon: Epsilon, dimension: int) -> CapChannel:
    """Return the epsilon-differentially private channel of a unit vector with the least second moment.

    Parameters
    ----------
    epsilon : Fraction or None
        Privacy parameter of the whole vector [nats].
    dimension : int
        d, at least 1.

    Returns
    -------
    CapChannel
        Its epsilon is at most the one asked for, and within a millionth of it. Up to epsilon 10 its second moment is at
        most a hundredth above that of infinitely many candidates.

    Raises
    ------
    InputError
        If epsilon is infinite, above 30, or below 1e-12.

    Examples
    --------
    >>> from fractions import Fraction
    >>> channel = cap_channel(Fraction(5), 55)
    >>> channel.vectors, channel.choice.kept, round(channel.second_moment / 55, 2)
    (512, 34, 0.3)
    """
    if epsilon is None or epsilon > LARGEST_EPSILON:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one vector is above {LARGEST_EPSILON}; lower it, or use exact"
        )
    if epsilon < SMALLEST_EPSILON:
        raise InputError(f"epsilon {as_float(epsilon):g} of one vector is below {float(SMALLEST_EPSILON):g}; raise it")
    vectors = 1 << min(FEWEST + math.ceil(epsilon * 3 / 4), MOST)
    nearest = _nearest(dimension, vectors)

    def length(kept: int) -> float:
        return choice_channel(epsilon, choices=2 * vectors, kept=kept).contrast * nearest(kept)

    low, high = 1, vectors
    while low < high:  # the length rises up to the best number, and falls from there on
        middle = (low + high) // 2
        low, high = (middle + 1, high) if length(middle) < length(middle + 1) else (low, middle)
    return CapChannel(
        dimension, choice_channel(epsilon, choices=2 * vectors, kept=low), significant(length(low), _BITS)
    )


def _nearest(dimension: int, vectors: int) -> Callable[[int], float]:
    """Return the expected sum of the s largest of m sizes of cosines, as a function of s, 1 to m.

    A cosine is that of a fixed direction with a uniform one in d dimensions; the s largest hold one at an angle if at
    most s - 1 of the m - 1 others lie nearer. The sum is an integral over angles. Most of them are almost right, within
    about ``d^(-1/2)``: in many dimensions the table spans the last ones only, and all others have no mass in a float.
    """
    if dimension == 1:
        return float
    step = np.pi / 2 / _ANGLES * min(1.0, math.sqrt(_WIDE / dimension))
    angles = (np.arange(_ANGLES) + 0.5) * step + (np.pi / 2 - _ANGLES * step)
    cosines, log_sines = np.cos(angles), np.log(np.sin(angles))
    scale = math.lgamma(dimension / 2) - math.lgamma((dimension - 1) / 2) - math.log(math.pi) / 2
    mass = 2 * np.exp(scale + (dimension - 2) * log_sines) * cosines * step
    below = special.betainc(0.5, (dimension - 1) / 2, cosines**2)

    def total(kept: int) -> float:
        among = special.betainc(vectors - kept, kept, below) if kept < vectors else 1.0
        return float(vectors * (mass * among).sum())

    return total
