"""Privacy amplification by shuffling, certified from above: what reports say of a device if nobody knows who sent it.

Every device runs the same local randomizer under epsilon0, a shuffler takes the senders away, and the server sees the
multiset of n reports. One device's ratings are replaced; the central (epsilon, delta) holds for what the server sees.

A bound from above is one of `TwoLevels`, `FiniteChannel` and `AnyRandomizer`; `BitsExactly`, `LevelsFromBelow` and
`KnownOthers` say, for audits, how much of it is really there. `shuffled_delta`, `shuffled_epsilon` and
`largest_local_epsilon` ask any of them; `best_set` also chooses how many values a report of the set mechanism names.
Whatever is rounded, cut off or put on a grid here is counted towards more delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import permutations
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.budget import as_float, parse_epsilon
from coordinator.protocol.channels import DUST, LARGEST_EPSILON
from coordinator.protocol.checked import require_whole, shown
from coordinator.protocol.errors import InputError

MOST_ANSWERS = 1 << 40  # Devices that answer, at most
_FINENESS = 24  # Places of the grid in one standard deviation of a summand, tilted
_COARSE = 6  # And of the one that tells which of many laws are not worth the fine one
_REACH = 8  # Standard deviations of the tilted sum on either side that a circle holds; what lies beyond is counted, too
_MOST_PLACES = 1 << 18  # Places that are transformed at most; where more were needed the grid is coarser, delta larger
_MOST_TERMS = 1 << 18  # Frequencies times values that are looked at one by one, at most: more are one transform
_MOST_CIRCLE = 1 << 31  # Places of any circle at most: products of two of them are whole numbers of 64 bits
_EVERY_SUM = 1 << 16  # A circle of up to so many places holds every sum there is
_EVERY_WAY = 20_000  # Ways in which summands can fall that are looked at one by one, where few are not 0
_RARE = -40.0  # Logarithm of a chance that is added as it is
_UNIT = 1e-15  # Several units in the last place of a float: what one operation of a transform may err by
_DUST = 1e-14  # Share by which a summand is raised, and a chance may be too small: what exponentials of up to 60 round
_SLACK = 1e-9  # Share by which every delta is raised, for what single operations round
_TOLERANCE = 1e-6  # An epsilon at a delta is searched for to this share of it, and rounded up


class ShufflerBound(Protocol):
    """What `shuffled_delta` and the others ask: a randomizer, and how its delta is bounded."""

    def delta(self, epsilon: float, local_epsilon: float, devices: int) -> float:
        """Return the bound on delta at a central epsilon below the local one [nats], with so many devices."""
        ...


LocalBounds: TypeAlias = Callable[[float], ShufflerBound]
"""A local epsilon [nats] to the randomizer that devices would run under it, where that depends on it."""


@dataclass(frozen=True, slots=True)
class TwoLevels:
    """A local randomizer whose every report is either e^epsilon0 times as likely as elsewhere, or not: from above.

    Reports have chances ``R_x(y) = omega(y) (e if y meets x else 1) / Z``, with ``e = exp(epsilon0)``, a public law
    omega that is the same for all inputs x, and ``Z = 1 + (e - 1) pi``. With chance 1 / Z a device draws from omega
    whatever it holds; all others may be revealed (the privacy blanket). Then, with ``E = exp(epsilon)``,

        delta(epsilon) <= E[(X_1 + ... + X_n)_+] / n,

    where the X are independent and take the values 0 with chance ``1 - 1/Z``, ``-e (E-1)`` with ``(pi - kappa)/Z``,
    ``-(E-1)`` with ``(1 - pi - kappa)/Z``, ``e - E`` with ``kappa/Z`` and ``1 - e E`` with ``kappa/Z``. Both directions
    are equal. The bound rises in kappa.
    Source: Balle, Bell, Gascón and Nissim (CRYPTO 2019), the privacy blanket; the law of X follows by counting which of
    two inputs a report meets.

    >>> bits = one_bit_levels()
    >>> shuffled_epsilon(bits, local_epsilon=Fraction(1), devices=1000, delta=1e-6) < 0.1488
    True
    """

    pi: float  # Chance under omega that a report meets an input, the same for every input; above 0 and below 1
    # Largest chance under omega, over two inputs, that a report meets the first only; 0 to the smaller of pi and 1 - pi
    kappa: float
    # Chance under omega that a report meets three different inputs, None if unknown; for `LevelsFromBelow`
    common: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.pi < 1 or not 0 <= self.kappa <= min(self.pi, 1 - self.pi) * (1 + 1e-12):
            raise InputError(
                f"pi is {self.pi:g} and kappa {self.kappa:g}; pi is a chance between 0 and 1, kappa one from 0 to pi "
                "and to 1 - pi"
            )

    def delta(self, epsilon: float, local_epsilon: float, devices: int) -> float:
        """Return the bound; see `ShufflerBound.delta`."""
        odds, less, more = math.exp(local_epsilon), math.expm1(epsilon), math.expm1(local_epsilon)  # e, E - 1, e - 1
        kappa = self.kappa * (1 + _DUST)  # in which the bound rises, so that what pi and kappa were rounded by is in it
        masses = max(self.pi - kappa, 0.0), max(1 - self.pi - kappa, 0.0), kappa, kappa, more * self.pi
        # No value and no chance is a difference of nearly equal numbers: e - E is E (exp(epsilon0 - epsilon) - 1)
        above = math.exp(epsilon) * math.expm1(local_epsilon - epsilon)
        values = np.array([-odds * less, -less, above, -math.expm1(local_epsilon + epsilon), 0.0])
        return _mean_excess(values + _DUST * np.abs(values), np.array(masses) / (1 + more * self.pi), devices)


def one_bit_levels() -> TwoLevels:
    """Return the levels of one bit by randomized response: pi is 1/2, and kappa, too, as two bits may always differ."""
    return TwoLevels(0.5, 0.5)


def kary_levels(values: int) -> TwoLevels:
    """Return the levels of k-ary randomized response: pi and kappa are ``1 / values``."""
    return TwoLevels(1 / values, 1 / values, 0.0 if values > 2 else None)


def unary_levels(local_epsilon: float) -> TwoLevels:
    """Return the levels of optimized unary encoding: pi is ``1 / (e + 1)``, kappa ``e / (e + 1)^2``."""
    pi = 1 / (math.exp(local_epsilon) + 1)
    return TwoLevels(pi, pi * (1 - pi), pi**3)


def hash_levels(buckets: int) -> TwoLevels:
    """Return the levels of hashing into g buckets, with seeds of one's own: pi is 1/g, kappa ``(1 - 1/g) / g``."""
    return TwoLevels(1 / buckets, (1 - 1 / buckets) / buckets, buckets**-3.0)


def hadamard_levels(rows: int = 1) -> TwoLevels:
    """Return the levels of Hadamard response in t uniform rows of one's own: those of hashing into 2^t buckets."""
    return hash_levels(1 << rows)


def subset_levels(values: int, padded: int, subset_size: int) -> TwoLevels:
    """Return the levels of subset selection: of the set mechanism, of pairs, and with one private value of `subset`.

    With ``h_j = C(values - j padded, k) / C(values, k)``, the chance that a uniform subset of k values avoids j sets
    that share nothing, pi is ``1 - h_1`` and kappa ``h_1 - h_2``: sets are worst when they share nothing. Dummies are
    among the ``values``; ``padded`` of them are a device's own, and a report names ``subset_size``.
    Source: hypergeometric chances; PrivSet (Wang et al., 2018) and subset selection (Ye and Barg, 2018).
    """
    if padded < 1 or subset_size < 1 or padded + subset_size > values:
        raise InputError(
            f"{padded} values of {values} are a device's own and {subset_size} are named; give at least 1 each, and no "
            "more together than there are"
        )
    smaller, larger = sorted((padded, subset_size))
    avoid = Fraction(math.perm(values - larger, smaller), math.perm(values, smaller))
    every = math.comb(values, subset_size)
    # Where there is no room for two sets that share nothing, together they hold every value, and no report avoids both.
    both, three = (Fraction(math.comb(max(values - sets * padded, 0), subset_size), every) for sets in (2, 3))
    common = float(1 - 3 * avoid + 3 * both - three) if 3 * padded <= values else None
    return TwoLevels(float(1 - avoid), float(avoid - both), common)


@dataclass(frozen=True, slots=True)
class FiniteChannel:
    """A local randomizer stated as a matrix of chances, of at most `MOST_ROWS` inputs: from above, by its own blanket.

    With ``m(y) = min_x R_x(y)``, gamma their sum and ``E = exp(epsilon)``,

        delta(epsilon) <= max over ordered pairs x0, x1 of E[(X_1 + ... + X_n)_+] / n,

    where the X are independent, 0 with chance ``1 - gamma`` and ``(R_x0(y) - E R_x1(y)) / m(y)`` with chance ``m(y)``.
    Source: Balle, Bell, Gascón and Nissim (CRYPTO 2019), theorem 5.3 and the blanket of a finite channel.
    """

    # Chances of every report, one row an input; rows sum to 1, as `ExactChannel.chances` returns them
    rows: Sequence[Sequence[Fraction | float]]
    # Of reports that happen: chances over the least one, shape (inputs, reports), that one, and what is left of 1
    _ratios: Floats2 = field(init=False, repr=False, compare=False)
    _least: Floats = field(init=False, repr=False, compare=False)
    _rest: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 2 <= len(self.rows) <= MOST_ROWS or len({len(row) for row in self.rows}) != 1:
            raise InputError(
                f"a channel has {len(self.rows)} rows, or some of several lengths; give 2 to {MOST_ROWS}, one an input"
            )
        chances = np.array([[float(chance) for chance in row] for row in self.rows])
        if not (chances >= 0).all() or not (np.abs(chances.sum(axis=1) - 1) <= float(DUST)).all():
            raise InputError("a row of the channel is no distribution; give chances from 0 on that sum to 1")
        if ((chances == 0).any(axis=0) & (chances > 0).any(axis=0)).any():
            raise InputError(
                "a report has chance 0 of one input and not of another: the channel has no epsilon, and shuffling "
                "makes none; add noise"
            )
        # In fractions, each rounded once: 1 less the sum of rounded chances may be anything
        columns = [tuple(map(Fraction, column)) for column in zip(*self.rows, strict=True) if any(column)]
        least = [min(column) for column in columns]
        ratios = [[float(chance / low) for chance in column] for column, low in zip(columns, least, strict=True)]
        object.__setattr__(self, "_ratios", np.array(ratios).T)
        object.__setattr__(self, "_least", np.array([float(low) for low in least]))
        object.__setattr__(self, "_rest", max(float(1 - sum(least)), 0.0))

    @property
    def local_epsilon(self) -> float:
        """Largest log-ratio of two inputs' chances of one report [nats]."""
        return float(np.log(self._ratios.max()))

    def delta(self, epsilon: float, local_epsilon: float, devices: int) -> float:  # noqa: ARG002 (the matrix has its own)
        """Return the bound; see `ShufflerBound.delta`."""
        laws = dict[tuple[bytes, bytes], tuple[Floats, Floats]]()
        for log_ratio, other in permutations(self._ratios, 2):
            less = math.exp(epsilon) * other
            values = log_ratio - less + _DUST * (log_ratio + less)
            order = np.lexsort((self._least, values))
            key = values[order].tobytes(), self._least[order].tobytes()
            if key not in laws:  # Pairs that differ in names of reports only are one
                merged, inverse = np.unique(values, return_inverse=True)
                laws[key] = np.append(merged, 0), np.append(np.bincount(inverse, self._least), self._rest)
        # A coarse grid is from above, too, and quick: a pair that has no more on it than another on a fine one is out
        rough = [(_mean_excess(*law, devices, fineness=_COARSE), law) for law in laws.values()]
        largest = 0.0
        for coarse, law in sorted(rough, key=lambda pair: -pair[0]):
            if coarse <= largest:
                break
            largest = max(largest, _mean_excess(*law, devices))
        return largest


MOST_ROWS = 32  # Inputs of a channel that is stated as a matrix: all ordered pairs of them are looked at
_MOST_COUNTS = 20_000  # Numbers of clones that are looked at one by one


@dataclass(frozen=True, slots=True)
class AnyRandomizer:
    """Any epsilon0-private local randomizer, the same for all devices: from above, by clones.

    Each of the other n - 1 devices is with chance c a clone: it answers as one of the two inputs in question would, by
    a fair coin. With ``C ~ Bin(n - 1, c)``, ``A ~ Bin(C, 1/2)`` and D = 1 with chance ``e / (e + 1)``, what is seen is
    ``(A + D, C - A + 1 - D)``, against the same with D and 1 - D exchanged; ``c = exp(-epsilon0)``. Given C,

        delta_C = [e S(k - 2) + S(k - 1) - E (S(k - 2) + e S(k - 1))] / (e + 1),

    ``S(j) = P(Bin(C, 1/2) > j)`` and ``k = floor((C + 1) (e E - 1) / ((e - 1) (E + 1))) + 1``. It falls in C.

    A larger c, ``2 / (e + 1)``, was published for every randomizer (Feldman, McMillan and Talwar, SODA 2023) and taken
    back by that paper's errata; it holds where ``2 R_x(y) / (R_x0(y) + R_x1(y))`` is never below it: for bits and for
    k-ary randomized response, whose `TwoLevels` are smaller still.
    Source: Feldman, McMillan and Talwar (FOCS 2021), theorem 3.2, evaluated exactly.
    """

    # Chance c, where more than ``exp(-epsilon0)`` is proven: at most the least ``2 R_x(y) / (R_x0(y) + R_x1(y))``
    clone: float | None = None

    def delta(self, epsilon: float, local_epsilon: float, devices: int) -> float:
        """Return the bound; see `ShufflerBound.delta`."""
        from scipy.stats import binom  # noqa: PLC0415 (levels are stated without it)

        odds, central, others = math.exp(local_epsilon), math.exp(epsilon), devices - 1
        clone = math.exp(-local_epsilon) if self.clone is None else self.clone
        if not 0 < clone <= 2 / (odds + 1) * (1 + 1e-12):
            raise InputError(
                f"chance of a clone is {clone:g}; no randomizer under epsilon {local_epsilon:g} has more than "
                f"{2 / (odds + 1):g}: lower it, or leave it out"
            )
        radius = 9 * math.sqrt(others * clone * (1 - clone)) + 40
        low, high = max(0, math.floor(others * clone - radius)), min(others, math.ceil(others * clone + radius))
        beyond = float(binom.cdf(low - 1, others, clone) + binom.sf(high, others, clone))
        clones = np.arange(low, high + 1)
        if clones.size <= _MOST_COUNTS:
            chances = binom.pmf(clones, others, clone)
        else:  # Blocks of numbers, each as revealing as its smallest
            clones = np.unique(np.linspace(low, high + 1, _MOST_COUNTS).astype(np.int64))
            chances, clones = np.diff(binom.cdf(clones - 1, others, clone)), clones[:-1]
        # k is C + 2 less the next whole number from ``(C + 1) (e - E) / ((e - 1) (E + 1))`` on
        less = central * math.expm1(local_epsilon - epsilon) / (math.expm1(local_epsilon) * (central + 1))
        least = clones + 2 - np.ceil((clones + 1) * less)
        above, at = (np.where(least < j, 1.0, binom.sf(least - j, clones, 0.5)) for j in (1, 2))
        # Neither e - E nor e E - 1 is a difference of nearly equal numbers; tails are correct to more digits than 1e-11
        gain = central * math.expm1(local_epsilon - epsilon) / (odds + 1) * at * (1 + 1e-11)
        deltas = np.maximum(gain - math.expm1(local_epsilon + epsilon) / (odds + 1) * above, 0)
        return float(chances @ deltas) * (1 + _SLACK) + beyond + 1e-14


@dataclass(frozen=True, slots=True)
class BitsExactly:
    """One bit by randomized response, exactly: the server sees the number S of ones, and knows the other devices' bits.

    With ``r`` of the other n - 1 devices holding 1, ``f = Bin(r, e/(e+1)) * Bin(n-1-r, 1/(e+1))`` (a convolution),
    ``P(s) = (e f(s-1) + f(s)) / (e+1)`` and ``Q(s) = (f(s-1) + e f(s)) / (e+1)``, delta is the larger of ``sum (P - E
    Q)_+`` and ``sum (Q - E P)_+``. No bound from above may lie below it.
    """

    ones: int = 0  # Number r of other devices that hold 1; 0 is the worst of 0, half and all

    def delta(self, epsilon: float, local_epsilon: float, devices: int) -> float:
        """Return delta itself, but for what floats round; see `ShufflerBound.delta`."""
        odds, central = math.exp(local_epsilon), math.exp(epsilon)
        require_whole("other devices that hold 1", self.ones, 0, devices - 1)
        others = np.convolve(
            _binomial(self.ones, odds / (odds + 1)), _binomial(devices - 1 - self.ones, 1 / (odds + 1))
        )
        before, here = np.append(0, others), np.append(others, 0)
        first_law, other = (odds * before + here) / (odds + 1), (before + odds * here) / (odds + 1)
        return float(max(np.maximum(p - central * q, 0).sum() for p, q in ((first_law, other), (other, first_law))))


def _binomial(count: int, chance: float) -> Floats:
    """Return a binomial law around its mean, without the tails that 14 standard deviations and 60 leave."""
    from scipy.stats import binom  # noqa: PLC0415 (as above)

    radius = 14 * math.sqrt(count * chance * (1 - chance)) + 60
    low, high = max(0, math.floor(count * chance - radius)), min(count, math.ceil(count * chance + radius))
    return np.asarray(binom.pmf(np.arange(low, high + 1), count, chance), np.float64)


@dataclass(frozen=True, slots=True)
class LevelsFromBelow:
    """A two-level randomizer from below: all other devices hold one third input x2, and the server knows that.

    ``delta >= E[(L_1 + ... + L_n)_+] / n`` with ``L = (R_x0(y) - E R_x1(y)) / R_x2(y)`` and y drawn from ``R_x2``, over
    eight classes of reports: which of the three inputs each meets. The largest of x2 = x0, x2 = x1 and, where
    `TwoLevels.common` says how, a third input is taken. It is computed on the grid of the bounds from above, which
    moves the epsilon that follows from it by some 1e-5: a measure of how tight they are, and no certificate.
    """

    levels: TwoLevels

    def delta(self, epsilon: float, local_epsilon: float, devices: int) -> float:
        """Return the largest delta of these cases; see `ShufflerBound.delta`."""
        odds, central = math.exp(local_epsilon), math.exp(epsilon)
        scale = 1 + math.expm1(local_epsilon) * self.levels.pi
        deltas = list[float]()
        for classes in self._classes():
            meets = np.array([[odds if met else 1.0 for met in classes_met] for classes_met in classes])
            values = (meets[:, 0] - central * meets[:, 1]) / meets[:, 2]
            chances = np.maximum(np.array(list(classes.values())), 0) * meets[:, 2] / scale
            deltas.append(_mean_excess(values, chances / chances.sum(), devices))
        return max(deltas)

    def _classes(self) -> Iterable[dict[tuple[bool, bool, bool], float]]:
        """Yield cases: which of x0, x1 and x2 a report meets, to its chance under omega."""
        pi, kappa, common = self.levels.pi, self.levels.kappa, self.levels.common
        both, neither = pi - kappa, 1 - pi - kappa
        pairs = {(True, True): both, (True, False): kappa, (False, True): kappa, (False, False): neither}
        yield {(first, second, first): chance for (first, second), chance in pairs.items()}
        yield {(first, second, second): chance for (first, second), chance in pairs.items()}
        if common is not None:
            every = [(first, second, third) for first, second in pairs for third in (True, False)]
            by_number = 1 - 3 * pi + 3 * both - common, pi - 2 * both + common, both - common, common
            yield {met: by_number[sum(met)] for met in every}


@dataclass(frozen=True, slots=True)
class KnownOthers:
    """Three inputs of any finite channel, exactly: all other devices hold the third one, and the server knows that.

    ``delta = E[(L_1 + ... + L_n)_+] / n`` with ``L = (R_x0(y) - E R_x1(y)) / R_x2(y)`` and y drawn from ``R_x2``, and
    the same with x0 and x1 exchanged; the larger one. It is computed on the grid of `LevelsFromBelow`.
    """

    rows: Sequence[Sequence[Fraction | float]]  # Chances of every report: of x0 and x1, which are told apart, and of x2

    def delta(self, epsilon: float, local_epsilon: float, devices: int) -> float:  # noqa: ARG002 (rows have their own)
        """Return the larger delta of both directions; see `ShufflerBound.delta`."""
        first, other, third = np.array([[float(chance) for chance in row] for row in self.rows])
        first, other, third = (row[third > 0] for row in (first, other, third))
        sides = ((p - math.exp(epsilon) * q) / third for p, q in ((first, other), (other, first)))
        return max(_mean_excess(values, third, devices) for values in sides)


Summand: TypeAlias = tuple[Ints, Floats, int]
"""Whole numbers that a summand takes, shape (k,), their chances, shape (k,), and how many such summands there are."""


def sum_law(summands: Sequence[Summand], size: int) -> tuple[Floats, float]:
    """Return the law of a sum on a circle of so many places, and a bound on the absolute error of an entry.

    Summands are independent whole numbers; sums that differ by a multiple of ``size`` share a place. There is a
    transform there for each law, and one back.
    """
    large, coefficients, error = _coefficients(summands, size)
    spectrum = np.zeros(size // 2 + 1, np.complex128)
    spectrum[large] = coefficients
    return np.fft.irfft(spectrum, size), error


def _coefficients(summands: Sequence[Summand], size: int, frequencies: Ints | None = None) -> tuple[Ints, Any, float]:
    """Return which coefficients of a sum's transform are not nothing, they, and the error of an entry of its law."""
    large: Ints = np.zeros(0, np.int64) if frequencies is None else frequencies
    logarithm = phase = slope = np.zeros(1)
    for number, (places, chances, count) in enumerate(summands):
        if frequencies is not None:
            spectrum = _transform(places, chances, size, large)
        else:
            spectrum = np.fft.rfft(np.bincount(places % size, chances, size))
            if not number:
                # Most coefficients are nothing, and squares tell which: their logarithms would take the most time
                squares = np.square(spectrum.real) + np.square(spectrum.imag)
                large = np.flatnonzero(squares > math.exp(2 * _BOTTOM / count - _SLACK))
            spectrum = spectrum[large]
        magnitude = np.maximum(np.abs(spectrum), 1e-300)
        logarithm = logarithm + count * np.log(magnitude)
        some = logarithm > _BOTTOM
        phase = (phase + count * np.angle(spectrum))[some]
        slope = (slope + count / magnitude)[some]
        logarithm, large = logarithm[some], large[some]
    # A coefficient z errs by some units in the last place times the log of the size, its power by count |z|^(count-1)
    # times that; and an entry of the law errs by no more than coefficients do in the mean. Powers below e^-80 are left
    # out: most of them are.
    power = np.exp(logarithm)
    error = _UNIT * (math.log2(size) + 4) * float(((1 + slope) * power).sum()) * 2 / size + math.exp(_BOTTOM)
    return large, power * np.exp(1j * phase), error


def _transform(places: Ints, chances: Floats, size: int, frequencies: Ints) -> Any:
    """Return a law's coefficients at some frequencies of a circle."""
    return np.exp(-2j * math.pi / size * (np.multiply.outer(frequencies, places % size) % size)) @ chances


def _frequencies(summand: Summand, size: int) -> Ints | None:
    """Return the frequencies at which a sum's transform can be more than nothing; None if they are too many."""
    places, chances, count = summand
    step, spread = 2 * math.pi / size, math.sqrt(float(chances @ np.square(places - float(chances @ places))))
    least = math.exp(_BOTTOM / count) - _SLACK
    # The magnitude moves by no more than the deviation times the way, so that whole stretches are ruled out by a look
    # at their middles, and halves of the others are looked at
    width = 1 << math.floor(math.log2(min(max(1 / (4 * step * spread), 1), size)))
    starts: Ints = np.arange(0, size // 2 + 1, width, dtype=np.int64)
    while starts.size * places.size <= _MOST_TERMS:
        magnitude = np.abs(_transform(places, chances, size, starts + width // 2))
        starts = starts[magnitude + step * spread * width / 2 > least]
        if width == 1:
            return starts
        width //= 2
        starts = np.add.outer(starts, (0, width)).ravel()
        starts = starts[starts <= size // 2]
    return None


_BOTTOM = -80.0  # Logarithm of what is nothing beside all sums


def transform_size(least: int) -> int:
    """Return a size of quick transforms that is not below ``least``: a power of two times 1, 3, 5, 9 or 15."""
    return min(factor << max(0, (-(-least // factor) - 1).bit_length()) for factor in (1, 3, 5, 9, 15))


def _mean_excess(values: Floats, chances: Floats, count: int, fineness: float | None = None) -> float:
    """Return ``E[(X_1 + ... + X_count)_+] / count`` of independent X, from above, and never above 1."""
    values, chances = values[chances > 0], chances[chances > 0]
    if values.max() <= 0:
        return 0.0
    if (few := _by_numbers(values, chances, count)) is not None:
        return few
    # Each value is split between two places of a grid so that the mean stays, which raises the mean of a convex
    # function; the law is tilted to mean 0, or a small delta would drown in the transform's error.
    deviation, most = _tilt(values, chances)[2], float(np.abs(values).max())
    for largest in (_MOST_CIRCLE, _MOST_PLACES):
        grid = deviation / (fineness or _FINENESS)
        size = 2 * _REACH * deviation * math.sqrt(count) / grid + 4 * most / grid
        whole = 2 * count * (most / grid + 1) + 2
        if whole <= max(_EVERY_SUM, min(size, largest)):
            size = whole
        elif size > largest:
            grid, size = grid * size / largest, largest
        circle = transform_size(math.ceil(size) + 8)
        places, split = _on_grid(values / grid, chances)
        theta, log_mass, spread = _tilt(places.astype(float), split)
        tilted = split * np.exp(theta * places - log_mass)
        frequencies = _frequencies((places, tilted, count), circle) if size > _MOST_PLACES else None
        if frequencies is not None or size <= _MOST_PLACES:
            break
    mean = _tilted_mean((places, tilted, count), circle, theta, frequencies)
    if size != whole:  # Sums from below that wrap only add; those above half the circle are missing
        mean += _beyond(places, tilted, count, theta, spread, circle // 2)
    rounded = _SLACK + _UNIT * count * (4 + float(np.abs(theta * places[tilted > 1e-60]).max()))
    return min(1.0, grid * mean / count * math.exp(min(count * log_mass + rounded, 700)))


def _by_numbers(values: Floats, chances: Floats, count: int) -> float | None:
    """Return `_mean_excess` by every number of summands with each value; None if too many are not 0."""
    from scipy.special import gammaln, xlog1py, xlogy  # noqa: PLC0415 (as above)

    rest, values, chances = float(chances[values == 0].sum()), values[values != 0], chances[values != 0]
    some, most = min(float(chances.sum()), 1.0), 0  # How many summands are not 0 in what is looked at
    while most < count and math.comb(most + 1 + values.size, values.size) <= _EVERY_WAY:
        most += 1
    mean = count * some
    if most < count and most * math.log(mean) - math.lgamma(most + 1) > _RARE:
        return None
    sums, logs, left = np.zeros(1), np.zeros(1), np.array([most])
    for value, logarithm in zip(values, np.log(chances), strict=True):
        ways = np.repeat(np.arange(left.size), left + 1)
        number = np.arange(ways.size) - np.repeat(np.cumsum(left + 1) - left - 1, left + 1)
        sums, left = sums[ways] + number * value, left[ways] - number
        logs = logs[ways] + number * logarithm - gammaln(number + 1)
    orders = np.append(0, np.cumsum(np.log(count - np.arange(most, dtype=float))))
    zeros = count - most + left
    logs += orders[most - left] + (xlogy(zeros, rest) if rest < 0.5 else xlog1py(zeros, -some))
    # More than these: at most the mean of their number, times the largest value
    beyond = 0.0 if most == count else values.max() * mean * math.exp(most * math.log(mean) - math.lgamma(most + 1))
    return min(1.0, float(np.maximum(sums, 0) @ np.exp(logs) + beyond) / count * (1 + _SLACK))


def _on_grid(values: Floats, chances: Floats) -> tuple[Ints, Floats]:
    """Return whole places, each once, and their chances: every value split between its neighbours."""
    below = np.floor(values)
    places, inverse = np.unique(np.concatenate([below, below + 1]).astype(np.int64), return_inverse=True)
    part: Floats = values - below
    split = np.bincount(inverse, np.concatenate([chances * (1 - part), chances * part]))
    return places[split > 0], np.asarray(split[split > 0], np.float64)


def _tilted_mean(summand: Summand, circle: int, theta: float, frequencies: Ints | None) -> float:
    """Return the sum of ``s exp(-theta s)`` times the chance of s, over sums s from 1 to half a circle, from above."""
    # For each coefficient the sum of s z^s has a closed form: no transform back is needed
    large, coefficients, error = _coefficients([summand], circle, frequencies)
    half_circle, exponents = circle // 2, np.append(2j * math.pi * large / circle, 0) - theta
    if theta * half_circle < 1e-3:  # where it loses digits, and ``exp(-x)`` is not above ``1 - x + x^2 / 2``
        pairs = half_circle * (half_circle + 1) / 2
        plain = pairs - theta * pairs * (2 * half_circle + 1) / 3 + (theta * pairs) ** 2 / 2
    else:
        plain = _sum_of_powers(np.array(-theta), half_circle)
    sums = np.full(exponents.size, plain, np.complex128)
    sums[exponents.imag != 0] = _sum_of_powers(exponents[exponents.imag != 0], half_circle)
    twice = np.where((large == 0) | (2 * large == circle), 1, 2) / circle
    return float((twice * coefficients * sums[:-1]).real.sum() + error * sums[-1].real)


def _sum_of_powers(exponents: Any, last: int) -> Any:
    """Return the sum of ``s exp(x s)`` over s from 1 to ``last``, for every exponent x other than 0."""
    growth = np.expm1(exponents)
    powers = last * np.exp(last * exponents) * growth - np.expm1(last * exponents)
    return np.exp(exponents) * powers / np.square(growth)


def _tilt(values: Floats, chances: Floats) -> tuple[float, float, float]:
    """Return theta >= 0 at which ``exp(theta x)`` tilts the law to mean 0, the log of its mass, and its deviation."""
    most = float(values.max())

    def mean(theta: float) -> float:
        return float((chances * values) @ np.exp(theta * (values - most)))

    low, high = 0.0, 1 / float(np.abs(values).max())
    while mean(high) < 0:
        low, high = high, 2 * high
    for _ in range(26 if mean(0) < 0 else 0):  # any theta gives the same bound, but for rounding
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < 0 else (low, middle)
    change, top = float(chances @ np.expm1(low * values)), low * most
    log_mass = math.log1p(change) if change > -0.5 else math.log(float(chances @ np.exp(low * values - top))) + top
    return low, log_mass, math.sqrt(float((chances * np.square(values)) @ np.exp(low * values - log_mass)))


def _beyond(places: Ints, tilted: Floats, count: int, theta: float, deviation: float, edge: int) -> float:
    """Return a bound on what sums above ``edge`` add to the mean of ``t exp(-theta t)``, by Chernoff's inequality."""
    least = math.inf
    for steps in (0, 1, 2, 4, 8, 12):
        extra = steps / (deviation * math.sqrt(count))
        slope = theta + extra
        # t exp(-slope t) is largest at 1 / slope, or at the edge if that lies beyond; what is left is exp(extra t).
        peak = edge if slope * edge > 1 else 1 / slope if slope else math.inf
        with np.errstate(over="ignore"):
            growth = count * math.log1p(min(float(tilted @ np.expm1(extra * places)), 1e300))
        least = min(least, peak * math.exp(min(growth - slope * peak, 700)))
    return least


def shuffled_delta(
    bound: ShufflerBound, *, epsilon: Fraction | float, local_epsilon: Fraction | float | None = None, devices: int
) -> float:
    """Return delta, 0 to 1, of the central epsilon when devices' reports are shuffled, as the bound has it.

    It is exactly 0 where epsilon is not below the local one, which a `FiniteChannel` knows itself. ``devices`` are
    honest ones that answer, the device in question among them.

    >>> shuffled_delta(TwoLevels(0.3, 0.2), epsilon=0.4, local_epsilon=1.5, devices=20) < 0.0267357 * 1.01
    True
    """
    _require_devices(devices)
    central, local = _below(_require("the central epsilon", epsilon)), _local(bound, local_epsilon)
    return 0.0 if central >= local else min(1.0, bound.delta(central, local, devices))


def shuffled_epsilon(
    bound: ShufflerBound,
    *,
    local_epsilon: Fraction | float | None = None,
    devices: int,
    delta: float,
    any_delta: bool = False,
) -> float:
    """Return the smallest central epsilon at a delta when devices' reports are shuffled, as the bound has it.

    The epsilon [nats] was evaluated and holds, within a millionth of the smallest; it is the local one without
    amplification. A delta above 1 / devices, at which all that some device holds could be published, is refused unless
    ``any_delta`` says that it is taken, as audits with few devices measure it.
    """
    _require_devices(devices)
    _require_delta(delta, devices, any_delta=any_delta)
    local = _local(bound, local_epsilon)

    holds = largest = math.log(local)

    @cache
    def excess(logarithm: float) -> float:
        if logarithm >= largest:  # of which the exponential may be below the local epsilon
            return -_FAR
        return _excess(bound.delta(math.exp(logarithm), local, devices), delta)

    fails = holds - math.log(2)
    while excess(fails) <= 0:
        holds, fails = fails, fails - 1
        if fails < math.log(_TOLERANCE):
            return math.exp(holds)
    return min(math.exp(_edge(excess, holds, fails, _TOLERANCE)), local)


def largest_local_epsilon(
    bound: ShufflerBound | LocalBounds,
    *,
    epsilon: Fraction | float,
    devices: int,
    delta: float,
    any_delta: bool = False,
) -> Fraction:
    """Return the largest local epsilon with which shuffled reports keep a central epsilon and delta.

    It is in whole thousandths of a nat, rounded down, and delta was evaluated there and holds; it is never below the
    central one, which it is without amplification, nor above 30 unless that is. ``bound`` is a function from a local
    epsilon where the randomizer changes with that, as unary encoding's levels do. See `shuffled_epsilon`.

    >>> largest_local_epsilon(AnyRandomizer(), epsilon=Fraction(1), devices=100_000, delta=1e-6)
    Fraction(7069, 1000)
    """
    _require_devices(devices)
    _require_delta(delta, devices, any_delta=any_delta)
    central = _below(exact := _require("the central epsilon", epsilon))
    if isinstance(bound, FiniteChannel):
        raise InputError("a channel that is a matrix has one epsilon; give a function from a local epsilon to a matrix")

    @cache
    def excess(local: float) -> float:
        randomizer = bound(local) if callable(bound) else bound
        if local <= central:
            return -_FAR
        # A local epsilon in thousandths may lie above its float
        return _excess(randomizer.delta(central, math.nextafter(local, math.inf), devices), delta)

    if central > math.log(devices) and excess((math.floor(1000 * exact) + 1) / 1000) > 0:  # each bound takes seconds
        return exact
    holds, step = central, 1.0
    while excess(fails := min(central + step, LARGEST_EPSILON)) <= 0:
        if fails >= LARGEST_EPSILON or fails <= central:
            return max(exact, Fraction(LARGEST_EPSILON))
        holds, step = fails, 2 * step
    thousandths = math.floor(1000 * _edge(excess, holds, fails, 2e-4))
    while Fraction(thousandths, 1000) > exact and excess(thousandths / 1000) > 0:
        thousandths -= 1
    return max(exact, Fraction(thousandths, 1000))


def rough_local_epsilon(levels: TwoLevels, *, epsilon: float, devices: int, delta: float) -> float:
    """Return about the largest local epsilon, by a normal law: for plans, never for a claim."""
    # ``mu = (e - 1) sqrt(2 kappa / (Z n))`` is the distance of the two laws that a server sees, where many reports meet
    # one of two inputs and not the other, and (epsilon, delta) lies on the curve of a normal law at that distance.
    # Where few reports do, n kappa / Z near 10, it is up to 1.5 too high.
    return float(_rough(np.array([levels.pi]), np.array([levels.kappa]), epsilon, devices, delta)[0])


def rough_devices(bound: ShufflerBound, *, local_epsilon: float, epsilon: float, delta: float) -> float:
    """Return about the fewest devices among which a local epsilon keeps a central one: for plans, never for a claim."""
    # The inverse of `rough_local_epsilon`. What is no channel of two levels takes about twice the devices of a bit.
    levels, times = (bound, 1) if isinstance(bound, TwoLevels) else (one_bit_levels(), 2)
    odds = math.expm1(local_epsilon)
    summand = 2 * levels.kappa * odds**2 / (1 + odds * levels.pi)
    return times * summand / _normal_distance(epsilon, delta) ** 2


class SetDesign(NamedTuple):
    """How the set mechanism is run under a shuffler."""

    subset_size: int  # Values k that a report names
    local_epsilon: Fraction  # Of each device's report [nats], certified
    variance: float  # Of one device's estimate of an item that the stated share of devices hold


def best_set(
    *, items: int, padded: int, epsilon: Fraction | float, devices: int, delta: float, share: float = 0.15
) -> SetDesign:
    """Return how many values a shuffled report of the set mechanism should name, and under which local epsilon.

    For every k the rule of thumb `rough_local_epsilon` says which epsilon0 the central one allows; the k of least
    variance is taken, and its epsilon0 certified by `largest_local_epsilon`. The k that is best under epsilon0 alone is
    another one: the smaller k, the less a report gives away. Of N ``items`` a device's set is padded to w values by as
    many dummies: reports are subsets of N + w. ``share`` of the devices hold the item whose variance is compared.

    >>> best_set(items=9724, padded=50, epsilon=Fraction(2), devices=10_000, delta=1e-6).subset_size
    2
    """
    central = float(_require("the central epsilon", epsilon))
    _require_devices(devices)
    _require_delta(delta, devices, any_delta=False)
    rough = rough_set(items=items, padded=padded, epsilon=central, devices=devices, delta=delta, share=share)
    levels = subset_levels(items + padded, padded, rough.subset_size)
    return rough._replace(local_epsilon=largest_local_epsilon(levels, epsilon=epsilon, devices=devices, delta=delta))


def rough_set(*, items: int, padded: int, epsilon: float, devices: int, delta: float, share: float = 0.15) -> SetDesign:
    """Return the same with about the largest local epsilon, by a rule of thumb: for plans that are certified later."""
    values = items + padded
    steps = np.arange(min(items, 20 * values // padded))
    avoid, both = (np.cumprod(np.maximum(values - sets * padded - steps, 0) / (values - steps)) for sets in (1, 2))
    subset_sizes = (steps + 1)[avoid > 1e-9]
    avoid, both = avoid[avoid > 1e-9], both[avoid > 1e-9]
    pi, kappa = (np.asarray(one, np.float64) for one in (1 - avoid, avoid - both))
    local = np.maximum(_rough(pi, kappa, epsilon, devices, delta), epsilon)
    hit = np.exp(local) / (1 + np.expm1(local) * (1 - avoid))  # Chance of a report that meets the set, over omega's
    own, without = subset_sizes / values, avoid * subset_sizes / (values - padded)
    present, absent = hit * own, hit * (own - without) + hit * np.exp(-local) * without
    rate = share * present + (1 - share) * absent
    variances = rate * (1 - rate) / np.square(present - absent)
    best = int(np.argmin(variances))
    return SetDesign(int(subset_sizes[best]), Fraction(float(local[best])), float(variances[best]))


def _rough(pi: Floats, kappa: Floats, epsilon: float, devices: int, delta: float) -> Floats:
    """Return `rough_local_epsilon` of many levels at once; the square of mu's rule is quadratic in e - 1."""
    square = _normal_distance(epsilon, delta) ** 2 * devices
    ratio = square * pi / (4 * kappa)
    return np.log1p(ratio + np.sqrt(np.square(ratio) + square / (2 * kappa)))


def _normal_distance(epsilon: float, delta: float) -> float:
    """Return the distance mu of two normal laws of deviation 1 that (epsilon, delta) holds of."""
    low, high = -20.0, 20.0  # Its logarithm
    for _ in range(60):
        middle = (low + high) / 2
        distance = math.exp(middle)
        tails = (math.erfc((epsilon / distance + sign * distance / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
        tail, other = tails
        low, high = (middle, high) if tail - math.exp(epsilon) * other <= delta else (low, middle)
    return math.exp(low)


_FAR = 30.0  # A delta of e^-30 times the target, or of none, is as far from it as any


def _excess(delta: float, target: float) -> float:
    """Return the logarithm of a delta over its target, from -_FAR to _FAR."""
    return max(-_FAR, min(_FAR, math.log(delta / target))) if delta > 0 else -_FAR


def _edge(excess: Callable[[float], float], holds: float, fails: float, tolerance: float) -> float:
    """Return a place at which ``excess`` was evaluated and is not above 0, next to where it is."""
    from scipy.optimize import brentq  # noqa: PLC0415 (as above)

    edge, step = float(brentq(excess, holds, fails, xtol=tolerance / 4)), tolerance / 2
    while excess(edge) > 0 and abs(fails - edge) < abs(fails - holds):
        edge, step = edge + math.copysign(step, holds - fails), 2 * step
    return edge if abs(fails - edge) < abs(fails - holds) else holds


def _require_devices(devices: int) -> None:
    require_whole("number of devices that answer", devices, 1, MOST_ANSWERS)


def require_chance(delta: float) -> None:
    """Refuse a delta that is no chance."""
    if type(delta) not in {float, np.float64} or not 0 < delta < 1:
        raise InputError(f"delta is {shown(delta)}; give a number between 0 and 1, such as 1e-6")


def _require_delta(delta: float, devices: int, *, any_delta: bool) -> None:
    require_chance(delta)
    if delta * devices > 1 and not any_delta:
        raise InputError(
            f"delta is {delta:g}, above 1 / {devices} devices: it would allow publishing all that some device holds; "
            f"give at most {1 / devices:.3g}"
        )


def _require(name: str, epsilon: Fraction | float) -> Fraction:
    exact = parse_epsilon(epsilon, name)
    if exact is None or as_float(exact) > LARGEST_EPSILON:
        raise InputError(f"{name} is {as_float(exact):g}; give a number above 0 and up to {LARGEST_EPSILON}")
    return exact


def _local(bound: ShufflerBound, local_epsilon: Fraction | float | None) -> float:
    if isinstance(bound, FiniteChannel) and local_epsilon is None:
        return bound.local_epsilon
    if local_epsilon is None:
        raise InputError("the local epsilon is missing; give that of each device's randomizer")
    exact = _require("the local epsilon", local_epsilon)
    return nearest if Fraction(nearest := float(exact)) >= exact else math.nextafter(nearest, math.inf)


def _below(exact: Fraction) -> float:
    """Return the largest float that is not above a number."""
    return nearest if Fraction(nearest := float(exact)) <= exact else math.nextafter(nearest, 0)
