"""Composition: what many rounds about one person keep together, certified from above.

Neighbours are two histories of one person, all of whose rounds may differ. Squares of the distances of Gaussian sums
add up, answers of pure local epsilon compose as randomized response does, and shuffled rounds by the privacy profile of
their bound: as a privacy loss on a grid, once for each round, and then by one transform. Rounds may be chosen by
earlier answers as long as what is promised of each, (n, epsilon0, levels), is fixed beforehand.

What is rounded counts towards more delta: between the places of the grid the profile is joined by lines, which lie
above it since it is convex; what lies beyond the last place counts as revealed, and so do the roundings of all chances;
the transform's error is bounded where it is made (`coordinator.protocol.noise.lattice_delta`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np

from coordinator.protocol.amplification import (
    MOST_ANSWERS,
    ShufflerBound,
    TwoLevels,
    require_chance,
    rough_local_epsilon,
    shuffled_delta,
    shuffled_epsilon,
)
from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import as_float, parse_epsilon
from coordinator.protocol.channels import LARGEST_EPSILON
from coordinator.protocol.checked import require_whole
from coordinator.protocol.errors import InputError
from coordinator.protocol.noise import lattice_delta, sums_delta

T = TypeVar("T")  # A round of a history
PERSON_HISTORY, PERSON_PERIOD = "person-history", "person-period"
"""Units: all ratings of one person are replaced by any others, or those of one period."""
MOST_ROUNDS = 1 << 20  # Rounds of a plan: a second's worth of arithmetic, and more than any ledger counts
_FINENESS = 6  # Places of the grid in the distance of one round's two laws
_MOST_PLACES = 4000  # Places on one side of the grid at most; where more were needed it is coarser, delta larger
_REST = 1e-5  # Share of delta that all rounds together may lose beyond the last place of the grid
_DUST = 3e-14  # Below it deltas of a round are no measure of anything: what lies there counts as revealed
_UNIT = 2.0**-52
_TOLERANCE = 1e-6  # An epsilon is searched for to this share of it, and rounded up


def gaussian_delta_at(distance: float, epsilon: float) -> float:
    """Return delta of two normal laws of deviation 1 at a distance mu: ``Phi(a) - exp(epsilon) Phi(a - mu)``.

    With ``a = mu / 2 - epsilon / mu``. Distances of rounds add up by their squares, adaptively too.
    Source: Balle and Wang (2018), theorem 5; Dong, Roth and Su (2022) for the sum.
    """
    from scipy.special import log_ndtr  # noqa: PLC0415 (numerical)

    z_score = distance / 2 - epsilon / distance
    above, below = float(log_ndtr(z_score)), float(log_ndtr(z_score - distance))
    # Of tails so far out that both logarithms agree to all digits nothing is left
    return max(0.0, -math.exp(above) * math.expm1(min(epsilon + below - above, 0.0))) * (1 + 1e-9)


def gaussian_distance(epsilon: Fraction | float, delta: float) -> float:
    """Return the largest distance mu of normal laws at which (epsilon, delta) holds, to a part in 1e9.

    >>> round(gaussian_distance(1, 1e-6), 5)
    0.2367
    """
    central = as_float(require_finite("epsilon", epsilon))
    require_chance(delta)
    return math.exp(_last(lambda mu: gaussian_delta_at(math.exp(mu), central) <= delta, -60.0, 40.0, 1e-10))


def gaussian_epsilon(distance: float, delta: float) -> float:
    """Return the smallest epsilon [nats] at delta of normal laws at a distance mu.

    >>> mu = gaussian_distance(1, 1e-6)
    >>> round(gaussian_epsilon(mu * 12**0.5, 1e-6), 3)
    3.904
    """
    require_chance(delta)
    return _smallest(lambda epsilon: gaussian_delta_at(distance, epsilon), delta, distance**2 / 2 + 40 * distance)


def equal_share(epsilon: Fraction | float, rounds: int, delta: float) -> float:
    """Return the epsilon [nats] at delta of one of so many equal rounds of Gaussian sums that keep (epsilon, delta)."""
    _require_rounds(rounds)
    return gaussian_epsilon(gaussian_distance(epsilon, delta) / math.sqrt(rounds), delta)


def summed_epsilon(sums: Mapping[float, int], *, delta: float, devices: bool = False) -> float:
    """Return the smallest epsilon [nats] of rounds of sums under discrete noise, of each deviation how many change.

    See `coordinator.protocol.noise.sums_delta`; rounds of s changing coordinates under one deviation are one release of
    s times as many.
    """
    require_chance(delta)
    distance = sums_distance(sums)
    return _smallest(
        lambda epsilon: sums_delta(sums, epsilon=epsilon, devices=devices) if epsilon > 0 else 1.0,
        delta,
        distance**2 / 2 + 40 * distance + 1,
    )


def sums_distance(sums: Mapping[float, int]) -> float:
    """Return the distance mu of normal laws that rounds of sums come to, by the squares of their own."""
    return math.sqrt(sum(changes / deviation**2 for deviation, changes in sums.items()))


def pure_delta(local_epsilon: float, rounds: int, epsilon: float) -> float:
    """Return delta of so many epsilon0-private answers about one person, whatever their mechanisms are.

    It is that of randomized response, which they are no worse than: ``sum of C(T, k) e^(k epsilon0) (1 - exp(epsilon -
    (2 k - T) epsilon0))_+ / (1 + e^epsilon0)^T``.
    Source: Kairouz, Oh and Viswanath (2015), theorem 3.3.
    """
    from scipy.special import gammaln  # noqa: PLC0415 (numerical)

    first = max(0, math.floor(min((epsilon / local_epsilon + rounds) / 2, rounds + 1)))
    hits = np.arange(first, rounds + 1, dtype=np.float64)
    gains = -np.expm1(np.minimum(epsilon - (2 * hits - rounds) * local_epsilon, 0.0))
    ways = gammaln(rounds + 1.0) - gammaln(hits + 1) - gammaln(rounds - hits + 1)
    logs = ways - (rounds - hits) * local_epsilon - rounds * math.log1p(math.exp(-local_epsilon))
    # Each logarithm errs by some units of the largest number in it
    rounded = 8 * _UNIT * (float(gammaln(rounds + 1.0)) + rounds * (local_epsilon + 1))
    return min(1.0, float(gains @ np.exp(logs)) * math.exp(min(rounded + 1e-9, 700.0)))


def pure_epsilon(local_epsilon: Fraction | float, rounds: int, delta: float) -> float:
    """Return the smallest epsilon [nats] of so many epsilon0-private answers about one person; delta 0: their sum.

    >>> round(pure_epsilon(1, 365, 1e-6), 3), pure_epsilon(1, 365, 0.0)
    (244.634, 365.0)
    """
    local = as_float(require_finite("the local epsilon", local_epsilon))
    _require_rounds(rounds)
    if not delta:
        return as_float(rounds * require_finite("the local epsilon", local_epsilon))
    require_chance(delta)
    return _smallest(lambda epsilon: pure_delta(local, rounds, epsilon), delta, rounds * local)


def largest_pure_epsilon(*, epsilon: Fraction | float, rounds: int, delta: float) -> Fraction:
    """Return the largest local epsilon with which so many answers keep (epsilon, delta): at delta 0 a share of it."""
    exact = require_finite("epsilon", epsilon)
    _require_rounds(rounds)
    share = exact / rounds
    if not delta or rounds == 1:
        return share
    require_chance(delta)
    central, low = as_float(exact), as_float(share)
    largest = _last(lambda local: pure_delta(local, rounds, central) <= delta, low, central, 1e-9 * low)
    return max(share, Fraction(math.floor(largest * 10**9), 10**9))


@dataclass(frozen=True, slots=True)
class ShuffledRounds:
    """Rounds of a plan that are promised the same: of a randomizer, its local epsilon, and a number of reports."""

    bound: ShufflerBound
    local_epsilon: Fraction | float  # Of each report [nats]
    devices: int  # Honest ones that answer every round, at least
    rounds: int = 1

    def delta(self, epsilon: float) -> float:
        """Return the bound on delta of one of them."""
        # Of few devices a grid reaches beyond what is looked at; there a delta is at most as large
        central = min(epsilon, LARGEST_EPSILON)
        return shuffled_delta(self.bound, epsilon=central, local_epsilon=self.local_epsilon, devices=self.devices)


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLoss:
    """A privacy loss on a grid that dominates what it stands for: chances under either of two histories are symmetric.

    The loss is ``grid * places`` with the chances, and without bound with chance ``revealed``.
    """

    grid: float
    places: Ints
    chances: Floats
    revealed: float


def privacy_loss(delta_at: Callable[[float], float], grid: float, least: float) -> PrivacyLoss:
    """Return a loss whose profile is nowhere below a symmetric one that is bounded from above, until ``least``.

    ``delta_at`` takes an epsilon from 0 on. The profile is convex in ``E = exp(epsilon)``, so that the lower convex
    hull of bounds at the grid's places lies above it; and symmetric, ``delta(1 / E) = (delta(E) - 1 + E) / E``, so that
    the places below 0 follow. A line of slope -s to the left of E and -t to the right puts ``E (s - t)`` there.
    Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022), connect the dots.
    """
    deltas = list[float]()
    while not deltas or (deltas[-1] > least and len(deltas) <= _MOST_PLACES):
        deltas.append(delta_at(len(deltas) * grid))
    corners = [0]
    odds = np.exp(grid * np.arange(len(deltas)))

    def slope(left: int, right: int) -> float:
        return (deltas[right] - deltas[left]) / (float(odds[left]) * math.expm1(grid * (right - left)))

    for index in range(1, int(np.argmin(deltas)) + 1):  # beyond its least bound a falling profile is not above it
        while len(corners) > 1 and slope(corners[-2], corners[-1]) >= slope(corners[-1], index):
            corners.pop()
        corners.append(index)
    slopes = np.array([*(slope(left, right) for left, right in pairwise(corners)), 0.0])
    other = np.maximum(np.diff(slopes), 0.0)  # chances under the other history of losses above 0
    places = np.array(corners[1:], dtype=np.int64)
    likelier = odds[places] * other
    # A slope errs by four units of itself, a difference of slopes by those of both; all that goes to the last place
    rounded = 16 * _UNIT * (1 + float(odds[places] @ (np.abs(slopes[:-1]) + np.abs(slopes[1:]))) if places.size else 1)
    revealed = min(1.0, deltas[corners[-1]] + 2 * rounded)
    middle = max(0.0, 1 - deltas[corners[-1]] - float(likelier.sum() + other.sum()))
    return PrivacyLoss(
        grid,
        np.concatenate([-places[::-1], np.zeros(1, np.int64), places]),
        np.concatenate([other[::-1], [middle], likelier]),
        revealed,
    )


def composed_delta(losses: Sequence[tuple[PrivacyLoss, int]], epsilon: float) -> float:
    """Return delta of rounds, each loss so many times, at an epsilon from 0 on, from above; all are on one grid."""
    rounds = sum(count for _, count in losses)
    revealed = -math.expm1(sum(count * math.log1p(-min(loss.revealed, 1 - _UNIT)) for loss, count in losses))
    summands = [(loss.places, loss.chances, count) for loss, count in losses]
    # Places of the grid are rounded, each to some units of 1
    lowered = max(epsilon - 4 * _UNIT * rounds, 0.0)
    return min(1.0, lattice_delta(summands, losses[0][0].grid, 0.0, lowered) + revealed * (1 + 1e-9))


def plan_delta(plan: Sequence[ShuffledRounds], *, epsilon: Fraction | float, delta: float) -> float:
    """Return the delta that a whole plan of shuffled rounds keeps with an epsilon, on a grid that suits ``delta``."""
    exact = require_finite("epsilon", epsilon)
    if exact >= _added(plan):
        return 0.0
    return composed_delta(_losses(plan, delta), math.nextafter(as_float(exact), 0.0))


def history_delta(parts: Sequence[ShuffledRounds], epsilon: Fraction, delta: float) -> float:
    """Return the delta of the rounds in which one person answers: of one round its own bound, which needs no grid."""
    if len(parts) == 1 and parts[0].rounds == 1:
        return parts[0].delta(as_float(epsilon))
    return plan_delta(parts, epsilon=epsilon, delta=delta)


@lru_cache(maxsize=1 << 8)
def keeps_histories(histories: frozenset[tuple[ShuffledRounds, ...]], epsilon: Fraction, delta: float) -> bool:
    """Return whether each person keeps (epsilon, delta), of all the rounds in which it answers."""
    return all(
        history_delta([replace(part, rounds=rounds[part]) for part in sorted(rounds, key=_in_order)], epsilon, delta)
        <= delta
        for rounds in map(Counter, longest(histories))
    )


def longest(histories: Iterable[tuple[T, ...]]) -> list[tuple[T, ...]]:
    """Return the histories that hold no other one, with which the others are certified, too."""
    counts = {history: Counter(history) for history in histories}
    return [history for history, rounds in counts.items() if not any(rounds < other for other in counts.values())]


def _in_order(part: ShuffledRounds) -> tuple[int, Fraction]:
    return part.devices, Fraction(part.local_epsilon)


def plan_epsilon(plan: Sequence[ShuffledRounds], *, delta: float) -> float:
    """Return the smallest epsilon [nats] that a whole plan of shuffled rounds keeps at delta, from above.

    >>> bits = ShuffledRounds(TwoLevels(0.5, 0.5), Fraction(1), 1000, rounds=12)
    >>> round(plan_epsilon([bits], delta=1e-6), 2)
    0.56
    """
    losses, most = _losses(plan, delta), as_float(_added(plan))
    if composed_delta(losses, most) > delta:  # though all that is told is bounded
        return most
    return min(most, _smallest(lambda epsilon: composed_delta(losses, epsilon), delta, most))


def _added(plan: Sequence[ShuffledRounds]) -> Fraction:
    return sum((part.rounds * Fraction(part.local_epsilon) for part in plan), Fraction(0))


def _losses(plan: Sequence[ShuffledRounds], delta: float) -> list[tuple[PrivacyLoss, int]]:
    require_chance(delta)
    rounds = sum(part.rounds for part in plan)
    _require_rounds(rounds)
    # The distance of one round, about: that of normal laws with its own (epsilon, delta)
    distances = [_distance(part, delta) for part in plan]
    grid = max(min(distances) / _FINENESS, max(float(part.local_epsilon) for part in plan) / _MOST_PLACES)
    least = max(_REST * delta / rounds, _DUST)
    return [(_loss(part, grid, least), part.rounds) for part in plan]


@lru_cache(maxsize=1 << 10)
def _distance(part: ShuffledRounds, delta: float) -> float:
    if isinstance(part.bound, TwoLevels):
        odds = math.expm1(part.local_epsilon)
        return odds * math.sqrt(2 * part.bound.kappa / (1 + odds * part.bound.pi) / part.devices)
    central = shuffled_epsilon(
        part.bound, local_epsilon=part.local_epsilon, devices=part.devices, delta=delta, any_delta=True
    )
    return gaussian_distance(central, delta)


@lru_cache(maxsize=1 << 8)
def _loss(part: ShuffledRounds, grid: float, least: float) -> PrivacyLoss:
    return privacy_loss(lambda epsilon: _first_delta(part) if not epsilon else part.delta(epsilon), grid, least)


def _first_delta(part: ShuffledRounds) -> float:
    local = float(part.local_epsilon)
    return min(1.0, part.bound.delta(0.0, math.nextafter(local, math.inf), part.devices))


def largest_plan_epsilon(
    bound: ShufflerBound | Callable[[float], ShufflerBound],
    *,
    epsilon: Fraction | float,
    rounds: int,
    devices: int,
    delta: float,
) -> Fraction:
    """Return the largest local epsilon for which all rounds together keep (epsilon, delta).

    It is in whole thousandths of a nat, rounded down; the whole plan's delta was evaluated there and holds. It is never
    below epsilon / rounds, with which answers add up, nor above 30. ``bound`` is a function from a local epsilon where
    the randomizer changes with that; see `coordinator.protocol.amplification.largest_local_epsilon`.

    >>> from coordinator.protocol.amplification import subset_levels
    >>> largest_plan_epsilon(subset_levels(9744, 20, 28), epsilon=1, rounds=12, devices=1000, delta=1e-6)
    Fraction(1097, 500)
    """
    exact = require_finite("the central epsilon", epsilon)
    _require_rounds(rounds)
    require_whole("number of devices that answer", devices, 1, MOST_ANSWERS)
    require_chance(delta)
    if delta * devices > 1:
        raise InputError(
            f"delta is {delta:g}, above 1 / {devices} devices: it would allow publishing all that some device holds; "
            f"give at most {1 / devices:.3g}"
        )
    share = exact / rounds
    low, high = math.floor(1000 * share), 1000 * LARGEST_EPSILON + 1

    @cache
    def excess(thousandths: int) -> float:
        """Return the logarithm of delta over its target."""
        local = Fraction(thousandths, 1000)
        randomizer = bound(float(local)) if callable(bound) else bound
        part = ShuffledRounds(randomizer, local, devices, rounds)
        reached = plan_delta([part], epsilon=exact, delta=delta)
        return math.log(reached / delta) if reached > 0 else -30.0

    guess, levels = low, bound(min(float(share), float(LARGEST_EPSILON))) if callable(bound) else bound
    if isinstance(levels, TwoLevels):
        single = equal_share(exact, rounds, delta)
        guess = math.floor(1000 * rough_local_epsilon(levels, epsilon=single, devices=devices, delta=delta))
    step = 8 if guess > low else 64
    trial = min(max(guess, low + 1), high - 1)
    while high - low > 1:
        if (surplus := excess(trial)) <= 0:
            low = trial
        else:
            high = trial
        if low == math.floor(1000 * share) or high == 1000 * LARGEST_EPSILON + 1:  # one end is not known yet
            trial = trial + step if surplus <= 0 else trial - step
            trial, step = min(max(trial, low + 1), high - 1), 4 * step
        else:
            # Between both ends the logarithm is nearly a line
            part = excess(low) / (excess(low) - excess(high))
            trial = min(max(low + round((high - low) * part), low + 1), high - 1)
    return max(share, Fraction(low, 1000))


@lru_cache(maxsize=1 << 8)
def keeps_plan(part: ShuffledRounds, epsilon: Fraction, delta: float) -> bool:
    """Return whether a plan of equal rounds keeps (epsilon, delta)."""
    return plan_delta([part], epsilon=epsilon, delta=delta) <= delta


def require_finite(name: str, epsilon: Fraction | float) -> Fraction:
    """Return an epsilon [nats] exactly; it must be finite."""
    exact = parse_epsilon(epsilon, name)
    if exact is None:
        raise InputError(f"{name} is inf; give a finite one")
    return exact


def _require_rounds(rounds: int) -> None:
    require_whole("number of rounds", rounds, 1, MOST_ROUNDS)


def _smallest(delta_at: Callable[[float], float], delta: float, most: float) -> float:
    """Return the smallest epsilon, to a millionth of it, at which a falling delta was evaluated and holds."""
    low, high = 0.0, most
    while high - low > _TOLERANCE * high and high > _TOLERANCE * 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


def _last(holds: Callable[[float], bool], low: float, high: float, tolerance: float) -> float:
    """Return the largest argument, but for a tolerance, at which something was evaluated and holds."""
    while high - low > tolerance:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
