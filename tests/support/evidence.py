"""How results are held to account: plain Python from the pages, error radii, and which cases and sizes run."""

import functools
import hashlib
import itertools
import math
import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
import pytest
import scipy
from numpy.typing import ArrayLike, NDArray

# The oracle: every documented coin, set and bit once more, in plain Python integers and as slow as can be.
WORD = (1 << 64) - 1
COINS = 1 << 64
UNIT = 1 << 63  # Probabilities of the block model are whole numbers of this many parts
GOLDEN = 0x9E3779B97F4A7C15
LIKES_LANE = 1 << 63
RATINGS_PURPOSE, RELEASE_PURPOSE, CHOICE_PURPOSE = 1, 2, 3

Key = tuple[int, int]
Table = Sequence[tuple[int, int, int]]
"""An alias table of 2**k entries: threshold (a multiple of 2**k), the entry's own number, its alias's."""


def _rotate(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & WORD


def _sip_rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0] = (v[0] + v[1]) & WORD
        v[1] = _rotate(v[1], 13) ^ v[0]
        v[0] = _rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & WORD
        v[3] = _rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & WORD
        v[3] = _rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & WORD
        v[1] = _rotate(v[1], 17) ^ v[2]
        v[2] = _rotate(v[2], 32)


def siphash(key: Key, message: bytes) -> int:
    """SipHash-2-4 (Aumasson and Bernstein, 2012, section 2), of a message of any length."""
    v = [
        key[0] ^ 0x736F6D6570736575,
        key[1] ^ 0x646F72616E646F6D,
        key[0] ^ 0x6C7967656E657261,
        key[1] ^ 0x7465646279746573,
    ]
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        _sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _sip_rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def siphash_words(key: Key, *words: int) -> int:
    """SipHash-2-4 of 64-bit words, little-endian."""
    return siphash(key, b"".join(word.to_bytes(8, "little") for word in words))


def draw(stream: int, lane: int) -> int:
    """Output number ``lane`` (from 0) of SplitMix64 seeded with ``stream`` (Steele, Lea and Flood, 2014)."""
    word = (stream + (lane + 1) * GOLDEN) & WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def derive(parent: bytes | int, purpose: str) -> bytes:
    """Keyed BLAKE2b of the purpose, sixteen bytes; a whole number is keyed by its decimal digits."""
    key = parent if isinstance(parent, bytes) else str(parent).encode()
    return hashlib.blake2b(purpose.encode(), key=key, digest_size=16).digest()


def as_key(seed: bytes) -> Key:
    """Sixteen bytes as two little-endian words."""
    return int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:], "little")


@functools.cache
def device_secret(secret: bytes, device: int) -> Key:
    """A device's own secret under the population's."""
    master = as_key(secret)
    return siphash_words(master, 2 * device), siphash_words(master, 2 * device + 1)


def release_coin(secret: bytes, device: int, query_id: bytes, question: int) -> int:
    """The coin of one question: keyed by (device secret, purpose, query id, question)."""
    return siphash_words(device_secret(secret, device), RELEASE_PURPOSE, *as_key(query_id), question)


def choice_stream(secret: bytes, device: int, query_id: bytes) -> int:
    """The stream behind a device's choices in one query."""
    return siphash_words(device_secret(secret, device), CHOICE_PURPOSE, *as_key(query_id), 0)


def law_of(table: Table) -> dict[int, Fraction]:
    """The exact law of an alias table: probability of each number."""
    law: dict[int, Fraction] = {}
    for threshold, own, alias in table:
        share = Fraction(threshold, COINS)
        for number, weight in ((own, share), (alias, 1 - share)):
            law[number] = law.get(number, Fraction(0)) + weight / len(table)
    return law


def sensing_set(
    public_seed: bytes, round_number: int, device: int, items: int, table: Table, *, spared: bool
) -> list[int]:
    """The device's public sensing set, ascending: the places that it looks at, or all others.

    Lane 0's low bits choose an entry, its high bits are held against the entry's threshold; places are halves of the
    lanes behind it, and a half that multiplication with rejection refuses is no item's place.
    """
    stream = siphash_words(as_key(derive(public_seed, f"round {round_number}")), device)
    word = draw(stream, 0)
    threshold, own, alias = table[word % len(table)]
    number = own if word // len(table) < threshold // len(table) else alias
    words = [draw(stream, 1 + lane) for lane in range(-(-number // 2))]
    halves = [half for word in words for half in (word % (1 << 32), word >> 32)][:number]
    hit = {half * items >> 32 for half in halves if half * items % (1 << 32) >= (1 << 32) % items}
    return [item for item in range(items) if (item in hit) != spared]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A block model and the master secret of its devices; ``clusters`` has one entry an item."""

    secret: bytes
    rated: int
    like: tuple[tuple[float, ...], ...]
    shares: tuple[float, ...]
    clusters: tuple[int, ...]

    @property
    def items(self) -> int:
        """Number of items N."""
        return len(self.clusters)

    def stream(self, device: int) -> int:
        """The stream behind the device's ratings."""
        return siphash_words(device_secret(self.secret, device), RATINGS_PURPOSE)

    def user_class(self, device: int) -> int:
        """The device's class: lane 0 against the cumulated shares."""
        marks = [round(Fraction(mark) * UNIT) for mark in itertools.accumulate(self.shares)]
        word = draw(self.stream(device), 0) >> 1
        return next((k for k, mark in enumerate(marks[:-1]) if word < mark), len(marks) - 1)

    def rated_items(self, device: int) -> list[int]:
        """The device's uniform subset, ascending; its complement is drawn where it holds more than half."""
        items = set(range(self.items))
        if 2 * self.rated > self.items:
            return sorted(items - subset(self.stream(device), self.items, self.items - self.rated))
        return sorted(subset(self.stream(device), self.items, self.rated))

    def would_like(self, device: int, items: Iterable[int]) -> dict[int, bool]:
        """How the device rates items: Bernoulli(b[class, cluster]), a coin of its own for every item."""
        stream, row = self.stream(device), self.like[self.user_class(device)]
        marks = [round(Fraction(chance) * UNIT) for chance in row]
        return {item: draw(stream, LIKES_LANE + item) >> 1 < marks[self.clusters[item]] for item in items}

    def ratings(self, device: int) -> dict[int, bool]:
        """What the device rated, ascending, and whether it liked it."""
        return self.would_like(device, self.rated_items(device))


def _candidates(words: Iterator[int], missing: int, items: int) -> list[int]:
    """Halves of words, low before high, over the items by multiplication with rejection (Lemire, 2019)."""
    halves = [half for _ in range((missing + 1) // 2) for word in [next(words)] for half in (word % 2**32, word >> 32)]
    products = [half * items for half in halves[:missing]]
    return [product >> 32 for product in products if product % 2**32 >= 2**32 % items]


def subset(stream: int, items: int, size: int) -> set[int]:
    """A uniform subset: as many halves as items are missing, lanes 1 on, until none is missing."""
    words = (draw(stream, lane) for lane in itertools.count(1))
    found: set[int] = set()
    while len(found) < size:
        found.update(_candidates(words, size - len(found), items))
    return found


def public_stream(public_seed: bytes, round_number: int, device: int) -> int:
    """The device's public stream in one round."""
    return siphash_words(as_key(derive(public_seed, f"round {round_number}")), device)


def below(stream: int, lane: int, bound: int) -> int:
    """Uniform below ``bound``: halves of words, low before high, by multiplication with rejection (Lemire, 2019)."""
    words = (draw(stream, lane + (step << 32)) for step in itertools.count())
    halves = (half for word in words for half in (word % 2**32, word >> 32))
    return next(half * bound >> 32 for half in halves if half * bound % 2**32 >= 2**32 % bound)


def random_order(stream: int, items: int) -> list[int]:
    """A shuffle from the front (Fisher and Yates): place k changes places with a uniform one from k on."""
    order = list(range(items))
    for k in range(items):
        place = k + below(stream, k, items - k)
        order[k], order[place] = order[place], order[k]
    return order


def partition(stream: int, items: int, size: int) -> list[list[int]]:
    """Stretches of ``size`` items of the random order; the last one may be shorter."""
    order = random_order(stream, items)
    return [order[start : start + size] for start in range(0, items, size)]


def two_of(stream: int, items: Sequence[int]) -> tuple[int, int]:
    """Two different ones of ascending items, the smaller first."""
    one, other = below(stream, 0, len(items)), below(stream, 1, len(items) - 1)
    other += other >= one
    return items[min(one, other)], items[max(one, other)]


def item_query(stream: int, pool: Sequence[int]) -> tuple[int, bool]:
    """The item that is asked about, and whether the question is if it is liked."""
    return pool[below(stream, 0, len(pool))], bool(draw(stream, 1) >> 63)


def reveals(stream: int, share: float) -> bool:
    """Whether the device tells everything."""
    return draw(stream, 0) >> 1 < round(Fraction(share) * UNIT)


def kept(stream: int, items: Sequence[int], most: int) -> list[int]:
    """A uniform ``most`` of the items, or all: those with the smallest ranks, lanes 2**32 on."""
    ranked = sorted(range(len(items)), key=lambda place: draw(stream, (1 << 32) + place))
    return [items[place] for place in sorted(ranked[:most])]


def agrees(agreement: str, one: bool | None, other: bool | None) -> bool:
    """Whether a device agrees about two items that it liked, disliked or did not rate (None)."""
    return {
        "rated-equal": one is not None and one is other,
        "equal": bool(one) is bool(other),
        "positive": bool(one) and bool(other),
    }[agreement]


def maxsense_bit(ratings: dict[int, bool], sensed: Sequence[int]) -> int:
    """1 if some sensed item was rated and liked (Banerjee et al., Figure 2)."""
    return int(any(ratings.get(item, False) for item in sensed))


def sign(stream: int, vector: int, place: int, pool: int) -> int:
    """+1 or -1: bit ``place mod 64`` of word ``place // 64`` of the vector's stretch of the public stream."""
    return 1 if draw(stream, vector * -(-pool // 64) + place // 64) >> place % 64 & 1 else -1


def named(sums: Sequence[int], rank: int, tie: int) -> tuple[int, int]:
    """Sign and number of the signed vector at a rank, the largest sum first; a uniform one of those that tie."""
    wanted = sorted((sign * total for total in sums for sign in (1, -1)), reverse=True)[rank]
    tied = [(sign, a) for a, total in enumerate(sums) for sign in (1, -1) if sign * total == wanted]
    return tied[below(tie, 2, len(tied))]


def exp_bounds(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """Rational bounds on e**exponent, for 0 <= exponent <= 32: Taylor's series of a 64th of it, and its remainder.

    Terms are rounded down to a grid, so the sum is a lower bound; 200 steps of the grid pay for all of the rounding.
    """
    small, grid = exponent / 64, 1 << 400
    term = total = Fraction(1)
    for n in range(1, 70):
        term = Fraction(-(-term * small / n * grid // 1), grid)
        total += term
    high = total + 2 * term + Fraction(200, grid)
    return total**64, high**64


@functools.cache
def misses(epsilon: Fraction, kept: int, others: int) -> int:
    """Coins of 2**64 that name one of the others: 2**64 others / (kept e**epsilon + others), rounded up."""
    most, least = (-(-COINS * others // (kept * bound + others)) for bound in exp_bounds(epsilon))
    if most != least:
        raise ArithmeticError("the bounds on exp are too wide")
    return most


def flips(epsilon: Fraction) -> int:
    """Coins of 2**64 that flip a bit: 2**64 / (1 + e**epsilon), rounded up."""
    return misses(epsilon, 1, 1)


# How far an estimate may stray before a test calls it wrong, with a stated false-alarm probability.
FALSE_ALARM = 1e-6
"""Probability that one statistical test of this suite fails although the code is right, if it says nothing else."""


def hoeffding_radius(count: int, *, false_alarm: float = FALSE_ALARM) -> float:
    """Radius around the mean of ``count`` independent values in [0, 1] (Hoeffding's inequality, two-sided)."""
    return math.sqrt(math.log(2 / false_alarm) / (2 * count))


def clopper_pearson(successes: int, count: int, *, false_alarm: float = FALSE_ALARM) -> tuple[float, float]:
    """Exact confidence interval of a probability, from ``successes`` in ``count`` independent trials."""
    low, high = scipy.stats.binomtest(successes, count).proportion_ci(1 - false_alarm, "exact")
    return float(low), float(high)


def rate_fits(successes: int, count: int, probability: float, *, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether ``probability`` lies in the Clopper-Pearson interval of the count."""
    low, high = clopper_pearson(successes, count, false_alarm=false_alarm)
    return low <= probability <= high


def binomial_bounds(
    count: int, probability: float, *, comparisons: int = 1, false_alarm: float = FALSE_ALARM
) -> tuple[int, int]:
    """Smallest and largest of ``comparisons`` binomial counts that do not raise an alarm, all together (Bonferroni)."""
    tail = false_alarm / (2 * comparisons)
    return int(scipy.stats.binom.ppf(tail, count, probability)), int(scipy.stats.binom.isf(tail, count, probability))


def counts_fit(
    counts: ArrayLike, trials: ArrayLike, probabilities: ArrayLike, *, false_alarm: float = FALSE_ALARM
) -> bool:
    """Whether binomial counts agree with their probabilities, all together (Bonferroni, two-sided); rare ones, too."""
    observed, law, tail = np.asarray(counts), (np.asarray(trials), np.asarray(probabilities)), false_alarm / 2
    low, high = (end(tail / observed.size, *law) for end in (scipy.stats.binom.ppf, scipy.stats.binom.isf))
    return bool(np.all((low <= observed) & (observed <= high)))


def student_radius(sample: ArrayLike, *, false_alarm: float = FALSE_ALARM) -> NDArray[np.float64]:
    """Radius of each column's mean over normal rows, all columns together (Student's t, Bonferroni, two-sided)."""
    rows = np.asarray(sample, float)
    quantile = scipy.stats.t.isf(false_alarm / (2 * rows[0].size), len(rows) - 1)
    return np.asarray(quantile * rows.std(axis=0, ddof=1) / math.sqrt(len(rows)))


def normal_radius(deviation: float, *, comparisons: int = 1, false_alarm: float = FALSE_ALARM) -> float:
    """Radius of ``comparisons`` normal variables of one standard deviation, all together (Bonferroni, two-sided)."""
    return float(scipy.stats.norm.isf(false_alarm / (2 * comparisons))) * deviation


def chi_square_fits(counts: ArrayLike, probabilities: ArrayLike, *, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether counts of a multinomial agree with its probabilities (Pearson's test; it wants large counts)."""
    observed, shares = np.asarray(counts, float), np.asarray(probabilities, float)
    expected = observed.sum() * shares / shares.sum()
    return bool(scipy.stats.chisquare(observed, expected).pvalue >= false_alarm)


def variance_fits(sample: ArrayLike, variance: float, *, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether the mean square of independent centred normals agrees with ``variance`` (chi-square, two-sided)."""
    values = np.asarray(sample, float).ravel()
    ratio = float(np.square(values).sum()) / variance
    low, high = scipy.stats.chi2.ppf(false_alarm / 2, values.size), scipy.stats.chi2.isf(false_alarm / 2, values.size)
    return bool(low <= ratio <= high)


# How much of a large test runs: a part by default, all of it in ``make test-thorough``.
V = TypeVar("V")
THOROUGH = os.environ.get("BLINDREC_THOROUGH") == "1"
FEWEST = 6  # Examples of a property, by default


def examples(most: int) -> int:
    """Return how many examples of a property are drawn: an eighth of the most by default."""
    return most if THOROUGH else min(most, max(FEWEST, most // 8))


def size(most: int, default: int) -> int:
    """Return how large a test is that has a size."""
    return most if THOROUGH else default


def sample(cases: Sequence[V], default: int) -> list[V]:
    """Return all cases, or so many of them by default, evenly spread from the first."""
    return list(cases) if THOROUGH else list(cases)[:: -(-len(cases) // default)]


# Which cases of a parametrised test run by default: some that have every value of every parameter between them.
FEW = 4  # A test of no more cases is whole


def surplus(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that a covering sample needs not: those marked thorough, and cases whose values others have.

    A test marked ``whole`` needs all of its cases, and one marked ``few`` the stated number, whatever their values.
    """
    functions, more = defaultdict(list), []
    for item in items:
        if item.get_closest_marker("thorough"):
            more.append(item)
        elif hasattr(item, "callspec") and not item.get_closest_marker("whole"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        # The same on every machine, and not always the first that somebody thought of
        order = sorted(cases, key=lambda case: hashlib.sha256(case.nodeid.encode()).digest())
        if few := cases[0].get_closest_marker("few"):
            more += order[few.args[0] :]
        elif len(cases) > FEW:
            needed = _covering(order)
            more += [case for case in order if case not in needed]
    return more


def _covering(order: list[pytest.Item]) -> set[pytest.Item]:
    """Return cases that have every value: those that alone have one, then each time one with the most new ones."""
    values = {case: set(_values(case.callspec.params.items())) for case in order}  # type: ignore[attr-defined]
    counts = Counter(value for every in values.values() for value in every)
    needed = {case for case, every in values.items() if any(counts[value] == 1 for value in every)}
    missing = counts.keys() - {value for case in needed for value in values[case]}
    while missing:
        best = max(order, key=lambda case: len(values[case] & missing))
        needed.add(best)
        missing -= values[best]
    return needed


def _values(named: Iterable[tuple[Hashable, object]]) -> Iterator[Hashable]:
    """Yield values by name, each with its type, as True is not 1; of a tuple or a dictionary those that it holds."""
    for name, value in named:
        if isinstance(value, (tuple, dict)):
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            yield from ((name, one) for one in _values(inner))
        else:
            yield name, type(value), value if _hashable(value) else repr(value)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
