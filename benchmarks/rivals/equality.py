"""Whether two programs release alike: a test on how many reports speak for each value, where all users hold one value.

Two tests, each with half of the false-alarm probability. The first is about the value that users hold: is it spoken for
as often? The second about all others: is the sum of their squared differences, each over its variance, what chance
makes of it? Under equality that sum is about chi-square with as many degrees of freedom. Counts of Hadamard sketches
come in correlated pairs (two values whose exclusive or is that of the held one), which at most doubles its variance.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, norm

from coordinator.protocol.arrays import Ints

FALSE_ALARM = 1e-6  # Probability that two programs which release alike are told apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the reports of users who all hold one value speak for."""

    users: int  # Users who reported
    counts: Ints  # Reports that speak for each value


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """The verdict."""

    own_value: float  # Difference of the shares of reports that speak for the held value, over its standard error
    others: float  # Sum of squares of the same for all other values
    freedom: int  # How many these are
    equal: bool  # Whether both tests pass


def compared(counts: Counts, two: Counts, *, own_value: int, paired: bool = False) -> Equality:
    """Compare two programs' counts."""
    users = np.array([counts.users, two.users])
    rate = (counts.counts + two.counts) / users.sum()
    variance = rate * (1 - rate) * (1 / users).sum()
    gap = counts.counts / counts.users - two.counts / two.users
    apart = np.divide(gap, np.sqrt(variance), out=np.zeros_like(gap), where=variance > 0)
    others = float((np.delete(apart, own_value) ** 2).sum())
    freedom = apart.size - 1
    excess = (others - freedom) / (2**0.5 if paired else 1.0)
    alarm = FALSE_ALARM / 2
    low, high = chi2.ppf(alarm / 2, freedom), chi2.isf(alarm / 2, freedom)
    equal = abs(apart[own_value]) <= norm.isf(alarm / 2) and low <= freedom + excess <= high
    return Equality(own_value=float(apart[own_value]), others=others, freedom=freedom, equal=bool(equal))
