"""Exact noise of sums: laws in whole 128-bit coins, drawn from keys only, and what (epsilon, delta) they keep.

A server, or every device, adds noise to each coordinate of a sum. Coordinate i's noise follows from a seed and from i
alone, so that it is the same in whatever blocks it is drawn. Deltas are from above: what is cut off counts as revealed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from coordinator.protocol.amplification import Summand, require_chance, sum_law, transform_size
from coordinator.protocol.arrays import Floats, Ints, Words
from coordinator.protocol.budget import as_float, parse_epsilon
from coordinator.protocol.channels import LARGEST_EPSILON
from coordinator.protocol.checked import MOST_ITEMS, require_whole, shown
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import device_streams

MOST_NOISE_VALUES = 1 << 21  # Values that a law of noise enumerates at most
# Of Gaussian and Skellam noise; a smaller Gaussian is 0 but for chances of e^-32, which coins do not hold for long
LEAST_DEVIATION, LARGEST_DEVIATION = 1 / 8, 1e5
_COINS = 1 << 128
_DIGITS, _NEVER = 60, Decimal(2) ** -132
_ROOT_HALF, _LOG_2 = math.sqrt(0.5), math.log(2)
_SUMMED = 1e4  # Deviation of a sum of discrete Gaussians beyond which its losses are put on a grid
_REACH = 14  # Standard deviations beyond which a law is cut off, which counts as revealed
_STEPS = 1 << 12  # Steps of a public deviation between one and two
_FINENESS = 24  # Places of a grid in one standard deviation of a loss
_ROUNDED = 1e-12  # Share by which a delta is raised for each summand, for what its chances round
_STEPS_OF_NEWTON = 8  # At most, for a tilt
_DUST = 1e-15  # And by which an epsilon is lowered and losses are raised: several units in the last place


@dataclass(frozen=True, slots=True, eq=False)
class NoiseLaw:
    """A law of whole numbers from which noise is drawn: every chance is a whole number of coins of 2**-128.

    No chance is farther than a coin from its exact share; what is rarer than 2**-132 of the likeliest value is left
    out. So the law is within some ``values * 2**-128`` of the exact one in total variation: what is epsilon-private
    with exact noise on N coordinates is so with this one but for a delta of some ``N * values * 2**-127``, below 1e-28.
    """

    lowest: int  # Smallest value of a draw
    # Upper and lower halves of the thresholds, ascending, shape (values - 1,): a 128-bit coin draws ``lowest`` plus the
    # number of thresholds that are not above it
    high: Words
    low: Words
    two_sided: bool = False  # Whether the noise is the difference of two independent draws

    def draw(self, seed: bytes, first: int, count: int) -> Ints:
        """Return the noise of coordinates ``first``, ``first + 1``, ...: it depends on seed and coordinate only."""
        require_whole("first coordinate of noise", first, 0, MOST_ITEMS**2)
        require_whole("coordinates of noise", count, 0, MOST_ITEMS)
        noise = self._draw(derive(seed, "noise"), first, count)
        return noise - self._draw(derive(seed, "noise to subtract"), first, count) if self.two_sided else noise

    def _draw(self, seed: bytes, first: int, count: int) -> Ints:
        coins = device_streams(as_words(derive(seed, "upper halves")), first, count)
        noise = np.searchsorted(self.high, coins, side="right").astype(np.int64)
        below = np.searchsorted(self.high, coins, side="left")
        for device in np.flatnonzero(below < noise):  # The upper halves do not decide: a chance of values in 2**64
            other = device_streams(as_words(derive(seed, "lower halves")), first + int(device), 1)
            start = below[device]
            noise[device] = start + np.searchsorted(self.low[start : noise[device]], other, side="right")[0]
        return noise + self.lowest

    def probabilities(self) -> tuple[Ints, Floats]:
        """Return the values of a draw, and their exact chances as floats; of two-sided noise, of all differences."""
        marks = [0, *(int(high) << 64 | int(low) for high, low in zip(self.high, self.low, strict=True)), _COINS]
        chances = np.array([(after - before) / _COINS for before, after in pairwise(marks)])
        values = self.lowest + np.arange(chances.size)
        if self.two_sided:
            chances = np.convolve(chances, chances[::-1])
            values = np.arange(chances.size) - (chances.size - 1) // 2
        return values, chances

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise."""
        values, chances = self.probabilities()
        return math.sqrt(float(chances @ np.square(values.astype(float))) - float(chances @ values) ** 2)


def _noise_law(lowest: int, weights: Sequence[Decimal], *, two_sided: bool = False) -> NoiseLaw:
    """Return the law of these weights, rounded to whole coins by differences of rounded sums, so that they sum to 1."""
    with localcontext(prec=_DIGITS):
        total, past, marks = sum(weights), Decimal(0), []
        for weight in weights[:-1]:
            past += weight
            marks.append(min(int((past / total * _COINS).to_integral_value()), _COINS - 1))
    high, low = (np.array(limbs, np.uint64) for limbs in ([m >> 64 for m in marks], [m % 2**64 for m in marks]))
    high.setflags(write=False)
    low.setflags(write=False)
    return NoiseLaw(lowest, high, low, two_sided)


def _falling(start: Decimal, factor: Callable[[int], Decimal]) -> list[Decimal]:
    """Return weights 0, 1, ...: each the one before times a factor, until they are nothing beside their largest."""
    weights, largest, weight = [start], start, start
    while weight > largest * _NEVER:
        weight *= factor(len(weights))
        weights.append(weight)
        largest = max(largest, weight)
        if len(weights) > MOST_NOISE_VALUES:
            raise InputError(
                f"noise has more than {MOST_NOISE_VALUES} values; raise epsilon, or let people have fewer likes"
            )
    return weights


def _ratio(epsilon: Fraction | float, sensitivity: int) -> Decimal:
    """Return ``exp(-epsilon / sensitivity)``, correct to all digits."""
    exact = _require_epsilon(epsilon)
    require_whole("L1 sensitivity", sensitivity, 1, MOST_ITEMS)
    if exact > LARGEST_EPSILON * sensitivity:  # chances of any noise that coins do not hold for long
        most = LARGEST_EPSILON * sensitivity
        raise InputError(f"epsilon of noise is {as_float(exact):g}; at sensitivity {sensitivity} give at most {most}")
    with localcontext(prec=_DIGITS):
        return (-Decimal(exact.numerator) / Decimal(exact.denominator) / sensitivity).exp()


def normal_draws(seed: bytes, count: int) -> Floats:
    """Return independent draws of a standard normal law, which depend on the seed and their places alone.

    They have the bits of floats and end at 9.5, which adds some 1e-15 to a delta for each draw whose count differs
    between neighbours, times 1 + exp(epsilon): 1e-12 at epsilon 1 for 12 sums, 40 counts. Equal counts have equal laws.
    Source: Box and Muller (1958).
    """
    require_whole("coordinates of noise", count, 0, MOST_ITEMS)
    radius, turn = (
        (device_streams(as_words(derive(seed, name)), 0, count).astype(np.float64) + 0.5) / 2.0**64
        for name in ("radius of noise", "angle of noise")
    )
    # By sums, products and roots alone, which every processor rounds in the same way: libraries' logarithms and cosines
    # have other last bits on other ones
    mantissa, exponent = np.frexp(radius)
    mantissa, exponent = np.where(mantissa < _ROOT_HALF, 2 * mantissa, mantissa), exponent - (mantissa < _ROOT_HALF)
    ratio = (mantissa - 1) / (mantissa + 1)
    logarithm, square = np.zeros(count), ratio * ratio
    for power in range(25, 0, -2):
        logarithm = logarithm * square + 1 / power
    logarithm = 2 * ratio * logarithm + exponent * _LOG_2
    quarter = np.rint(4 * turn)
    angle = (4 * turn - quarter) * (math.pi / 2)
    cosine, sine = np.ones(count), np.ones(count)
    for power in range(20, 0, -2):
        cosine = 1 - angle * angle / (power * (power - 1)) * cosine
        sine = 1 - angle * angle / (power * (power + 1)) * sine
    sine *= angle
    normal: Floats = np.sqrt(-2 * logarithm) * np.choose(quarter.astype(np.int64) % 4, [cosine, -sine, -cosine, sine])
    return normal


def discrete_laplace(epsilon: Fraction | float, *, sensitivity: int) -> NoiseLaw:
    """Return discrete Laplace noise: the chance of x is proportional to ``lambda^|x|``.

    With ``lambda = exp(-epsilon / D)`` whole sums of L1 sensitivity D are epsilon-private, all coordinates together;
    the noise's deviation is ``sqrt(2 lambda) / (1 - lambda)``. D is w if a person with at most w likes is added or
    removed, 2 w if one is replaced. Source: Ghosh, Roughgarden and Sundararajan (2009), the geometric mechanism.

    >>> round(discrete_laplace(Fraction(1), sensitivity=20).deviation, 2)
    28.28
    """
    ratio = _ratio(epsilon, sensitivity)
    with localcontext(prec=_DIGITS):
        side = _falling(Decimal(1), lambda _: ratio)
    return _noise_law(1 - len(side), [*side[:0:-1], *side])


def discrete_gaussian(deviation: float) -> NoiseLaw:
    """Return discrete Gaussian noise: the chance of x is proportional to ``exp(-x^2 / (2 sigma^2))``.

    `gaussian_deviation` says which sigma keeps (epsilon, delta); the noise's own deviation is the same but for a part
    in 1e15 from 2 on. Source: Canonne, Kamath and Steinke (2020).

    >>> round(discrete_gaussian(10.0).deviation, 9)
    10.0
    """
    _require_deviation(deviation)
    with localcontext(prec=_DIGITS):
        square = Decimal(deviation) ** 2
        steps = [(-1 / (2 * square)).exp(), (-1 / square).exp()]

        def factor(_: int) -> Decimal:
            step = steps[0]
            steps[0] *= steps[1]
            return step

        side = _falling(Decimal(1), factor)
    return _noise_law(1 - len(side), [*side[:0:-1], *side])


def polya_share(epsilon: Fraction | float, *, sensitivity: int, honest: int) -> NoiseLaw:
    """Return one device's share of discrete Laplace noise: the difference of two negative binomial (Pólya) draws.

    ``NB(r, lambda)`` has chances proportional to ``lambda^x Gamma(x + r) / x!``; with ``r = 1 / honest``, shares of so
    many devices add up to one dose of `discrete_laplace`, exactly. Everybody's shares add up to more: whoever else took
    part may know or leave out a share.
    Source: Goryczka and Xiong (2017); a geometric number is the sum of Pólya numbers (Feller).

    >>> share = polya_share(Fraction(1), sensitivity=20, honest=500)
    >>> round(share.deviation * 1000**0.5, 1)
    40.0
    """
    ratio = _ratio(epsilon, sensitivity)
    require_whole("devices whose noise suffices", honest, 1, MOST_ITEMS**2)
    with localcontext(prec=_DIGITS):
        shape = 1 / Decimal(honest)
        weights = _falling(Decimal(1), lambda value: ratio * (value - 1 + shape) / value)
    return _noise_law(0, weights, two_sided=True)


def skellam_share(deviation: float, *, honest: int) -> NoiseLaw:
    """Return one device's share of Skellam noise: the difference of two Poisson draws of mean ``sigma^2 / (2 honest)``.

    Shares of so many devices add up to one dose, a Skellam law of that deviation, exactly; shares that are Gaussian do
    not add up to a discrete Gaussian. `skellam_deviation` says which sigma keeps (epsilon, delta).
    Source: Agarwal, Kairouz and Liu (2021).
    """
    _require_deviation(deviation)
    require_whole("devices whose noise suffices", honest, 1, MOST_ITEMS**2)
    with localcontext(prec=_DIGITS):
        mean = Decimal(deviation) ** 2 / (2 * honest)
        weights = _falling(Decimal(1), lambda value: mean / value)
        # Below the mean the first weights are nothing beside the largest, and `_falling` ends above it.
    return _noise_law(0, weights, two_sided=True)


def gaussian_delta(deviation: float, *, changes: int, epsilon: Fraction | float) -> float:
    """Return delta of discrete Gaussian noise on sums that change by one in s coordinates.

    They are w if a person is added or removed, 2 w if one is replaced. The loss is ``(2 S + s) / (2 sigma^2)``, with S
    a sum of s independent discrete Gaussians, whatever the signs of the changes; so ``delta = sum of P(S) (1 -
    exp(epsilon - loss))_+``, P(S) by one transform of whole numbers.
    Source: Canonne, Kamath and Steinke (2020), theorem 7; a sum of coordinates makes it one-dimensional.

    >>> f"{gaussian_delta(10.0, changes=4, epsilon=0.5):.3e}"
    '5.116e-04'
    """
    _require_deviation(deviation)
    central = _central(epsilon)
    require_whole("coordinates that change", changes, 1, MOST_ITEMS)
    places, chances = _gaussian_chances(deviation)
    square = deviation**2
    if deviation * math.sqrt(changes) > _SUMMED:  # Too many sums to look at one by one: a grid, as elsewhere
        grid = 1 / (deviation * _FINENESS)
        coarse = _on_grid((2 * places + 1) / (2 * square), chances, grid, changes)
        return lattice_delta([coarse], grid, 0.0, central) + changes * 1e-40
    return lattice_delta([(places, chances, changes)], 1 / square, changes / (2 * square), central) + changes * 1e-40


def _gaussian_chances(deviation: float) -> tuple[Ints, Floats]:
    """Return the values of a discrete Gaussian and their chances; tails beyond 14 deviations hold less than 1e-43."""
    radius = math.ceil(_REACH * deviation) + _REACH
    places = np.arange(-radius, radius + 1)
    weights = np.exp(-np.square(places / deviation) / 2)
    return places, weights / weights.sum()


def gaussian_deviation(*, changes: int, epsilon: Fraction | float, delta: float) -> float:
    """Return the smallest sigma, to a hundred-thousandth of it, with which `gaussian_delta` keeps delta.

    >>> round(gaussian_deviation(changes=100, epsilon=Fraction(1), delta=1e-6), 2)
    42.25
    """
    return _least(
        lambda deviation: gaussian_delta(deviation, changes=changes, epsilon=epsilon), delta, math.sqrt(changes)
    )


def skellam_delta(deviation: float, *, changes: int, epsilon: Fraction | float) -> float:
    """Return delta of Skellam noise on sums that change by one in some coordinates.

    ``deviation`` is that of the dose, which the honest devices' shares add up to. A coordinate's loss is ``ln(P(z) /
    P(z + 1))`` with ``P(z) = exp(-sigma^2) I_z(sigma^2)`` and z drawn from P. Losses are put on a grid so that neither
    law loses: a chance p of loss L is split between the losses on either side, and the other law's ``p exp(-L)``, too,
    which can only tell more.
    Source: Agarwal, Kairouz and Liu (2021) for the law; Doroshenko et al. (2022) for the splitting.
    """
    _require_deviation(deviation)
    central = _central(epsilon)
    require_whole("coordinates that change", changes, 1, MOST_ITEMS)
    grid = 1 / (deviation * _FINENESS)
    rounded = _ROUNDED + _DUST * deviation
    losses = _on_grid(*_skellam_losses(deviation), grid, changes)
    return lattice_delta([losses], grid, 0.0, central, rounded) + changes * 1e-40


@lru_cache(maxsize=2)  # Large ones take megabytes
def _skellam_losses(deviation: float) -> tuple[Floats, Floats]:
    """Return the losses of a coordinate that changes by one, and their chances."""
    falls = _bessel_falls(deviation**2, math.ceil(_REACH * deviation) + 60)
    # Losses of z = ..., -2, -1, 0, 1, ... and what P(z) is: P(-1) = P(1) is P(0) less one fall, whose loss is negative
    losses, depth = np.append(-falls[::-1], falls), np.append(0, np.cumsum(falls))
    law = np.exp(-np.append(depth[:0:-1], depth[:-1]))
    usable = law > 0  # others are less than e^-745
    return losses[usable], law[usable] / law.sum()


def sums_delta(sums: Mapping[float, int], *, epsilon: Fraction | float, devices: bool) -> float:
    """Return delta of several rounds of sums, which may follow from one another: of each deviation, how many change.

    Rounds under one deviation are one release of all coordinates that change in any of them. Those of several are put
    on one grid, as in `skellam_delta`, whose law it is where ``devices`` add the noise.
    """
    law = skellam_delta if devices else gaussian_delta
    if len(sums) == 1:
        ((deviation, changes),) = sums.items()
        return law(deviation, changes=changes, epsilon=epsilon)
    central, grid = _central(epsilon), 1 / (max(sums) * _FINENESS)
    summands = list[Summand]()
    for deviation, changes in sorted(sums.items()):
        _require_deviation(deviation)
        require_whole("coordinates that change", changes, 1, MOST_ITEMS)
        if devices:
            losses, chances = _skellam_losses(deviation)
        else:
            places, chances = _gaussian_chances(deviation)
            losses = (2 * places + 1) / (2 * deviation**2)
        summands.append(_on_grid(losses, chances, grid, changes))
    rounded = _ROUNDED + _DUST * max(sums)
    return min(1.0, lattice_delta(summands, grid, 0.0, central, rounded) + sum(sums.values()) * 1e-40)


def on_public_grid(deviation: float) -> float:
    """Return the least deviation on a public grid that is not smaller, so that all processors have the same one."""
    step = 2.0 ** math.floor(math.log2(deviation)) / _STEPS
    return math.ceil(deviation / step) * step


def _bessel_falls(argument: float, count: int) -> Floats:
    """Return ``ln(I_z(x) / I_(z + 1)(x))`` for z = 0, 1, ..., count - 1."""
    # By the recurrence from above, whose terms are positive, and which forgets what it starts with
    ratio = argument / (count + 0.5 + math.hypot(count + 1.5, argument))
    ratios = [ratio]
    for order in range(count, 0, -1):
        ratio = argument / (2 * order + argument * ratio)
        ratios.append(ratio)
    return np.asarray(-np.log(ratios[:0:-1]), np.float64)


def skellam_deviation(*, changes: int, epsilon: Fraction | float, delta: float) -> float:
    """Return the smallest sigma, to a hundred-thousandth of it, with which `skellam_delta` keeps delta.

    >>> 42.2 < skellam_deviation(changes=100, epsilon=Fraction(1), delta=1e-6) < 42.3
    True
    """
    return _least(
        lambda deviation: skellam_delta(deviation, changes=changes, epsilon=epsilon), delta, math.sqrt(changes)
    )


def dummies_delta(coins: int, rate: float, *, likes: int, epsilon: Fraction | float) -> float:
    """Return delta of dummies: every item's count is what people like plus ``Bin(coins, rate)``, one person replaced.

    ``coins`` is the number of dummies that could be sent of an item: devices times coins of each. At most w counts rise
    by one and w fall. A rising one has loss ``ln((b + 1)(1 - q) / ((coins - b) q))``, a falling one ``ln((coins - b +
    1) q / (b (1 - q)))``, with b drawn from ``Bin(coins, q)``; both are without bound where b is at its end. Losses are
    put on a grid as in `skellam_delta`.
    Source: Balcer and Cheu (2020), Cheu and Zhilyaev (2021), for dummies in the shuffled model; delta is exact here.
    """
    from scipy.stats import binom  # noqa: PLC0415 (as above)

    central = _central(epsilon)
    require_whole("dummies of an item", coins, 1, MOST_ITEMS**2)
    require_whole("likes of a person", likes, 1, MOST_ITEMS)
    if not 0 < rate < 1:
        raise InputError(f"rate of dummies is {shown(rate)}; give a chance between 0 and 1")
    deviation = math.sqrt(coins * rate * (1 - rate))
    if deviation > LARGEST_DEVIATION:
        raise InputError(f"dummies of an item deviate by {deviation:g}; up to {LARGEST_DEVIATION:g} are looked at")
    radius = _REACH * deviation + 60
    low, high = max(0, math.floor(coins * rate - radius)), min(coins, math.ceil(coins * rate + radius))
    counts = np.arange(low, high + 1)
    chances = binom.pmf(counts, coins, rate)
    beyond = float(binom.cdf(low - 1, coins, rate) + binom.sf(high, coins, rate))
    odds = math.log(rate) - math.log1p(-rate)
    grid = 1 / (max(deviation, 1) * _FINENESS)
    rising, falling = counts < coins, counts > 0
    more: Floats = (counts[rising] + 1) / (coins - counts[rising])
    fewer: Floats = (coins - counts[falling] + 1) / counts[falling]
    up, down = np.log(more) - odds, np.log(fewer) + odds
    missing = likes * float(2 * beyond + chances[~rising].sum() + chances[~falling].sum())
    if missing >= 1:
        return 1.0
    summands = [
        _on_grid(up, chances[rising], grid, likes),
        _on_grid(down, chances[falling], grid, likes),
    ]
    return min(1.0, lattice_delta(summands, grid, 0.0, central) + missing)


class Dummies(NamedTuple):
    """How many dummies each device sends of every item: one for each of its coins that falls."""

    coins: int  # Coins of a device for an item
    rate: float  # Chance q that a coin falls

    @property
    def per_item(self) -> float:
        """Mean number of dummies that a device sends of an item."""
        return self.coins * self.rate


def least_dummies(*, devices: int, likes: int, epsilon: Fraction | float, delta: float) -> Dummies:
    """Return the fewest dummies with which shuffled ones keep (epsilon, delta), by the number of honest devices.

    >>> least_dummies(devices=10_000, likes=50, epsilon=Fraction(1), delta=1e-6).coins
    1
    """
    require_whole("devices that send dummies", devices, 1, MOST_ITEMS)
    require_chance(delta)

    def holds(coins: int, rate: float) -> bool:
        return dummies_delta(coins * devices, rate, likes=likes, epsilon=epsilon) <= delta

    coins = 1
    if not holds(1, 0.5):
        sigma = gaussian_deviation(changes=2 * likes, epsilon=epsilon, delta=delta)
        coins = max(1, math.ceil(4 * sigma**2 / devices))
        while not holds(coins, 0.5):
            coins += 1 + coins // 1000
    low, high = math.log(1e-12), math.log(0.5)
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(coins, math.exp(middle)) else (middle, high)
    return Dummies(coins, math.exp(high))


def _on_grid(losses: Floats, chances: Floats, grid: float, count: int) -> Summand:
    """Return losses on a grid, each split between its neighbours so that both laws keep their chances."""
    # With p of loss L and p exp(-L) of the other law: p1 + p2 = p at L1 <= L <= L2 and p1 exp(-L1) + p2 exp(-L2) = p
    # exp(-L). Whoever sees the two losses can merge them, so that they tell no less.
    below = np.floor(losses / grid)
    share = np.clip(np.expm1(below * grid - losses) / math.expm1(-grid), 0, 1)
    places = np.concatenate([below, below + 1]).astype(np.int64)
    lowest = int(places.min())
    law = np.bincount(places - lowest, np.concatenate([chances * (1 - share), chances * share])).astype(np.float64)
    return np.arange(lowest, lowest + law.size, dtype=np.int64), law, count


def lattice_delta(
    summands: Sequence[Summand], grid: float, offset: float, epsilon: float, rounded: float = _ROUNDED
) -> float:
    """Return ``sum of P(T) (1 - exp(epsilon - loss))_+`` for a loss of ``offset + grid T``, T a sum, from above."""
    summands = [(places[chances > 0], chances[chances > 0], count) for places, chances, count in summands]
    epsilon -= _DUST * (epsilon + offset)
    edge = (epsilon - offset) / grid
    if edge >= sum(count * int(places.max()) for places, _, count in summands):
        return 0.0
    laws = [(places, np.log(chances), count) for places, chances, count in summands]
    theta = _tilt(laws, edge)
    # Tilted by exp(theta T) the sums that matter are the likeliest, and a small delta does not drown in rounding.
    tilted, log_mass, mean, variance, spread = list[Summand](), 0.0, 0.0, 0.0, 0.0
    for places, logs, count in laws:
        weights, logarithm = _tilted(places, logs, theta)
        middle = float(weights @ places)
        log_mass, mean = log_mass + count * logarithm, mean + count * middle
        variance += count * max(float(weights @ np.square(places - middle)), 1e-9)
        spread = max(spread, float(np.abs(places - middle).max()))
        tilted.append((places, weights, count))
    radius = math.ceil(_REACH * math.sqrt(variance) + spread) + 8
    size = transform_size(2 * radius)
    law, error = sum_law(tilted, size)
    first, last = math.floor(edge) + 1, math.floor(mean) + size // 2 - 1
    if last - first >= size:  # nearly all sums are above the edge
        return 1.0
    sums = np.arange(first, max(last, first) + 1)
    gains = -np.expm1(epsilon - offset - grid * sums) * np.exp(log_mass - theta * sums)
    delta = float(gains @ (law[sums % size] + error))
    # What lies above the circle, by Chernoff's inequality; what wraps from below only adds.
    beyond = math.inf
    for steps in (0, 2, 4, 8, 14):
        extra = theta + steps / math.sqrt(variance)
        growth = sum(count * _tilted(places, logs, extra)[1] for places, logs, count in laws)
        beyond = min(beyond, math.exp(min(growth - extra * last, 700)))
    counts = sum(count for *_, count in summands)
    return min(1.0, delta * math.exp(1e-9 + rounded * counts) + beyond)


def _tilted(places: Ints, logs: Floats, theta: float) -> tuple[Floats, float]:
    """Return a law, of which these are the logarithms, tilted by ``exp(theta x)``, and the logarithm of its mass."""
    logs = logs + theta * places
    top = float(logs.max())
    weights = np.exp(logs - top)
    mass = float(weights.sum())
    return weights / mass, math.log(mass) + top


def _tilt(summands: Sequence[tuple[Ints, Floats, int]], edge: float) -> float:
    """Return theta >= 0 at which the tilted sums have their mean at ``edge``; 0 if it is above without."""
    fails, holds = -math.inf, math.inf  # Between them nothing is known: the mean rises in theta

    def reaches(theta: float) -> bool:
        return theta >= holds or (theta > fails and missing(theta)[0] <= 0)

    def missing(theta: float) -> tuple[float, float]:
        nonlocal fails, holds
        mean = variance = 0.0
        for places, logs, count in summands:
            weights = _tilted(places, logs, theta)[0]
            middle = float(weights @ places)
            mean, variance = mean + count * middle, variance + count * float(weights @ np.square(places - middle))
        fails, holds = (fails, min(holds, theta)) if mean >= edge else (max(fails, theta), holds)
        return edge - mean, variance

    gap, variance = missing(0.0)
    if gap <= 0:
        return 0.0
    # Newton's steps come near, so that halving, whose result does not depend on them, looks at little more than its end
    near = 0.0
    for _ in range(_STEPS_OF_NEWTON):
        near += gap / max(variance, 1e-9)
        if not fails < near < min(holds, 1e3):
            break
        gap, variance = missing(near)
    for theta in (near * (1 - 1e-9), near * (1 + 1e-9)):
        if fails < theta < holds:
            missing(theta)
    return _halved(reaches)


def _halved(reaches: Callable[[float], bool]) -> float:
    """Return the least argument above 0, to 2^-31 of it, that reaches what all larger ones do, too."""
    low, high = 0.0, 1e-6
    while not reaches(high) and high < 1e3:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _least(delta_of: Callable[[float], float], delta: float, start: float) -> float:
    """Return the least argument, to a hundred-thousandth, at which a falling delta was evaluated and holds."""
    require_chance(delta)
    high = start
    while delta_of(high) > delta:
        high *= 2
        if high > LARGEST_DEVIATION:
            raise InputError(f"delta {delta:g} needs noise of deviation above {LARGEST_DEVIATION:g}; raise epsilon")
    if delta_of(LEAST_DEVIATION) <= delta:
        return LEAST_DEVIATION
    low = max(high / 2, LEAST_DEVIATION)
    while delta_of(low) <= delta:
        low, high = max(low / 2, LEAST_DEVIATION), low
    while high / low > 1 + 1e-5:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
    return high


def _require_epsilon(epsilon: Fraction | float) -> Fraction:
    exact = parse_epsilon(epsilon)
    if exact is None:
        raise InputError("epsilon of noise is inf; give a number above 0, or add no noise")
    return exact


def _central(epsilon: Fraction | float) -> float:
    """Return an epsilon [nats] as a float that is not above it."""
    exact = min(_require_epsilon(epsilon), Fraction(1e300))
    return nearest if Fraction(nearest := float(exact)) <= exact else math.nextafter(nearest, 0)


def _require_deviation(deviation: float) -> None:
    if type(deviation) not in {float, np.float64} or not LEAST_DEVIATION <= deviation <= LARGEST_DEVIATION:
        raise InputError(
            f"deviation of noise is {shown(deviation)}; give a number from {LEAST_DEVIATION:g} to {LARGEST_DEVIATION:g}"
        )
