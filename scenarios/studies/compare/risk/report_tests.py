"""Best tests of a device's own report, by its exact channel, and of a round's reports that a shuffler mixed.

A report of the set mechanism meets a device's values or not, and its chances have two levels; so does one of a single
random item, of which any like of a history may have been the value. Likes above what a set holds are left out by
private coins: then a report names some of a history, and is met by it with a chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy import special

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.moments.sign_moments import tie
from coordinator.protocol.pools import pairs_of
from coordinator.protocol.value_channels import SubsetChannel
from scenarios.studies.compare.risk.histories import HistoryPair, Scope

CELLS = 50_000  # Numbers of named items that are looked at one by one; of more a sample is drawn
DRAWS = 5_000
TAIL = 7.0  # Standard deviations beyond which numbers of named items are left out
STEPS = 64  # Of a grid between a report that meets a history for sure and one that does not
TOLD = 16  # Times that likes are chosen to be kept, where an attacker is told which ones

Law = tuple[Floats, Floats]  # Values, and their chances


@dataclass(frozen=True, slots=True)
class SubsetTest:
    """The test of reports that are subsets of values; see `coordinator.protocol.value_channels.SubsetChannel`."""

    values: int  # V, dummies among them
    padded: int  # w
    subset_size: int  # k
    odds: float  # By how much a subset is more likely that meets a device's values
    devices: int = 0  # Whose reports a shuffler mixed; 0 where a report is seen with its sender

    @classmethod
    def of(cls, channel: SubsetChannel, devices: int = 0) -> SubsetTest:
        """Return the test of a channel's reports."""
        ratio = channel.ratio
        assert ratio is not None  # of a finite epsilon
        return cls(channel.values, channel.padded, channel.subset_size, float(ratio), devices)

    def avoiding(self, count: int) -> float:
        """Return the chance that a uniform subset avoids so many values, ``C(V - m, k) / C(V, k)``."""
        return math.exp(_binomial(self.values - count, self.subset_size) - _binomial(self.values, self.subset_size))

    @property
    def total(self) -> float:
        """Z: the chance of a report over that of one that avoids a device's values, summed by uniform subsets."""
        return 1 + (self.odds - 1) * (1 - self.avoiding(self.padded))

    @property
    def worst(self) -> float:
        """How often two disjoint histories, each with as many likes as sets have values, are told apart."""
        return self.right(HistoryPair(self.padded, self.padded, 0))

    def right(self, pair: HistoryPair) -> float:
        """Return how often two histories are told apart."""
        return _right_of_subsets(self, pair.first, pair.second, pair.shared)

    def right_of_values(self, union: int) -> float:
        """Return the same for two sets whose union has this many values."""
        return _right_of_values(self, union)

    def right_by_law(self, law: Law) -> float:
        """Return the same from the law of a uniform subset's chance to meet one history less that to meet the other."""
        differences, chances = law
        if not self.devices:
            return 0.5 + (self.odds - 1) / (4 * self.total) * float(chances @ np.abs(differences))
        # Others that did not answer at random are taken as revealed (the privacy blanket): what is left is the sum
        # over those that did, among which the device's own report is
        mean = mean_size(differences, chances / self.total, self.devices)
        return 0.5 + (self.odds - 1) / (4 * self.devices) * mean

    def meeting(self, likes: int) -> Floats:
        """Return the chance that a history of so many values meets a report that names 0, 1, ... k of them."""
        named = np.arange(min(likes, self.subset_size) + 1)
        return -np.expm1(log_binomials(likes - named, self.padded) - _binomial(likes, self.padded))

    def differences(self, pair: HistoryPair) -> Law:
        """Return the law of a uniform subset's chance to meet the first history less that to meet the second."""
        first, second, both = self._padded(pair)
        if max(pair.first, pair.second) <= self.padded:
            only = self.avoiding(self.padded) - self.avoiding(first + second + both)
            return np.array([-1.0, 0.0, 1.0]), np.array([only, 1 - 2 * only, only])
        ranges = [self._named(size) for size in (first, second, both)]
        of_first, of_second = self.meeting(first + both), self.meeting(second + both)
        if math.prod(len(part) for part in ranges) > CELLS:
            counts = self._drawn((first, second, both))
            chances = np.full(DRAWS, 1 / DRAWS)
        else:
            counts = np.stack([part.ravel() for part in np.meshgrid(*ranges, indexing="ij")])
            rest = self.subset_size - counts.sum(axis=0)
            counts = counts[:, (rest >= 0) & (rest <= self.values - first - second - both)]
            chances = self._chances(counts, (first, second, both))
        return of_first[counts[0] + counts[2]] - of_second[counts[1] + counts[2]], chances

    def _padded(self, pair: HistoryPair) -> tuple[int, int, int]:
        """Return how many values are the first history's alone, the second's, and both's, dummies among them."""
        missing = [max(0, self.padded - likes) for likes in (pair.first, pair.second)]
        both = pair.shared + min(missing)
        return pair.first + missing[0] - both, pair.second + missing[1] - both, both

    def _named(self, size: int) -> Ints:
        """Return the numbers of some values that a subset names, but for those that hardly occur."""
        mean = self.subset_size * size / self.values
        reach = TAIL * math.sqrt(mean + 1) + TAIL
        least = max(0, size + self.subset_size - self.values, math.floor(mean - reach))
        return np.arange(least, min(size, self.subset_size, math.ceil(mean + reach)) + 1)

    def _chances(self, counts: Ints, sizes: tuple[int, int, int]) -> Floats:
        logs = sum(_binomials(size)[count] for size, count in zip(sizes, counts, strict=True))
        rest = self.subset_size - counts.sum(axis=0)
        chances = np.exp(logs + _binomials(self.values - sum(sizes))[rest] - _binomial(self.values, self.subset_size))
        return np.asarray(chances / chances.sum())

    def _drawn(self, sizes: tuple[int, int, int]) -> Ints:
        """Return drawn numbers of named values; the same for the same sizes."""
        coins = np.random.default_rng([self.values, self.subset_size, *sizes])
        return coins.multivariate_hypergeometric((*sizes, self.values - sum(sizes)), self.subset_size, DRAWS).T[:3]


@lru_cache(maxsize=1 << 14)
def _right_of_subsets(test: SubsetTest, first: int, second: int, shared: int) -> float:
    return test.right_by_law(test.differences(HistoryPair(first, second, shared)))


@lru_cache(maxsize=1 << 14)
def _right_of_values(test: SubsetTest, union: int) -> float:
    only = test.avoiding(test.padded) - test.avoiding(union)
    return test.right_by_law((np.array([-1.0, 0.0, 1.0]), np.array([only, 1 - 2 * only, only])))


@lru_cache(maxsize=1 << 12)
def _binomials(size: int) -> Floats:
    """Return logarithms of ``C(size, 0)``, ``C(size, 1)``, ..., ``C(size, size)``."""
    factorials = _log_factorials(1 << max(size, 1).bit_length())[: size + 1]
    return np.asarray(factorials[size] - factorials - factorials[::-1])


@lru_cache(maxsize=32)
def _log_factorials(count: int) -> Floats:
    return np.asarray(special.gammaln(np.arange(1.0, count + 2)))


def _binomial(size: int, count: int) -> float:
    return float(log_binomials(size, count)) if size >= 0 else -math.inf


def log_binomials(size: int | Ints, count: int | Ints) -> Floats:
    """Return logarithms of ``C(size, count)``, minus infinity where ``count`` is greater, as factorials have poles."""
    logs = special.gammaln(size + 1.0) - special.gammaln(count + 1.0) - special.gammaln(size - count + 1.0)
    return np.asarray(logs)


def mean_size(differences: Floats, chances: Floats, count: int) -> float:
    """Return ``E|X_1 + ... + X_n|`` of independent X with mean 0 that take some values, and 0 with the chance left.

    Values are put on a grid by chances that keep their means, which can only raise it.
    """
    if set(np.unique(differences).tolist()) <= {-1.0, 0.0, 1.0}:
        return _mean_of_signs(float(chances[differences != 0].sum()), count)
    places = differences * STEPS
    below = np.floor(places)
    above = places - below
    spread = math.sqrt(count * float(chances @ (places**2 + above * (1 - above))))
    size = 1 << math.ceil(math.log2(2 * (TAIL + 2) * spread + 4 * STEPS))
    indices = np.concatenate([below, below + 1]).astype(np.int64) % size
    law = np.bincount(indices, np.concatenate([chances * (1 - above), chances * above]), minlength=size)
    law[0] += 1 - chances.sum()
    circle = np.minimum(np.arange(size), size - np.arange(size)).astype(np.float64)
    # The mean of a function under a law is that of their transforms' products (Parseval)
    products = (np.exp(count * np.log(np.fft.rfft(law))) * np.fft.rfft(circle)).real
    return float(2 * products.sum() - products[0] - products[-1]) / size / STEPS


def _mean_of_signs(chance: float, count: int) -> float:
    """Return the mean size of a sum of so many signs, each there with a chance, and + or - alike."""
    deviation = math.sqrt(count * chance * (1 - chance))
    numbers = np.arange(
        max(0, math.floor(count * chance - TAIL * deviation - TAIL)),
        min(count, math.ceil(count * chance + TAIL * deviation + TAIL)) + 1,
    )
    logs = special.xlogy(numbers, chance) + special.xlog1py(count - numbers, -chance)
    there = np.exp(log_binomials(count, numbers) + logs)
    pairs = (numbers + 1) // 2  # A walk of 2 m - 1 steps ends as far away as one of 2 m: 2 m C(2 m, m) / 4^m
    central = special.gammaln(2 * pairs + 1.0) - 2 * special.gammaln(pairs + 1.0) - 2 * pairs * math.log(2)
    return float(there @ (2 * pairs * np.exp(central)))


@dataclass(frozen=True, slots=True)
class ReportTest:
    """An attack on a report about likes; of groups of devices, each of which is asked another question, on any.

    A person's device is in a group by chance alone, so that groups weigh as their shares.
    """

    shares: tuple[float, ...]
    tests: tuple[SubsetTest | KeptPairsTest, ...]
    scopes: tuple[Scope, ...] = field(default=(Scope(),))

    @property
    def worst(self) -> float:
        """See `histories.BestTest.worst`."""
        return sum(share * test.worst for share, test in zip(self.shares, self.tests, strict=True))

    def right(self, pairs: Sequence[HistoryPair]) -> float:
        """See `histories.BestTest.right`."""
        groups = zip(self.shares, self.tests, pairs, strict=True)
        return sum(share * test.right(pair) for share, test, pair in groups)


@dataclass(frozen=True, slots=True)
class KeptPairsTest:
    """The test of reports about pairs of liked items; the attacker also knows which likes of each history were kept.

    What an attacker is told can only help it: it is a bound from above where histories have more likes than are kept.
    """

    of_pairs: SubsetTest
    likes: int  # Likes that are kept

    @property
    def worst(self) -> float:
        """See `histories.BestTest.worst`."""
        return self.of_pairs.worst

    def right(self, pair: HistoryPair) -> float:
        """Return how often two histories are told apart."""
        return _right_of_pairs(self, pair.first, pair.second, pair.shared)


@lru_cache(maxsize=1 << 14)
def _right_of_pairs(test: KeptPairsTest, first: int, second: int, shared: int) -> float:
    sizes = [min(size, test.likes) for size in (first, second)]
    padded, rights = pairs_of(test.likes), []
    dummies = [padded - pairs_of(size) for size in sizes]
    for both in kept_of_both(HistoryPair(first, second, shared), test.likes).tolist():
        union = 2 * padded - pairs_of(both) - min(dummies)
        rights.append(test.of_pairs.right_of_values(union))
    return float(np.mean(rights))


def kept_of_both(pair: HistoryPair, most: int, draws: int = TOLD) -> Ints:
    """Return how many shared items are kept of both histories, where the first of a random order are kept of each."""
    # Equal histories keep equal likes; any way to draw both together bounds the test from above
    if max(pair.first, pair.second) <= most:
        return np.array([pair.shared])
    coins = np.random.default_rng([most, *pair])
    keys = coins.random((draws, pair.first + pair.second - pair.shared))
    both, first = keys[:, : pair.shared], keys[:, : pair.first]
    second = np.concatenate([both, keys[:, pair.first :]], axis=1)
    bars = [
        np.partition(side, most - 1, axis=1)[:, most - 1] if side.shape[1] > most else np.ones(draws)
        for side in (first, second)
    ]
    return np.asarray((both <= np.minimum(*bars)[:, None]).sum(axis=1))


@dataclass(frozen=True, slots=True)
class SensedBit:
    """An attack on MaxSense's bit: whether any of the items that public coins sense is liked."""

    epsilon: Epsilon  # [nats]
    sensing: float  # Chance that an item is sensed
    items: int
    scopes: tuple[Scope, ...] = field(default=(Scope(),))

    @property
    def worst(self) -> float:
        """See `histories.BestTest.worst`: one likes everything, the other nothing."""
        return self.right([HistoryPair(self.items, 0, 0)])

    def right(self, pairs: Sequence[HistoryPair]) -> float:
        """Return ``1/2 + t / 2`` times the chance that sensed items tell two histories apart."""
        (pair,) = pairs
        none = 1 - self.sensing
        union = pair.first + pair.second - pair.shared
        differ = none**pair.first + none**pair.second - 2 * none**union
        return 0.5 + bit_channel(self.epsilon).contrast * differ / 2


@dataclass(frozen=True, slots=True)
class SignBit:
    """An attack on the bit of sign sensing: the sign of a sum of ratings under public signs, a fair coin if it is 0."""

    epsilon: Epsilon  # [nats]
    scopes: tuple[Scope, ...] = field(default=(Scope(rated=True),))

    @property
    def worst(self) -> float:
        """See `histories.BestTest.worst`: an odd number of items, all liked and all disliked."""
        return self.right([HistoryPair(1, 1, 0, 1)])

    def right(self, pairs: Sequence[HistoryPair]) -> float:
        """Return ``1/2 + t / 2`` times by how much the signs of two histories differ on average."""
        (pair,) = pairs
        return 0.5 + bit_channel(self.epsilon).contrast * signs_apart(*pair) / 2


@lru_cache(maxsize=1 << 14)
def signs_apart(first: int, second: int, shared: int, opposite: int) -> float:
    """Return ``E|sgn S_A - sgn S_B| / 2`` over public signs; see `histories.HistoryPair`.

    >>> round(signs_apart(5, 4, 4, 0), 9), round(signs_apart(5, 5, 4, 1), 9)
    (0.1875, 0.375)
    """
    if not opposite and first == second + 1 == shared + 1:
        return float(tie(np.array(second))) / 2
    if opposite == 1 and first == second == shared + 1:
        return float(tie(np.array(shared)))
    alike, alike_chances = _signed_sums(shared)
    unlike, unlike_chances = _signed_sums(opposite)
    both = shared + opposite
    up, level, down = _sides(alike[:, None] + unlike, first - both)
    up_second, level_second, down_second = _sides(alike[:, None] - unlike, second - both)
    apart = up * down_second + down * up_second
    apart += (level * (1 - level_second) + (1 - level) * level_second) / 2
    return float(alike_chances @ apart @ unlike_chances)


def _sides(sums: Floats2, more: int) -> tuple[Floats2, Floats2, Floats2]:
    """Return the chances that sums are above, at and below 0 after so many more signs."""
    values, chances = _signed_sums(more)
    below = np.concatenate([[0.0], np.cumsum(chances)])
    down, not_up = (below[np.searchsorted(values, -sums, side=side)] for side in ("left", "right"))
    return below[-1] - not_up, not_up - down, down


def _signed_sums(count: int) -> Law:
    """Return the sums of so many signs, and their chances, but for those that hardly occur."""
    reach = math.ceil((TAIL * math.sqrt(count) + 2) / 2)
    ups = np.arange(max(0, count // 2 - reach), min(count, (count + 1) // 2 + reach) + 1)
    return np.asarray(2.0 * ups - count), np.asarray(np.exp(_binomials(count)[ups] - count * math.log(2)))
