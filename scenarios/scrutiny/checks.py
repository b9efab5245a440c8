"""The checks that every mechanism must pass, in their order, and how they are made: none stops the others."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import fields, replace
from fractions import Fraction
from itertools import groupby, product
from typing import NamedTuple, TypeVar, cast

import numpy as np

from actors.absence import Absence
from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.admitted import OwnPublic
from coordinator.protocol.arrays import Bits2, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import Likelihood, LogRatio, odds_within
from coordinator.protocol.channels.channel import DUST
from coordinator.protocol.errors import BlindrecError, InputError
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.own import Mechanism
from coordinator.protocol.public_half import PublicHalf
from coordinator.server.aggregation import aggregate
from coordinator.server.fleet.layout import cut
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.scrutiny import server_checks
from scenarios.scrutiny.laws import (
    DEVICES,
    MOST_BITS,
    AnyChannel,
    chances,
    channel_of,
    enumerated,
    sketched,
    streams_of,
)
from scenarios.scrutiny.mechanism import (
    MIDDLE,
    PLAIN,
    PUBLIC,
    ROUNDS,
    RUN,
    SECRET,
    TINY,
    Choice,
    Rated,
    Subject,
    cohort,
    coins_of,
    every_rating,
    skipped,
    stored,
    subjects,
)
from scenarios.scrutiny.server_checks import estimates
from scenarios.scrutiny.verdicts import FAILED, HELD, UNCHECKED, Conformance, Failed, Row, Unchecked


def everybody() -> StoredRatings:
    """Return devices of which one each has rated whatever can be rated in the tiny catalogue."""
    rows = list(every_rating(TINY))
    return stored(rows, range(len(rows)), TINY.items)


def digest(releases: list[Release]) -> str:
    """Return a digest of who answered, of the bits and of what they are about, device by device."""
    hashed = hashlib.sha256()
    for release in sorted(releases, key=lambda one: one.first):
        pairs = release.public_pairs()
        told = [release.answered_mask(), release.unpacked(), *([] if pairs is None else [pairs])]
        hashed.update(np.column_stack(told).astype("<i4").tobytes())
    return hashed.hexdigest()


def layouts(subject: Subject) -> str:
    """Check that one device an actor, blocks and threads release the same, and that the next round has other coins."""
    query, ratings = subject.query(TINY, PLAIN), everybody()
    absence = Absence(dropout=0.2)

    def answered(size: int, threads: int, query: Query = query) -> str:
        firsts = range(0, ratings.users, size)
        stops = [min(first + size, ratings.users) for first in firsts]
        cohorts = [cohort(ratings, *ends, absence=absence) for ends in zip(firsts, stops, strict=True)]
        with ThreadPoolExecutor(threads) as pool:
            releases = pool.map(lambda one: one.answer(query, one.first, one.stop), reversed(cohorts))
            return digest(list(releases))

    whole, later = answered(ratings.users, 1), subject.query(TINY, PLAIN, round_number=1)
    for asked in (query, later):
        expected = whole if asked is query else answered(ratings.users, 1, later)
        for size, threads in ((1, 1), (7, 3), (50, 2)):
            if answered(size, threads, asked) != expected:
                told = f"cohorts of {size} devices on {threads} threads release other bits than one cohort of all"
                raise Failed(told if asked is query else f"round 1: {told}")
    if subject.public.private and expected == whole:
        raise Failed("the next round's query has the same releases: its coins are not keyed by the query")
    return f"{ratings.users} devices, digest {whole[:8]}"


def ledger(subject: Subject) -> str:
    """Check that a new query costs its epsilon, a repeat nothing and has the same bits, and one too many is refused."""
    query, later = subject.query(TINY, PLAIN), subject.query(TINY, PLAIN, round_number=1)
    ratings = everybody()
    budget = None if query.epsilon is None else query.epsilon * Fraction(3, 2)
    devices = cohort(ratings, 0, ratings.users, budget=budget)
    first = devices.answer(query, 0, ratings.users)
    require_spent(devices, query.epsilon, "one query")
    if devices.answer(query, 0, ratings.users) != first:
        raise Failed("asked again, devices release other bits")
    require_spent(devices, query.epsilon, "a query and its repeat")
    second = devices.answer(later, 0, ratings.users)
    if query.epsilon is None:
        return "no noise: the ledger tells no limit, a repeat has the same bits"
    if second.refused != ratings.users or any(second.bits) or second.answered_mask().any():
        raise Failed(f"beyond their budget {ratings.users - second.refused} of {ratings.users} devices answer")
    require_spent(devices, query.epsilon, "a refusal")
    return f"{as_float(query.epsilon):g} for a new query, 0 for its repeat, the next one is refused"


def require_spent(devices: Cohort, epsilon: Epsilon, what: str) -> None:
    """Fail where a device has spent anything else."""
    for first, _, spent in devices.ledger.stretches():
        if spent != epsilon:
            raise Failed(f"device {first} has spent {as_float(spent):g} after {what}, not {as_float(epsilon):g}")


SHORT = Fraction(1, 10**6)
"""By how much of epsilon a channel may fall short: coins are rounded towards more noise."""
DRAWN = 200
"""Ratings that are drawn in the middle world, where they cannot be enumerated."""


def log_ratio(subject: Subject) -> str:
    """Check that rows sum to one, and that no two private sketches are farther apart than epsilon, but some as far.

    It compares exact fractions over all that a device of a tiny catalogue can have rated, and looks whether epsilon is
    reached, there or in a larger catalogue: whoever spends it should use it. A likelihood tells floats, whose last
    digits may exceed it (`DUST`). One's own classes are asked at every epsilon in all `ROUNDS`, others at one in these.
    """
    every, told = isinstance(subject.public, OwnPublic), []
    places = [(epsilon, seen) for epsilon in subject.epsilons for seen in (ROUNDS if every else ROUNDS[:1])]
    for epsilon, (number, seed) in [*places, *([] if every else [(PLAIN, seen) for seen in ROUNDS[1:]])]:
        first = (number, seed) == ROUNDS[0]
        at = f"epsilon {as_float(epsilon):g}{'' if first else f', round {number}, public seed {seed.hex()[:8]}'}"
        query = subject.query(TINY, epsilon, round_number=number, public_seed=seed)
        channel = channel_of(subject, query, epsilon)
        found = enumerated(subject, query, channel, every_rating(TINY))
        ratio, pair = found.farthest()
        largest, slack = LogRatio.of(ratio), 0 if found.alike else DUST
        if not largest.within(epsilon * (1 + slack)):
            above = f"{largest.beyond(epsilon):.3g} above epsilon"
            raise Failed(f"{at}: log-ratio {float(largest):.9g} between {pair}, {above}")
        if not _states(channel, largest):
            raise Failed(f"{at}: the channel says {channel.epsilon:.9g}, enumerated it is {float(largest):.9g}")
        enough = odds_within(epsilon * (1 - SHORT))
        reached = found.reached(enough)
        if reached < enough:
            reached = max(reached, _in_the_middle(subject, epsilon, enough))
        if reached < enough:
            raise Failed(f"{at} is not spent: no two sketches are more than {_nats(reached):.9g} apart")
        if first:
            told.append(f"{_nats(reached):.9g} of {as_float(epsilon):g}")
    return f"largest {', '.join(told)}"


def at_the_runs_size(subject: Subject) -> str:
    """Check in closed form that a channel of the size of a run spends epsilon, neither more nor less."""
    told = []
    for epsilon, (number, seed) in product(subject.epsilons, ROUNDS):
        query = subject.query(RUN, epsilon, round_number=number, public_seed=seed)
        channel = channel_of(subject, query, epsilon)
        if isinstance(channel, Likelihood):
            spent = channel.claimed == epsilon
        else:
            largest = channel.log_ratio
            spent = largest.within(epsilon) and not largest.within(epsilon * (1 - SHORT))
        if not spent:
            at = f"epsilon {as_float(epsilon):g} of {RUN.items} items, round {number}"
            raise Failed(f"{at}: the channel's own is {channel.epsilon:.9g}")
        if (number, seed) == ROUNDS[0]:
            told.append(f"{channel.epsilon:.9g}")
    return f"{RUN.items} items: {', '.join(told)}"


def _in_the_middle(subject: Subject, epsilon: Fraction, enough: Fraction) -> Fraction:
    """Return the largest ratio over ratings that are drawn, where a release's values can be enumerated."""
    query = subject.query(MIDDLE, epsilon)
    if query.bits > MOST_BITS:
        return Fraction(1)
    drawn = np.random.default_rng(0).random((DRAWN, MIDDLE.items)) < np.linspace(0, 1, DRAWN)[:, None]
    ratings = [tuple(enumerate(row)) for row in drawn.tolist()]
    return enumerated(subject, query, channel_of(subject, query, epsilon), ratings).reached(enough)


def _states(channel: AnyChannel, largest: LogRatio) -> bool:
    """Return whether a channel says of itself that it gives away as much as an enumeration, finite, shows."""
    if isinstance(channel, Likelihood):
        return channel.claimed is None or largest.within(channel.claimed * (1 + DUST))
    stated, ratio = channel.log_ratio.ratio, largest.ratio
    return stated is None or (ratio is not None and ratio <= stated)


def _nats(ratio: Fraction) -> float:
    return float(LogRatio.of(ratio))


ASKED = 1 << 20
"""Devices whose releases are counted."""
BLOCK = 1 << 15
PARTS = 3
"""Private sketches that are released."""
FALSE_ALARM = 1e-6
"""Probability that `sampler` fails a mechanism that follows its channel."""


def sampler(subject: Subject) -> str:
    """Check that releases of one private sketch have the channel's probabilities, counted over a million devices.

    Every value's count is held against its exact binomial law; all of them together fail an honest mechanism with
    probability 1e-6 at most (`FALSE_ALARM`, Bonferroni). An epsilon that is wrong by 3 % is seen. Each of the sketches
    is released in a round with a public seed of its own.
    """
    from scipy.stats import binom  # noqa: PLC0415 (the table of checks needs none of it)

    told, epsilons = 0.0, sorted({PLAIN, Fraction(subject.query(TINY, PLAIN).questions)})
    for epsilon in epsilons:  # where it is split over questions, also at 1 each
        for part, (number, seed) in enumerate(ROUNDS[:PARTS]):
            query = subject.query(TINY, epsilon, round_number=number, public_seed=seed)
            channel, public = channel_of(subject, query, epsilon), streams_of(query)[0]
            found, _ = sketched(subject, query, every_rating(TINY))
            known = sorted(found)
            sketch = known[part * (len(known) - 1) // (PARTS - 1)]
            expected = np.array([float(chance) for chance in chances(channel, found[sketch], query, public)])
            counts = released(subject, query, found[sketch], channel, public)
            doubt = 2 * np.minimum(binom.cdf(counts, ASKED, expected), binom.sf(counts - 1, ASKED, expected))
            worst = int(np.argmin(doubt))
            if doubt[worst] * expected.size * PARTS * len(epsilons) < FALSE_ALARM:
                raise Failed(
                    f"release {worst:0{query.bits}b} of sketch {list(sketch)} at epsilon {as_float(epsilon):g}: "
                    f"{counts[worst] / ASKED:.5f} of {ASKED} devices, the channel says {expected[worst]:.5f}"
                )
            told = max(told, float(np.abs(counts / ASKED - expected).max()))
    return f"{ASKED} devices a sketch, largest deviation {told:.5f}"


def released(subject: Subject, query: Query, private: Ints, channel: AnyChannel, public: np.uint64) -> Ints:
    """Return how often each release was drawn by `ASKED` devices that all have one private sketch.

    Where the channel is a likelihood given public coins, they all have one public stream, too.

    Raises
    ------
    Failed
        If what is drawn is no array of the query's bits.
    """
    counts = np.zeros(1 << query.bits, np.int64)
    weights = 1 << np.arange(query.bits)[::-1]
    for first in range(0, ASKED, BLOCK):
        block = cast("Bits2", np.repeat(private[None], BLOCK, axis=0))
        coins = coins_of(query, first, BLOCK)
        if isinstance(channel, Likelihood):
            bits = channel.draw(block, np.full(BLOCK, public), coins.release)
        else:
            bits = subject.device.randomize(block, query, coins)
        if bits.shape != (BLOCK, query.bits) or bits.max() > 1:
            raise Failed(f"randomize returns shape {bits.shape} for {BLOCK} devices of {query.bits} bits, or no bits")
        counts += np.bincount(bits @ weights, minlength=counts.size)
    return counts


def crossing(subject: Subject) -> str:
    """Check types and sizes: a query, a release of its bits a device, whole numbers; silent devices release zeros."""
    query, ratings = subject.query(TINY, PLAIN), everybody()
    if type(query) is not Query:
        raise Failed(f"a {type(query).__name__} is asked, no Query")
    if query.public_seed != PUBLIC:
        raise Failed("the query brings another public seed than it was given")
    devices = cohort(ratings, 0, ratings.users, absence=Absence(dropout=0.3))
    release = devices.answer(query, 0, ratings.users)
    if type(release) is not Release:
        raise Failed(f"a {type(release).__name__} is released, no Release")
    if release.width != query.bits or len(release.bits) != -(-release.count * query.bits // 8):
        raise Failed(f"{len(release.bits)} bytes of {release.width} bits a device, the query asks for {query.bits}")
    silent = ~release.answered_mask()
    if not silent.any() or release.unpacked()[silent].any():
        raise Failed("a device that does not answer releases more than zeros")
    if (release.pairs is not None) != subject.public.names_rated:
        raise Failed("pairs of items are released" if release.pairs else "the pairs that bits are about are missing")
    statistic = aggregate(query, release)
    _whole_numbers(statistic)
    if SECRET in pickle.dumps([query, release, statistic]):
        raise Failed("the devices' secret is in what crosses")
    return f"{query.bits} bits a device, {int(silent.sum())} of {release.count} silent"


def silence(subject: Subject) -> str:
    """Check that who answers, and about what, follows from public things alone: silence is no release."""
    query = subject.query(TINY, PLAIN)
    public = (lambda rated: tuple(item for item, _ in rated)) if subject.public.names_rated else (lambda _: ())
    for _, alike in groupby(every_rating(TINY), key=public):
        told = {_who(subject, query, rated) for rated in alike}
        if len(told) > 1:
            raise Failed("devices that rated otherwise are silent, or answer about other items")
        if not subject.public.names_rated and told != {(bytes([1]) * DEVICES, b"")}:
            raise Failed("a device is silent, or names items, though nothing that it rated is public")
    return "which items were rated is public, how is not" if subject.public.names_rated else "everybody alike"


def merging(subject: Subject) -> str:
    """Check that the statistic of a block is the sum of those of its parts, in any cut."""
    query, ratings = subject.query(TINY, PLAIN), everybody()
    devices = cohort(ratings, 0, ratings.users, absence=Absence(dropout=0.1))
    whole = _told(aggregate(query, devices.answer(query, 0, ratings.users)))
    for size in (ratings.users // 2 + 1, 10, 1):
        blocks = cut(0, ratings.users, size)
        parts = [aggregate(query, devices.answer(query, first, stop)) for first, stop in blocks]
        if _told(merge(*parts)) != whole:
            raise Failed(f"blocks of {size} devices have another sum than one block of {ratings.users}")
    return f"{ratings.users} devices in one block, in two, by ten and one by one"


def _who(subject: Subject, query: Query, rated: Rated) -> tuple[bytes, bytes]:
    _, able, pairs = subject.sketch(query, stored([rated], [0] * DEVICES, TINY.items))
    mask = np.ones(DEVICES, np.bool_) if able is None else able
    return mask.tobytes(), b"" if pairs is None else pairs.tobytes()


def _whole_numbers(statistic: Statistic) -> None:
    if not isinstance(statistic, Statistic):
        raise Failed(f"aggregate returns a {type(statistic).__name__}, no Statistic")
    for part in fields(statistic):
        value = getattr(statistic, part.name)
        if type(value) is not int and not (isinstance(value, np.ndarray) and value.dtype == np.int64):
            raise Failed(f"{part.name} of the statistic is no whole number, nor an array of int64")


def _told(statistic: Statistic) -> dict[str, object]:
    _whole_numbers(statistic)
    values = {part.name: getattr(statistic, part.name) for part in fields(statistic)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


HUGE = 1e300
T = TypeVar("T")


def refusals(subject: Subject) -> str:
    """Check that what is no query of it is refused in one line, with nothing charged; odd numbers break nothing."""
    query, tried = subject.query(TINY, PLAIN), 0
    ratings = everybody()
    for what, wrong in _no_queries(subject, query):
        tried += 1
        if not _refused(wrong, ratings):
            raise Failed(f"{what} is answered")
    for name in query.parameters:
        for value in (-1.0, 0.0, 0.5, HUGE, -HUGE):
            tried += 1
            _refused(altered(query, parameters={**query.parameters, name: value}), ratings)
    return f"{tried} wrong queries"


def altered(query: Query, **changes: object) -> Query:
    """Return a query that nothing has checked: a hostile server sends what it likes."""
    other = copy(query)
    for name, value in changes.items():
        object.__setattr__(other, name, value)
    return other


def _no_queries(subject: Subject, query: Query) -> Iterator[tuple[str, Query]]:
    """Yield what every mechanism refuses, in words."""
    given, public = query.parameters, subject.public
    yield "another design", altered(query, design=f"{query.design}x")
    yield "another catalogue", altered(query, items=query.items + 1)
    for epsilon in (Fraction(0), Fraction(-1)):
        yield f"epsilon {epsilon}", altered(query, epsilon=epsilon)
    for questions in (-1, 0, public.questions(query).stop):
        yield f"{questions} questions", altered(query, questions=questions)
    for width in (query.answer_bits - 1, query.answer_bits + 1):
        yield f"{width} bits an answer", altered(query, answer_bits=width)
    yield "a parameter too many", altered(query, parameters={**given, "more": 1.0})
    for name in given:
        yield f"no {name}", altered(query, parameters=without(given, name))
        for value in (math.nan, math.inf, "1"):
            yield f"{name} {value!r}", altered(query, parameters={**given, name: value})
    yield "an array too many", altered(query, arrays={**query.arrays, "more": np.arange(3)})
    for name in query.arrays:
        yield f"no array {name}", altered(query, arrays=without(query.arrays, name))
    yield from _of_pools(public, query)
    for epsilon in () if public.private else (Fraction(1), Fraction(1, 10**9), Fraction(10**400)):
        yield "an epsilon, which it cannot keep,", altered(query, epsilon=epsilon)


def _of_pools(public: PublicHalf, query: Query) -> Iterator[tuple[str, Query]]:
    """Yield pools and centres that a mechanism refuses."""
    items = np.arange(query.items, dtype=np.int32)
    for what, pool in (("falling", items[::-1]), ("empty", items[:0]), ("beyond the catalogue", items + 1)):
        yield f"a pool that is {what}", altered(query, pool=pool, centres=None)
    if public.pooled is not None:
        yield "a pool, or none,", altered(query, pool=None if public.pooled else items, centres=None)
    if not public.centred:
        asked = items if query.pool is None else query.pool
        yield "centres", altered(query, pool=query.pool, centres=np.zeros_like(asked))


def without(values: Mapping[str, T], name: str) -> dict[str, T]:
    """Return all values but one."""
    return {other: value for other, value in values.items() if other != name}


def _refused(query: Query, ratings: StoredRatings) -> bool:
    """Return whether devices refuse a query; they may answer it, but not break, nor be charged for a refusal."""
    devices = cohort(ratings, 0, 3)
    try:
        devices.answer(query, 0, 3)
    except InputError as error:
        if "\n" in str(error):
            raise Failed(f"a refusal has several lines: {str(error).splitlines()[0]}") from None
        require_spent(devices, Fraction(0), "a refused query")
        return True
    return False


class Check(NamedTuple):
    """One check.

    Attributes
    ----------
    name : str
        A short name.
    meaning : str
        What it makes sure of.
    holds : callable
        Returns figures in words where it holds, and raises a verdict otherwise.
    """

    name: str
    meaning: str
    holds: Callable[[Subject], str]

    def of(self, subject: Subject) -> Row:
        """Return what comes of it; whatever is raised on the way is a failure of the mechanism."""
        try:
            verdict, told = HELD, self.holds(subject)
        except Failed as failed:
            verdict, told = FAILED, str(failed)
        except Unchecked as reason:
            verdict, told = UNCHECKED, str(reason)
        except BlindrecError as error:
            verdict, told = FAILED, str(error)
        except Exception as error:  # one's own code may raise anything
            verdict, told = FAILED, f"{type(error).__name__}: {error}".splitlines()[0]
        return Row(mechanism=subject.label, check=self.name, meaning=self.meaning, verdict=verdict, told=told)


CHECKS = (
    Check("log-ratio", "the channel gives away epsilon, neither more nor less", log_ratio),
    Check("run's size", "so it does in closed form, in a catalogue of a run", at_the_runs_size),
    Check("sampler", "what devices release follows the channel", sampler),
    Check("crossing", "queries, releases and whole numbers cross, and nothing else", crossing),
    Check("silence", "who answers follows from public things alone", silence),
    Check("layouts", "the releases are the same on every layout", layouts),
    Check("ledger", "a new query costs epsilon, a repeat nothing", ledger),
    Check("refusals", "what is no query is refused, and nothing charged", refusals),
    Check("merging", "statistics of blocks add up to that of all", merging),
    Check("settings", "every setting has its words, the same everywhere", server_checks.settings),
    Check("estimates", "values rise with the truth, and err as they say", estimates),
    Check("prediction", "runs put right what its moments predict", server_checks.prediction),
)
"""What is checked of every mechanism with every choice of its settings."""


def conformance(subjects: Iterable[Subject], checks: Iterable[Check] = CHECKS) -> Conformance:
    """Return what every check finds of every subject."""
    asked = list(checks)
    return Conformance(tuple(check.of(subject) for subject in subjects for check in asked))


def check(mechanism: str | Mechanism, *, settings: Choice | None = None, epsilon: Epsilon = None) -> Conformance:
    """Check that a mechanism keeps what every mechanism must keep.

    Parameters
    ----------
    mechanism : str or Mechanism
        Its name, or ``package.module:Name`` of one's own, or one's own with its settings.
    settings : dict, optional
        Its settings that are not the default; by default every choice that can be listed is checked.
    epsilon : Fraction, optional
        Where its channel is enumerated, alone [nats]; by default at 0.1, 1 and 3.

    Raises
    ------
    InputError
        If there is no such mechanism, or it cannot be asked so.
    """
    found = subjects(mechanism, settings or None)
    made = conformance(found if epsilon is None else [replace(one, epsilons=(epsilon,)) for one in found])
    left_out = [] if settings else skipped(mechanism)
    words = {"check": "settings", "meaning": "twice a number is taken, too", "verdict": UNCHECKED}
    return Conformance(made.rows + tuple(Row(mechanism=label, told=told, **words) for label, told in left_out))
