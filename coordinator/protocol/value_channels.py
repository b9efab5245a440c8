"""Channels of one value or a set of values: k-ary randomized response, choices, and subset selection."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np

from coordinator.protocol.arrays import Bits2, Indices2, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import (
    COIN,
    MOST_RELEASES,
    CoinOf,
    ExactChannel,
    LogRatio,
    odds_within,
    require_expressible,
    share_of_coins,
)
from coordinator.protocol.checked import require_whole
from coordinator.protocol.errors import InputError
from coordinator.protocol.public_draws import release_values

PADDED, CHOSEN = "padded", "chosen"
"""Parameters of queries: values that are a device's own, exactly, and values in a release."""


def value_bits(values: int) -> int:
    """Return the bits that name one of ``values`` values."""
    return max(1, (values - 1).bit_length())


def is_listed(values: int, subset_size: int) -> bool:
    """Return whether a release lists its values, because that takes fewer bits than one bit a value."""
    return subset_size * value_bits(values) < values


def subset_form(values: int, subset_size: int) -> tuple[int, int]:
    """Return the parts of a release and the bits of each: ``subset_size`` numbers, or a bit for every value."""
    return (subset_size, value_bits(values)) if is_listed(values, subset_size) else (values, 1)


MOST_VALUES = 1 << 31  # Largest number of values of a channel


@dataclass(frozen=True, slots=True)
class KaryChannel(ExactChannel):
    """One of ``values`` values becomes one of them, by one coin and in closed form: there is no matrix.

    Source: Warner (1965); Kairouz, Bonawitz and Ramage (2016), k-ary randomized response.
    """

    values: int  # Number of values k, private and released
    other: int  # Number of the 2**64 coins that release one other value, rounded up: towards more noise

    def __post_init__(self) -> None:
        require_whole("values of a channel", self.values, 2, MOST_VALUES)
        require_whole("coins of another value", self.other, 0, COIN // self.values)

    @property
    def same(self) -> int:
        """Number of the 2**64 coins that release the value itself."""
        return COIN - (self.values - 1) * self.other

    @property
    def bits(self) -> int:
        """Number of bits that name a value."""
        return (self.values - 1).bit_length()

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two values' probabilities of one release, exact."""
        return LogRatio.of(Fraction(self.same, self.other) if self.other else None)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release; see `ExactChannel.chances`. ``private`` holds one number."""
        if self.values > MOST_RELEASES:
            raise InputError(f"{self.values} values are more than {MOST_RELEASES} releases; look at fewer values")
        probability, other = Fraction(self.same, COIN), Fraction(self.other, COIN)
        return [probability if value == int(np.ravel(private)[0]) else other for value in range(self.values)]

    def draw(self, private: Bits2 | Indices2, coin: CoinOf) -> Bits2:
        """Return the released bits of a block of devices, whose private values are whole numbers below ``values``."""
        value = np.ascontiguousarray(private.reshape(len(private)), np.int32)
        if value.size and not 0 <= value.min() <= value.max() < self.values:
            raise InputError(f"a sketch is no whole number from 0 to {self.values - 1}, the channel's private values")
        return release_values(value, coin(0), np.uint64(self.other), self.values, self.bits)


def kary_channel(epsilon: Epsilon, *, values: int) -> KaryChannel:
    """Return the epsilon-differentially private channel of one of ``values`` values; None [nats] for no noise.

    >>> channel = kary_channel(Fraction(1), values=4)
    >>> round(channel.epsilon, 9), round(channel.same / channel.other, 6)
    (1.0, 2.718282)
    """
    if epsilon is None:
        return KaryChannel(values, 0)
    require_expressible(epsilon, "answer")
    other = math.ceil(COIN / (odds_within(epsilon) + values - 1))
    if values * other > COIN:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one of {values} values is less than 64-bit coins can express; raise it, "
            "or ask about fewer items"
        )
    return KaryChannel(values, other)


@dataclass(frozen=True, slots=True)
class ChoiceChannel(ExactChannel):
    """Subset selection: release one of the ``best_count`` best of ranked answers, or, less often, one of the others.

    Each of the best is equally likely, and so is each of the others.
    Source: Ye and Barg (2018), with the subset found by ranking public candidates.
    """

    choices: int  # Number of answers, and of the best among them
    best_count: int
    misses: int  # Number of the 2**64 coins that release one of the others, rounded up: towards more noise

    @property
    def probabilities(self) -> tuple[Fraction, Fraction]:
        """Probability of each one of the best answers, and of each one of the others, exact."""
        miss = Fraction(self.misses, COIN)
        return (1 - miss) / self.best_count, miss / (self.choices - self.best_count)

    @property
    def contrast(self) -> float:
        """By how much a best answer is more probable than another one."""
        best, other = self.probabilities
        return float(best - other)

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two rankings' probabilities of one answer, exact: what the channel really gives away."""
        best, other = self.probabilities
        return LogRatio.of(best / other if other else None)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every signed vector; see `ExactChannel.chances`."""
        # ``private`` holds signed sums, one a sign vector: choices are these and their negatives, ranked by falling
        # sum, and ties are broken in every order alike.
        sums = [int(total) for total in private]
        if 2 * len(sums) != self.choices:
            raise InputError(f"{len(sums)} signed sums are no ranking of {self.choices} choices; give half as many")
        best, other = self.probabilities
        signed = [sign * total for sign in (-1, 1) for total in sums]
        masses = []
        for total in signed:
            above, tied = sum(score > total for score in signed), signed.count(total)
            among_best = min(max(self.best_count - above, 0), tied)
            masses.append((among_best * best + (tied - among_best) * other) / tied)
        return masses

    @property
    def threshold(self) -> np.uint64:
        """`misses` as the word that a coin is compared with."""
        return np.uint64(self.misses)


def choice_channel(epsilon: Epsilon, *, choices: int, best_count: int) -> ChoiceChannel:
    """Return the epsilon-differentially private channel of one choice; None [nats] for no noise."""
    # An epsilon is refused as in `bit_channel`, and where the number of choices is no power of two and epsilon so small
    # that the nearest whole number of coins exceeds it.
    if not 1 <= best_count < choices:
        raise InputError(f"best_count is {best_count}; give 1 to {choices - 1}, one less than the choices")
    return ChoiceChannel(choices, best_count, share_of_coins(epsilon, best=best_count, others=choices - best_count))


_LEAST = -80.0  # Logarithm of a share of subsets that is certainly too small: below ``2**-64 e**-30``


@dataclass(frozen=True, slots=True)
class SubsetChannel(ExactChannel):
    """Of ``values`` values release ``chosen``: one coin says whether they meet the device's own ``padded`` values.

    Which subset is uniform among those that meet them, or avoid them. Sources: Wang et al., *PrivSet* (2018); Wang et
    al., *Set-valued data publication with local privacy* (PVLDB 2020); with one private value Ye and Barg (2018).
    """

    values: int  # Number of values, of those that are a device's own, exactly, and of those in a release
    padded: int
    subset_size: int
    # Number of the 2**64 coins that release a subset which avoids the device's values, rounded up: more noise
    misses: int

    @property
    def avoiding(self) -> Fraction:
        """Share of the subsets that avoid a device's values, exact: ``C(N - w, k) / C(N, k)``."""
        return _avoiding(self.values, self.padded, self.subset_size)

    @property
    def ratio(self) -> Fraction | None:
        """Largest ratio of two devices' probabilities of one subset, exact; None if one of them is 0."""
        avoiding = self.avoiding
        if not self.misses:
            return None
        odds = Fraction(COIN - self.misses, self.misses) * avoiding / (1 - avoiding)
        return max(odds, 1 / odds)  # rounding up can go beyond 1

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two devices' probabilities of one subset, exact: what the channel really gives away."""
        return LogRatio.of(self.ratio)

    @property
    def rates(self) -> tuple[Fraction, Fraction]:
        """Probability that a subset holds a value of the device's own, and one that is not, exact."""
        values, padded, subset_size, avoiding = self.values, self.padded, self.subset_size, self.avoiding
        miss, share = Fraction(self.misses, COIN), Fraction(subset_size, values)
        without = Fraction(subset_size, values - padded)  # of a subset that avoids the own values
        others = (share - avoiding * without) / (1 - avoiding)  # of one that meets them
        return (1 - miss) * share / (1 - avoiding), (1 - miss) * others + miss * without

    @property
    def both(self) -> Fraction:
        """Probability that a subset holds two values that are not the device's own, exact."""
        values, subset_size, avoiding, miss = self.values, self.subset_size, self.avoiding, Fraction(self.misses, COIN)
        share, without = (_pairs(subset_size, of) for of in (values, values - self.padded))
        return (1 - miss) * (share - avoiding * without) / (1 - avoiding) + miss * without

    @property
    def listed(self) -> bool:
        """Whether a release lists its values; see `subset_form`."""
        return is_listed(self.values, self.subset_size)

    @property
    def form(self) -> tuple[int, int]:
        """Parts of a release, and bits of each; see `subset_form`."""
        return subset_form(self.values, self.subset_size)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every release; see `ExactChannel.chances`. It holds the device's values."""
        bits = math.prod(self.form)
        if bits > MOST_RELEASES.bit_length() - 1:
            raise InputError(f"subsets of {bits} bits are more than {MOST_RELEASES}; look at fewer values")
        values = {int(value) for value in np.ravel(private)}
        if len(values) != self.padded or not 0 <= min(values) <= max(values) < self.values:
            raise InputError(f"a sketch is no {self.padded} values below {self.values}; pad it to exactly as many")
        every = math.comb(self.values, self.subset_size)
        avoid = math.comb(self.values - self.padded, self.subset_size)
        meeting, missing = Fraction(COIN - self.misses, COIN * (every - avoid)), Fraction(self.misses, COIN * avoid)
        masses = [Fraction(0)] * (1 << bits)
        for subset in combinations(range(self.values), self.subset_size):
            masses[self._number(subset)] = missing if values.isdisjoint(subset) else meeting
        return masses

    def _number(self, subset: tuple[int, ...]) -> int:
        """Return the whole number whose bits are the release of a subset."""
        if not self.listed:
            return sum(1 << (self.values - 1 - value) for value in subset)
        _, bits = self.form
        return sum(value << bits * position for position, value in enumerate(reversed(subset)))


def _pairs(subset_size: int, values: int) -> Fraction:
    """Return the probability that a uniform subset holds two given values."""
    return Fraction(subset_size * (subset_size - 1), max(values * (values - 1), 1))


@lru_cache(maxsize=64)
def _avoiding(values: int, padded: int, subset_size: int) -> Fraction:
    smaller, larger = sorted((padded, subset_size))
    return Fraction(math.perm(values - larger, smaller), math.perm(values, smaller))


@lru_cache(maxsize=64)
def subset_channel(epsilon: Epsilon, *, values: int, padded: int, subset_size: int) -> SubsetChannel:
    """Return the epsilon-differentially private channel of subsets; every device holds exactly ``padded`` values.

    ``epsilon`` is that of the whole subset in nats; where it is None, subsets always meet the device's values.

    >>> channel = subset_channel(Fraction(1), values=3756, padded=50, subset_size=20)
    >>> round(channel.epsilon, 12), [round(float(rate), 5) for rate in channel.rates]
    (1.0, [0.0103, 0.00526])
    """
    if padded < 1 or subset_size < 1 or padded + subset_size > values:
        raise InputError(
            f"padded is {padded} and chosen {subset_size} of {values} values; give at least 1 each, and no more "
            "together"
        )
    if epsilon is None:
        return SubsetChannel(values, padded, subset_size, 0)
    require_expressible(epsilon, "subset")
    if min(padded, subset_size) * math.log1p(-max(padded, subset_size) / values) < _LEAST:
        raise InputError(
            f"nearly every subset of {subset_size} of {values} values meets a set of {padded}: one that avoids it is "
            "rarer than 64-bit coins can express; choose fewer values, or pad less"
        )
    odds, avoiding = odds_within(epsilon), _avoiding(values, padded, subset_size)
    misses = math.ceil(COIN * avoiding / (odds * (1 - avoiding) + avoiding))
    if misses * (1 - avoiding) > odds * (COIN - misses) * avoiding:
        raise InputError(
            f"epsilon {as_float(epsilon):g} of one subset of {subset_size} is less than 64-bit coins can express; "
            "raise it, or choose fewer values"
        )
    return SubsetChannel(values, padded, subset_size, misses)
