"""Plans of sums: the noise of each round, chosen so that every person's whole history keeps the promise.

With Gaussian noise, rounds share the squared distance of two normal laws, changes / sigma^2, which adds up. Because the
noise is discrete, each history is certified by its exact law, and deviations are raised until it holds. Laplace noise
has no delta; there rounds share epsilon.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.composition import gaussian_distance, gaussian_epsilon, longest, require_finite, sums_distance
from coordinator.protocol.noise import on_public_grid, sums_delta

_THOUSANDTHS = 1000  # Epsilons of single rounds are whole thousandths, rounded up
_FINEST = 1e-5  # Deviations are searched for to this share of them


class PlannedSum(NamedTuple):
    """A round of a plan before it has noise."""

    share: Fraction  # Of the square of the distance, or of epsilon by Laplace noise
    changes: int  # Coordinates of the sums that one person changes by one


class RoundNoise(NamedTuple):
    """The noise of a round of a plan."""

    epsilon: Fraction  # That the round keeps by itself, at the delta of the whole plan [nats]
    deviation: float  # Of a dose of Gaussian or Skellam noise; 0 of Laplace noise


class SumRound(NamedTuple):
    """The properties of a round of sums that determine its privacy loss."""

    deviation: float  # Of a dose; 0 of Laplace noise
    changes: int  # Coordinates of the sums that one person changes by one
    epsilon: Epsilon  # Of the round by itself [nats]


@lru_cache(maxsize=64)
def summed_plan(
    histories: frozenset[tuple[PlannedSum, ...]], *, epsilon: Fraction, delta: float, devices: bool
) -> Mapping[PlannedSum, RoundNoise]:
    """Return the noise of every round of a plan, so that each history keeps (epsilon, delta).

    Parameters
    ----------
    histories : frozenset
        The rounds in which one person answers, for every kind of person there is.
    epsilon : Fraction
        Of a whole history [nats].
    delta : float
        Of a whole history; 0 for Laplace noise.
    devices : bool
        Whether devices add the noise, in shares of a dose.
    """
    exact, rounds = require_finite("epsilon", epsilon), {part for history in histories for part in history}
    if not delta:
        return {part: RoundNoise(exact * part.share, 0.0) for part in rounds}
    distance, counts = gaussian_distance(exact, delta), [Counter(history) for history in histories]

    def deviations(factor: float) -> dict[PlannedSum, float]:
        return {part: on_public_grid(factor * math.sqrt(part.changes / part.share) / distance) for part in rounds}

    def holds(factor: float) -> bool:
        noise = deviations(factor)
        opened = [tuple(SumRound(noise[part], part.changes, None) for part in count.elements()) for count in counts]
        return keeps_sums(frozenset(opened), exact, delta, devices=devices)

    low, high = 0.9, 1.0
    while not holds(high):
        low, high = high, 1.1 * high
    while high / low > 1 + _FINEST:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return {
        part: RoundNoise(
            history_epsilon(frozenset({(deviation, part.changes)}), exact, delta, devices=devices), deviation
        )
        for part, deviation in deviations(high).items()
    }


@lru_cache(maxsize=1 << 10)
def history_epsilon(sums: frozenset[tuple[float, int]], most: Fraction, delta: float, *, devices: bool) -> Fraction:
    """Return the epsilon of rounds of sums, in whole thousandths that were looked at; no more than that of the plan.

    ``sums`` says of each deviation how many coordinates change; see `changes_by_deviation`.
    """
    changes = dict(sums)
    thousandths = math.ceil(_THOUSANDTHS * gaussian_epsilon(sums_distance(changes), delta))
    while (epsilon := Fraction(thousandths, _THOUSANDTHS)) < most:
        if sums_delta(changes, epsilon=epsilon, devices=devices) <= delta:
            return epsilon
        thousandths += 1
    return most


@lru_cache(maxsize=1 << 8)
def keeps_sums(histories: frozenset[tuple[SumRound, ...]], epsilon: Fraction, delta: float, *, devices: bool) -> bool:
    """Return whether each person keeps (epsilon, delta), of all the sums to which it gives."""
    return all(_keeps(history, epsilon, delta, devices=devices) for history in longest(histories))


def _keeps(history: Collection[SumRound], epsilon: Fraction, delta: float, *, devices: bool) -> bool:
    if not any(part.deviation for part in history):
        return not any(part.epsilon is None for part in history) and sum_of_epsilons(history) <= epsilon
    if not all(part.deviation for part in history):  # nobody has a law of both kinds together
        return False
    return sums_delta(changes_by_deviation(history), epsilon=epsilon, devices=devices) <= delta


def sum_of_epsilons(history: Iterable[SumRound]) -> Fraction:
    """Return the sum of the epsilons of rounds [nats]."""
    return sum((part.epsilon or Fraction(0) for part in history), Fraction(0))


def changes_by_deviation(history: Iterable[SumRound]) -> dict[float, int]:
    """Return how many coordinates change in all rounds under one deviation, for each; see `sums_delta`."""
    counts = Counter[float]()
    for part in history:
        counts[part.deviation] += part.changes
    return dict(counts)
