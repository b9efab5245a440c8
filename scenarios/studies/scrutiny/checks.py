"""The checks that every mechanism must pass, of its releases and of its server half; none stops the others."""

import hashlib
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import fields, replace
from fractions import Fraction
from itertools import groupby, product
from typing import NamedTuple

import numpy as np

from actors.absence import Absence
from actors.device import Cohort, sketch_of
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import DUST, Likelihood, LogRatio, odds_within
from coordinator.protocol.custom import UserClass
from coordinator.protocol.errors import BlindrecError, InputError
from coordinator.protocol.hashing import add_rows, expansions
from coordinator.protocol.mechanism import InWorld, Mechanism
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.shared_vector import SharedVector
from coordinator.protocol.shares import SEEDS_SERVER, SIDES, WORDS_SERVER, SeedShare, WordShare
from coordinator.protocol.short_adapter import CustomAdapter
from coordinator.protocol.statistics.statistic import Statistic, merge
from coordinator.server.aggregation import aggregate
from coordinator.server.fleet.cohorts import cut
from scenarios.backends.selection import InProcess
from scenarios.config.admission import add_draws, improbable_count
from scenarios.config.mechanism_settings import designs as local_mechanisms
from scenarios.config.resolve import ResolvedRun
from scenarios.data.metrics import clustering_scores
from scenarios.families.main.run import run
from scenarios.log import step
from scenarios.studies.scrutiny.mechanism_under_test import (
    MIDDLE,
    PLAIN,
    PUBLIC,
    ROUNDS,
    RUN,
    SECRET,
    TINY,
    Choice,
    MechanismUnderTest,
    Rated,
    Size,
    coins_of,
    every_rating,
    omissions,
    stored,
    subjects,
)
from scenarios.studies.scrutiny.release_laws import (
    BLOCK,
    DEVICES,
    MOST_BITS,
    AnyChannel,
    ClaimedLaw,
    floats,
    releases_of_sketch,
)
from scenarios.studies.scrutiny.verdicts import FAILED, HELD, UNCHECKED, CheckRow, Conformance, Failed, Unchecked
from scenarios.theory.predictors import predictor

UNKNOWN = "devices give shares, through no channel of their own; the noise is that of published sums"


def both_shares(devices: Cohort, query: Query) -> tuple[WordShare, SeedShare]:
    """Return what both servers get of all devices."""
    vectors_share, seeds = (devices.share(side, query, devices.first, devices.stop) for side in SIDES)
    if not isinstance(vectors_share, WordShare) or not isinstance(seeds, SeedShare):
        raise Failed(f"servers get a {type(vectors_share).__name__} and a {type(seeds).__name__}, no words and seeds")
    return vectors_share, seeds


def share_crossing(subject: MechanismUnderTest, ratings: StoredRatings) -> str:
    """Check types and sizes of shares, that they add up to vectors of zeros and ones, and that silence is zeros."""
    query, mechanism = subject.query(TINY, PLAIN), _shared_vector_of(subject)
    devices = Cohort(ratings, SECRET, 0, ratings.users, None, absence=Absence(dropout=0.3))
    vectors_share, seeds = both_shares(devices, query)
    silent = vectors_share.heard() == 0
    if vectors_share.answered != seeds.answered or not silent.any():
        raise Failed("other devices answer one server than the other one")
    if vectors_share.rows()[silent].any() or seeds.keys()[silent].any():
        raise Failed("a device that does not answer gives more than zeros")
    vectors = (
        vectors_share.rows() + expansions(seeds.keys(), seeds.width) * vectors_share.heard()[:, None].astype(np.uint32)
    )[~silent]
    most = mechanism.ones(query)
    if not mechanism.by_devices(query) and ((vectors > 1).any() or (vectors.sum(axis=1) > most).any()):
        raise Failed(f"shares add up to other vectors than of zeros and at most {most} ones")
    if SECRET in pickle.dumps([query, vectors_share, seeds]):
        raise Failed("the devices' secret is in what crosses")
    nobody = Cohort(StoredRatings(rows=ratings.rows, user=np.zeros_like(ratings.user)), SECRET, 0, ratings.users, None)
    alike = Cohort(ratings, SECRET, 0, ratings.users, None)
    if nobody.share(SEEDS_SERVER, query, 0, ratings.users) != alike.share(SEEDS_SERVER, query, 0, ratings.users):
        raise Failed("seeds depend on ratings")
    return f"{mechanism.width(query)} words and a seed a device, {int(silent.sum())} of {silent.size} silent"


def _shared_vector_of(subject: MechanismUnderTest) -> SharedVector:
    assert isinstance(subject.public, SharedVector)  # looked at by the caller
    return subject.public


EPSILON = Fraction(2)
RUNS, ITEMS = 20, 40
RUNS_FALSE_ALARM = 1e-5  # with which `prediction`, or `estimates`, fails who keeps what it says, by Student's law
SLACK = 0.01  # predictions are right to first order in 1/N: a hundredth of the items
AIM = 0.85  # share of items right at which predictions are looked at, where users matter most
ENOUGH = 1 << 14  # users that are as good as any number of them, where a prediction does not depend on it
ESTIMATE_USERS = 1 << 12
ERROR_SLACK = 1.5  # standard errors need be right up to this factor: some leave out which items users happened to rate


def settings(subject: MechanismUnderTest) -> str:
    """Check that every setting has its words, which are its flag's help, and means the same in all mechanisms."""
    fields = {name: field for name, field in subject.server.settings.model_fields.items() if name != "helpers"}
    if not fields:
        raise Unchecked("it has no settings of its own")
    for name, field in fields.items():
        if not (field.description or "").strip() and not issubclass(subject.server.settings, UserClass):
            raise Failed(f"setting {name} has no description")
        for other in local_mechanisms().values():
            theirs = other.settings.model_fields.get(name)
            if theirs is not None and repr(theirs) != repr(field):
                raise Failed(f"{other.name} has a setting {name}, too, of another type or with other words")
    return ", ".join(fields)


def prediction(subject: MechanismUnderTest) -> str:
    """Check that runs put as many items right as is predicted, on average over seeds."""
    # The mean of `RUNS` runs lies within Student's interval and `SLACK` around the prediction; that fails a right
    # prediction with probability `RUNS_FALSE_ALARM`.
    if subject.run_of is None:
        raise Unchecked("only whole catalogues are predicted")
    users, share, faint = _prediction_of(subject.run_of)
    right = []
    for seed in range(RUNS):
        result = run(subject.run_of(_size(users), EPSILON, seed=seed).scenario, InProcess(1))
        assert result.population.truth is not None  # a block model
        right.append(clustering_scores(result.outcome.model.cluster, result.population.truth).accuracy)
    measured, radius = _student(np.array(right), RUNS_FALSE_ALARM)
    radius += SLACK
    if faint and measured < AIM:
        raise Unchecked(f"{users} users: {measured:.3f} right, {share:.3f} predicted; both are too few to compare")
    if abs(measured - share) > radius:
        raise Failed(f"{users} users: {measured:.3f} of the items are right, {share:.3f} predicted, +- {radius:.3f}")
    return f"{users} users: {measured:.3f} right, {share:.3f} predicted, +- {radius:.3f}"


def _student(values: Floats, doubt: float) -> tuple[float, float]:
    """Return the mean of runs' values, and how far Student's interval reaches from it, wrong with this probability."""
    from scipy.stats import t  # noqa: PLC0415 (the table of checks needs none of it)

    reach = float(t.isf(doubt / 2, values.size - 1)) / math.sqrt(values.size)
    return float(values.mean()), reach * float(values.std(ddof=1))


def _prediction_of(run_of: Callable[..., ResolvedRun]) -> tuple[int, float, bool]:
    """Return users with whom most, but not all items should be right, their share, and whether it is too small."""
    # Where a custom design predicts that the fewest are as good as any, that is tested; where it predicts that the most
    # are too few, its prediction for `ENOUGH` is tested.
    custom = isinstance(run_of(_size(1 << 6), EPSILON).scenario.settings, UserClass)
    reason = "its class has no precision that says what to predict" if custom else "its moments tell nothing"
    for users in (1 << power for power in range(6, 20)):
        forecast = predictor(run_of(_size(users), EPSILON))
        if forecast is None:
            continue
        share = forecast.accuracy(users)
        # For as many as it takes
        if not custom and not reason.startswith("it is") and share == forecast.accuracy(ENOUGH):
            return ENOUGH, share, False
        if share >= AIM:
            return users, share, False
        reason = f"it is predicted to need more than {users} users"
    if custom and reason.startswith("it is") and (forecast := predictor(run_of(_size(ENOUGH), EPSILON))):
        return ENOUGH, forecast.accuracy(ENOUGH), True
    raise Unchecked(f"{reason}, in a catalogue of {ITEMS} items")


def _size(users: int) -> Size:
    return Size(items=ITEMS, rated=ITEMS // 4, users=users)


def estimates(subject: MechanismUnderTest) -> str:
    """Check over seeds that values rise with what users like, and spread as their standard errors say."""
    # Items that are liked alike have one mean; around it the squares of values over squares of standard errors average
    # one; its mean over `RUNS` seeds lies in Student's interval of 1, but for a factor of `ERROR_SLACK` in the errors.
    if subject.run_of is None:
        raise Unchecked("only whole catalogues are estimated")
    design = subject.run_of(_size(ESTIMATE_USERS), EPSILON).design
    if not (isinstance(design, InWorld) and design.estimates):
        raise Unchecked("it estimates no value and standard error of every item")
    runs = [_estimates_of(subject, seed) for seed in range(RUNS)]
    rise = np.array([value[level > 0].mean() - value[level < 0].mean() for value, _, level in runs])
    around, radius = _student(rise, RUNS_FALSE_ALARM / 2)
    rises = f"values rise by {around:.3g} +- {radius:.2g}"
    if around + radius < 0:
        raise Failed(f"items that are liked more have lower values: by {-around:.3g} +- {radius:.2g}")
    mean, wide = _student(np.array([_spread(*run_counts) for run_counts in runs]), RUNS_FALSE_ALARM / 2)
    if mean - wide > ERROR_SLACK**2 or mean + wide < 1 / ERROR_SLACK**2:
        share = f"{math.sqrt(mean):.3g} of the standard errors that it states"
        raise Failed(f"values of items that are liked alike lie {share} from their mean")
    if around - radius <= 0:
        raise Unchecked(f"{ESTIMATE_USERS} users tell nothing of what they like: {rises}")
    return f"{rises}, and spread by {math.sqrt(mean):.3f} of their standard errors"


def _estimates_of(subject: MechanismUnderTest, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return values and standard errors of one run, and of each item whether it is liked more than the mean."""
    assert subject.run_of is not None  # checked by who calls
    result = run(subject.run_of(_size(ESTIMATE_USERS), EPSILON, seed=seed).scenario, InProcess(1))
    query, design = result.outcome.state.asked[0].query, result.resolved.design
    assert isinstance(design, InWorld)  # checked by who calls
    sums = design.read(query, result.statistic)
    assert result.population.truth is not None  # a block model
    level = np.array(result.scenario.like).mean(axis=0)[result.population.truth]
    measured = sums.information > 0
    error = 1 / np.sqrt(sums.information[measured])
    return sums.weighted[measured] * error**2, error, level[measured] - level.mean()


def _spread(value: Floats, error: Floats, level: Floats) -> float:
    """Return the mean square of how far values lie from the mean of their cluster, in standard errors."""
    squares, degrees = 0.0, 0
    for level_value in np.unique(level):
        alike = level == level_value
        weight = 1 / error[alike] ** 2
        centre = float(np.average(value[alike], weights=weight))
        squares += float((weight * (value[alike] - centre) ** 2).sum())
        degrees += int(alike.sum()) - 1
    return squares / max(degrees, 1)


SHORT = Fraction(1, 10**6)  # by how much of epsilon a channel may fall short: coins are rounded towards more noise
DRAWN = 200  # ratings that are drawn in the middle world, where they cannot be enumerated
SAMPLED, PARTS = 1 << 20, 3  # devices whose releases of one private sketch are counted, and sketches that are released
FALSE_ALARM = 1e-6  # probability that `sampler` fails a mechanism that follows its channel
HUGE = 1e300


def all_devices() -> StoredRatings:
    """Return devices of which one each has rated whatever can be rated in the tiny catalogue."""
    rows = list(every_rating(TINY))
    return stored(rows, range(len(rows)), TINY.items)


def layouts(subject: MechanismUnderTest) -> str:
    """Check that one device an actor, blocks and threads release the same, and that the next round has other coins."""
    ratings, absence = all_devices(), Absence(dropout=0.2)

    def digest(query: Query, size: int, threads: int) -> str:
        blocks = cut(0, ratings.users, size)
        cohorts = [Cohort(ratings, SECRET, first, stop, None, absence=absence) for first, stop in blocks]
        with ThreadPoolExecutor(threads) as pool:
            every = list(pool.map(lambda cohort: map(_content, _responses(subject, cohort, query)), reversed(cohorts)))
        # Of each server that gets something, in the order of devices
        return "".join(hashlib.sha256(b"".join(parts)).hexdigest() for parts in zip(*reversed(every), strict=True))

    wholes = []
    for number in (0, 1):
        query = subject.query(TINY, PLAIN, round_number=number)
        wholes.append(digest(query, ratings.users, 1))
        for size, threads in ((1, 1), (7, 3), (50, 2)):
            if digest(query, size, threads) != wholes[number]:
                line = f"cohorts of {size} devices on {threads} threads release other bits than one cohort of all"
                raise Failed(f"round 1: {line}" if number else line)
    if subject.public.randomizes and wholes[0] == wholes[1]:
        raise Failed("the next round's query has the same releases: its coins are not keyed by the query")
    return f"{ratings.users} devices, digest {wholes[0][:8]}"


def _responses(subject: MechanismUnderTest, devices: Cohort, query: Query) -> Sequence[Release | WordShare | SeedShare]:
    """Return what each server gets of all devices."""
    if subject.public.shares:
        return both_shares(devices, query)
    return [devices.answer(query, devices.first, devices.stop)]


def _content(response: Release | WordShare | SeedShare) -> bytes:
    """Return shares; of releases who answered, the bits and what they are about."""
    if not isinstance(response, Release):
        return response.content
    pairs = response.public_pairs()
    columns = [response.answered_mask(), response.unpacked(), *([] if pairs is None else [pairs])]
    return np.column_stack(columns).astype("<i4").tobytes()


def ledger(subject: MechanismUnderTest) -> str:
    """Check that a new query costs its epsilon, a repeat nothing and has the same bits, and one too many is refused."""
    query, later, ratings = subject.query(TINY, PLAIN), subject.query(TINY, PLAIN, round_number=1), all_devices()
    budget = None if query.epsilon is None else query.epsilon * Fraction(3, 2)
    devices = Cohort(ratings, SECRET, 0, ratings.users, budget)
    first = _responses(subject, devices, query)
    require_spent(devices, query.epsilon, "one query")
    if _responses(subject, devices, query) != first:
        raise Failed("asked again, devices release other bits")
    require_spent(devices, query.epsilon, "a query and its repeat")
    second = _responses(subject, devices, later)
    if query.epsilon is None:
        return "no noise: the ledger has no limit, a repeat has the same bits"
    for response in second:
        mask, content = (
            (response.answered_mask(), response.bits)
            if isinstance(response, Release)
            else (response.heard(), response.content)
        )
        if response.refused != ratings.users or any(content) or mask.any():
            raise Failed(f"beyond their budget {ratings.users - response.refused} of {ratings.users} devices answer")
    require_spent(devices, query.epsilon, "a refusal")
    return f"{as_float(query.epsilon):g} for a new query, 0 for its repeat, the next one is refused"


def require_spent(devices: Cohort, epsilon: Epsilon, what: str) -> None:
    """Fail where a device has spent anything else."""
    for first, _, spent in devices.ledger.spending():
        if spent != epsilon:
            raise Failed(f"device {first} has spent {as_float(spent):g} after {what}, not {as_float(epsilon):g}")


def log_ratio(subject: MechanismUnderTest) -> str:
    """Check that rows sum to one, and that no two private sketches are farther apart than epsilon, but some as far."""
    # Whoever spends epsilon should use it. A likelihood states floats, whose last digits may exceed it (`DUST`). Custom
    # classes are checked at every epsilon in all `ROUNDS`, others at one.
    every, figures = isinstance(subject.public, CustomAdapter), []
    places = [(epsilon, coins) for epsilon in subject.epsilons for coins in (ROUNDS if every else ROUNDS[:1])]
    for epsilon, (number, seed) in [
        *places,
        *([] if every else [(PLAIN, coins) for coins in ROUNDS[1:]]),
    ]:
        first = (number, seed) == ROUNDS[0]
        at = f"epsilon {as_float(epsilon):g}{'' if first else f', round {number}, public seed {seed.hex()[:8]}'}"
        channel, law = private_law(subject, TINY, epsilon, number, seed)
        enumeration = law.enumeration(every_rating(TINY))
        ratio, pair = enumeration.farthest()
        largest, slack = LogRatio.of(ratio), DUST if isinstance(channel, Likelihood) else 0
        if not largest.within(epsilon * (1 + slack)):
            above = f"{largest.beyond(epsilon):.3g} above epsilon"
            raise Failed(f"{at}: log-ratio {float(largest):.9g} between {pair}, {above}")
        if not _states(channel, largest):
            raise Failed(f"{at}: the channel says {channel.epsilon:.9g}, enumerated it is {float(largest):.9g}")
        enough = odds_within(epsilon * (1 - SHORT))
        reached = enumeration.reached(enough)
        if reached < enough and (larger := private_law(subject, MIDDLE, epsilon)[1]).enumerable:
            reached = max(reached, larger.enumeration(_middle_ratings()).reached(enough))
        if reached < enough:
            raise Failed(f"{at} is not spent: no two sketches are more than {float(LogRatio.of(reached)):.9g} apart")
        if first:
            figures.append(f"{float(LogRatio.of(reached)):.9g} of {as_float(epsilon):g}")
    return f"largest {', '.join(figures)}"


def private_law(
    subject: MechanismUnderTest, size: Size, epsilon: Fraction, number: int = 0, seed: bytes = PUBLIC
) -> tuple[AnyChannel, ClaimedLaw]:
    """Return the exact channel of a query at an epsilon, and its law; it raises a verdict where there is none."""
    if subject.public.shares:
        raise Unchecked(UNKNOWN)
    if not subject.public.randomizes and subject.server.private:
        raise Unchecked("devices tell a trusted curator their ratings; its guarantee is about what it publishes")
    if not subject.public.randomizes:
        raise Unchecked("it is not private: there is no channel, and no query with an epsilon")
    query = subject.query(size, epsilon, round_number=number, public_seed=seed)
    if query.epsilon != epsilon:
        raise Failed(f"a query for epsilon {as_float(epsilon):g} is asked with {as_float(query.epsilon):g}")
    if size == TINY and query.bits > MOST_BITS:
        raise Unchecked(f"releases of {query.bits} bits are too many to enumerate")
    law = ClaimedLaw(subject, query)
    if law.refusal or law.channel is None:
        raise Failed(law.refusal)
    return law.channel, law


def at_the_runs_size(subject: MechanismUnderTest) -> str:
    """Check in closed form that a channel of the size of a run spends epsilon, neither more nor less."""
    figures = []
    for epsilon, (number, seed) in product(subject.epsilons, ROUNDS):
        channel, _ = private_law(subject, RUN, epsilon, number, seed)
        if isinstance(channel, Likelihood):
            spent = channel.claimed == epsilon
        else:
            largest = channel.log_ratio
            spent = largest.within(epsilon) and not largest.within(epsilon * (1 - SHORT))
        if not spent:
            at = f"epsilon {as_float(epsilon):g} of {RUN.items} items, round {number}"
            raise Failed(f"{at}: the channel's own is {channel.epsilon:.9g}")
        if (number, seed) == ROUNDS[0]:
            figures.append(f"{channel.epsilon:.9g}")
    return f"{RUN.items} items: {', '.join(figures)}"


def _middle_ratings() -> Iterator[Rated]:
    """Yield ratings that are drawn, from hardly a like to hardly a dislike."""
    likes = np.random.default_rng(0).random((DRAWN, MIDDLE.items)) < np.linspace(0, 1, DRAWN)[:, None]
    return (tuple(enumerate(row)) for row in likes.tolist())


def _states(channel: AnyChannel, largest: LogRatio) -> bool:
    """Return whether a channel says of itself that it gives away as much as an enumeration, finite, shows."""
    if isinstance(channel, Likelihood):
        return channel.claimed is None or largest.within(channel.claimed * (1 + DUST))
    stated, ratio = channel.log_ratio.ratio, largest.ratio
    return stated is None or (ratio is not None and ratio <= stated)


def sampler(subject: MechanismUnderTest) -> str:
    """Check that releases of one private sketch have the channel's probabilities, counted over a million devices."""
    # Every value's count is held against Chernoff's bound of its binomial law; all of them together fail an honest
    # mechanism with probability 1e-6 at most (`FALSE_ALARM`, Bonferroni). An epsilon that is wrong by 3 % is seen.
    deviation, epsilons = 0.0, sorted({PLAIN, Fraction(subject.query(TINY, PLAIN).questions)})
    for epsilon in epsilons:  # where it is split over questions, also at 1 each
        for part, (number, seed) in enumerate(ROUNDS[:PARTS]):
            _, law = private_law(subject, TINY, epsilon, number, seed)
            bits = law.query.bits
            arrays = {name: private for device in law.sketches(every_rating(TINY)) for name, private in device.items()}
            sketch = sorted(arrays)[part * (len(arrays) - 1) // (PARTS - 1)]
            chances = floats(law.chances(arrays[sketch], law.streams(1)[0]))[None]
            counts = np.zeros(chances.shape, np.int64)
            for block in releases_of_sketch(law, arrays[sketch], SAMPLED):
                if block.shape != (BLOCK, bits) or block.max() > 1:
                    raise Failed(f"randomize returns shape {block.shape} for {BLOCK} devices of {bits} bits, or none")
                add_draws(counts, 0, block)
            if rare_release := improbable_count(counts, chances, FALSE_ALARM / PARTS / len(epsilons)):
                raise Failed(
                    f"release {rare_release[1]:0{bits}b} of sketch {list(sketch)} at epsilon {as_float(epsilon):g}: "
                    f"{counts[rare_release] / SAMPLED:.5f} of {SAMPLED} devices, "
                    f"the channel says {chances[rare_release]:.5f}"
                )
            deviation = max(deviation, float(np.abs(counts / SAMPLED - chances).max()))
    return f"{SAMPLED} devices a sketch, largest deviation {deviation:.5f}"


def crossing(subject: MechanismUnderTest) -> str:
    """Check types and sizes: a query, a release of its bits a device, whole numbers; silent devices release zeros."""
    query, ratings = subject.query(TINY, PLAIN), all_devices()
    if subject.public.shares:
        return share_crossing(subject, ratings)
    if type(query) is not Query:
        raise Failed(f"a {type(query).__name__} is asked, no Query")
    if query.public_seed != PUBLIC:
        raise Failed("the query brings another public seed than it was given")
    devices = Cohort(ratings, SECRET, 0, ratings.users, None, absence=Absence(dropout=0.3))
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
    _values(statistic)
    if SECRET in pickle.dumps([query, release, statistic]):
        raise Failed("the devices' secret is in what crosses")
    return f"{query.bits} bits a device, {int(silent.sum())} of {release.count} silent"


def silence(subject: MechanismUnderTest) -> str:
    """Check that who answers, and about what, follows from public things alone: silence is no release."""
    query = subject.query(TINY, PLAIN)
    public = (lambda rated: tuple(item for item, _ in rated)) if subject.public.names_rated else (lambda _: ())
    for _, alike in groupby(every_rating(TINY), key=public):
        silences = set()
        for rated in alike:
            ratings = stored([rated], [0] * DEVICES, TINY.items)
            _, able, pairs = sketch_of(query, ratings, coins_of(query, 0, DEVICES))
            mask = np.ones(DEVICES, np.bool_) if able is None else able
            silences.add((mask.tobytes(), b"" if pairs is None else pairs.tobytes()))
        if len(silences) > 1:
            raise Failed("devices that rated otherwise are silent, or answer about other items")
        if not subject.public.names_rated and silences != {(bytes([1]) * DEVICES, b"")}:
            raise Failed("a device is silent, or names items, though nothing that it rated is public")
    return "which items were rated is public, how is not" if subject.public.names_rated else "everybody alike"


def merging(subject: MechanismUnderTest) -> str:
    """Check that the statistic of a block is the sum of those of its parts, in any cut; of shares modulo 2**32."""
    query, ratings = subject.query(TINY, PLAIN), all_devices()
    devices = Cohort(ratings, SECRET, 0, ratings.users, None, absence=Absence(dropout=0.1))
    whole = _sum_of(subject, query, devices, ratings.users)
    for size in (ratings.users // 2 + 1, 10, 1):
        if _sum_of(subject, query, devices, size) != whole:
            raise Failed(f"blocks of {size} devices have another sum than one block of {ratings.users}")
    return f"{ratings.users} devices in one block, in two, by ten and one by one"


def _sum_of(subject: MechanismUnderTest, query: Query, devices: Cohort, size: int) -> dict[str, object]:
    """Return what blocks of so many devices add up to, as plain values."""
    blocks = cut(0, devices.stop, size)
    if not subject.public.shares:
        return _values(merge(*(aggregate(query, devices.answer(query, *block)) for block in blocks)))
    total = np.zeros(_shared_vector_of(subject).width(query), np.uint32)
    for block in blocks:
        share = devices.share(WORDS_SERVER, query, *block)
        assert isinstance(share, WordShare)  # of this server
        add_rows(share.rows(), share.heard(), total)
    return {"sums": total.tolist()}


def _values(statistic: Statistic) -> dict[str, object]:
    """Return the parts of a statistic, which must be whole numbers, or arrays of them, as plain values."""
    if not isinstance(statistic, Statistic):
        raise Failed(f"aggregate returns a {type(statistic).__name__}, no Statistic")
    values: dict[str, object] = {}
    for part in fields(statistic):
        value = getattr(statistic, part.name)
        if type(value) is not int and not (isinstance(value, np.ndarray) and value.dtype == np.int64):
            raise Failed(f"{part.name} of the statistic is no whole number, nor an array of int64")
        values[part.name] = value.tolist() if isinstance(value, np.ndarray) else value
    return values


def refusals(subject: MechanismUnderTest) -> str:
    """Check that what is no query of it is refused in one line, with nothing charged; odd numbers break nothing."""
    query, tried = subject.query(TINY, PLAIN), 0
    ratings = all_devices()
    for what, wrong in _no_queries(subject, query):
        tried += 1
        if not _refuses(wrong, ratings, shares=subject.public.shares):
            raise Failed(f"{what} is answered")
    for name in query.parameters:
        for value in (-1.0, 0.0, 0.5, HUGE, -HUGE):
            tried += 1
            altered = alter(query, parameters={**query.parameters, name: value})
            _refuses(altered, ratings, shares=subject.public.shares)
    return f"{tried} wrong queries"


def alter(query: Query, **changes: object) -> Query:
    """Return a query that nothing has checked: a hostile server sends what it likes."""
    other = copy(query)
    for name, value in changes.items():
        object.__setattr__(other, name, value)
    return other


def _no_queries(subject: MechanismUnderTest, query: Query) -> Iterator[tuple[str, Query]]:
    """Yield what every mechanism refuses, in words."""
    parameters, arrays, public = query.parameters, query.arrays, subject.public
    yield "another design", alter(query, design=f"{query.design}x")
    yield "another catalogue", alter(query, items=query.items + 1)
    for epsilon in (Fraction(0), Fraction(-1)):
        yield f"epsilon {epsilon}", alter(query, epsilon=epsilon)
    for questions in (-1, 0, public.question_range(query).stop):
        yield f"{questions} questions", alter(query, questions=questions)
    for width in (query.answer_bits - 1, query.answer_bits + 1):
        yield f"{width} bits an answer", alter(query, answer_bits=width)
    yield "a parameter too many", alter(query, parameters={**parameters, "more": 1.0})
    for name in parameters:
        yield f"no {name}", alter(query, parameters={other: parameters[other] for other in parameters if other != name})
        for value in (math.nan, math.inf, "1"):
            yield f"{name} {value!r}", alter(query, parameters={**parameters, name: value})
    yield "an array too many", alter(query, arrays={**arrays, "more": np.arange(3)})
    for name in arrays:
        yield f"no array {name}", alter(query, arrays={other: arrays[other] for other in arrays if other != name})
    yield from _of_pools(public, query)
    for epsilon in () if public.randomizes else (Fraction(1), Fraction(1, 10**9), Fraction(10**400)):
        yield "an epsilon, which it cannot keep,", alter(query, epsilon=epsilon)


def _of_pools(public: Mechanism, query: Query) -> Iterator[tuple[str, Query]]:
    """Yield pools and centres that a mechanism refuses."""
    items = np.arange(query.items, dtype=np.int32)
    for what, pool in (("falling", items[::-1]), ("empty", items[:0]), ("beyond the catalogue", items + 1)):
        yield f"a pool that is {what}", alter(query, pool=pool, centres=None)
    if public.pooled is not None:
        yield "a pool, or none,", alter(query, pool=None if public.pooled else items, centres=None)
    if not public.centred:
        pool = items if query.pool is None else query.pool
        yield "centres", alter(query, pool=query.pool, centres=np.zeros_like(pool))


def _refuses(query: Query, ratings: StoredRatings, *, shares: bool) -> bool:
    """Return whether devices refuse a query; they may answer it, but not break, nor be charged for a refusal."""
    devices = Cohort(ratings, SECRET, 0, 3, None)
    try:
        if shares:
            devices.share(WORDS_SERVER, query, devices.first, devices.stop)
        else:
            devices.answer(query, devices.first, devices.stop)
    except InputError as error:
        if "\n" in str(error):
            raise Failed(f"a refusal has several lines: {str(error).splitlines()[0]}") from None
        require_spent(devices, Fraction(0), "a refused query")
        return True
    return False


class Check(NamedTuple):
    """One check."""

    name: str
    meaning: str  # what it makes sure of
    # Returns figures in words where it holds, and raises a verdict otherwise
    holds: Callable[[MechanismUnderTest], str]

    def of(self, subject: MechanismUnderTest) -> CheckRow:
        """Return what comes of it; whatever is raised on the way is a failure of the mechanism."""
        try:
            verdict, line = HELD, self.holds(subject)
        except Unchecked as reason:
            verdict, line = UNCHECKED, str(reason)
        except (Failed, BlindrecError) as error:
            verdict, line = FAILED, str(error)
        except Exception as error:  # custom code may raise anything
            verdict, line = FAILED, f"{type(error).__name__}: {error}".splitlines()[0]
        return CheckRow(mechanism=subject.label, check=self.name, meaning=self.meaning, verdict=verdict, told=line)


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
    Check("settings", "every setting has its words, the same everywhere", settings),
    Check("estimates", "values rise with the truth, and err as they say", estimates),
    Check("prediction", "runs put right what its moments predict", prediction),
)
"""What is checked of every mechanism with every choice of its settings."""


def conformance(subjects: Iterable[MechanismUnderTest], checks: Sequence[Check] = CHECKS) -> Conformance:
    """Return what every check finds of every subject."""
    rows = []
    for subject in subjects:
        for check in checks:
            with step(f"{check.name} of {subject.label}"):
                rows.append(check.of(subject))
    return Conformance(tuple(rows))


def check_plain(mechanism: str | UserClass, *, settings: Choice | None = None, epsilon: Epsilon = None) -> Conformance:
    """Return what every check finds of a mechanism with these settings, or with all it has."""
    variants = subjects(mechanism, settings or None)
    result = conformance(
        variants if epsilon is None else [replace(variant, epsilons=(epsilon,)) for variant in variants]
    )
    refusals = [] if settings else omissions(mechanism)
    fields = {"check": "settings", "meaning": "twice a number is taken, too", "verdict": UNCHECKED}
    return Conformance(result.rows + tuple(CheckRow(mechanism=label, told=line, **fields) for label, line in refusals))
