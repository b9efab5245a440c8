"""The attacks on answers to queries and on releases of two tiers: scores of two inputs, and the epsilon they bound."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta, binom

from actors.second_order.cohort import Consent, PrivateCohort
from coordinator.protocol.arrays import Bits2, Bools, Floats, Floats2, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import LogRatio
from coordinator.protocol.checked import MOST_ITEMS, require_whole
from coordinator.protocol.coins import derive, on_grid
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, residuals
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_channels import basis_of
from coordinator.protocol.second_order_mechanisms import A_RELEASE, check_mechanism, public_part_of
from scenarios.studies.scrutiny.mechanism_under_test import SECRET, Neighbours, Rated, Size, comparable, inputs, stored
from scenarios.studies.scrutiny.release_laws import (
    PILOTS,
    AttackSample,
    ClaimedLaw,
    LogRatios,
    Observation,
    answers,
    keys_of,
    patterns_of,
    sample_attack,
)
from scenarios.studies.scrutiny.verdicts import AttackResult, Audit, Power

FIT, CHOOSE, MEASURE = 0, 1, 2  # what a play is for: to order what is seen, to choose the event, or to measure it
CUTS = 256  # thresholds that are tried for each score
SCARCE = 12  # what was seen less often says nothing
MOST_LEARNED, WIDE = 20_000, 64  # plays that are learned from, and columns of which a tree is still fitted
FINDS = 0.9  # probability with which leaks of the size that an audit states are found
SHARES = (1.0, 0.2, 0.01)  # shares of the answers for which it states that size
FARTHEST = 60.0  # no leak is larger [nats]
MARGIN = 0.01  # a later look is preferred to an earlier, simpler one if it promises so much more [nats]


def parts_of(plays: int, coins: np.random.Generator) -> Ints:
    """Return what each play is for, drawn by chance so that it goes with no address: half of them measure."""
    return coins.choice([FIT, CHOOSE, MEASURE], plays, p=[0.25, 0.25, 0.5])


def at_least(hits: Ints, misses: Ints, plays: int, doubt: float, delta: float = 0.0) -> Floats:
    """Return lower bounds of ``log((P(E | a) - delta) / P(E | b))`` by Clopper and Pearson (1934) [nats].

    Whether the victim holds a or b is a fair coin, so that ``hits`` of the event with a, and ``misses`` of it with b,
    are counts among all plays whose means have the ratio of the two chances. Where the chances differ from play to
    play, a count is less spread than a binomial one with its mean (Hoeffding, 1956), so that the bound holds as well.
    """
    hit_bound = np.where(hits > 0, beta.ppf(doubt / 2, np.maximum(hits, 1), plays - hits + 1), 0.0)
    beyond = np.maximum(hit_bound - delta / 2, 0)  # as half of all plays have a
    with np.errstate(divide="ignore"):
        bounds: Floats = np.log(beyond) - np.log(_at_most(misses, plays, doubt))
    return bounds


def _at_most(misses: Floats | Ints, plays: int, doubt: float) -> Floats:
    """Return upper bounds of the probability of what happened so often, each wrong with half of the doubt."""
    return np.where(misses < plays, beta.isf(doubt / 2, misses + 1, np.maximum(plays - misses, 1)), 1.0)


def best_event(
    scores: Mapping[str, Floats], secret: Bools, parts: Ints, doubt: float, delta: float = 0.0, **about: Any
) -> AttackResult:
    """Return what the event shows that the choosing plays like best; high scores speak for input a."""
    # Scores have shape (plays,), and are fitted on no play but those of `FIT`; ``secret`` says whether the victim holds
    # a, and ``delta`` how much of the event's probability the claim does not cover.
    choosing, measuring = parts == CHOOSE, parts == MEASURE
    plays, measured = int(choosing.sum()), int(measuring.sum())
    best, surest = -math.inf, 0.0
    event = guess = with_side = np.zeros(secret.size, np.bool_)
    by = "nothing"
    for name, score in scores.items():
        for side in (True, False):  # whether the event speaks for a or for b
            rather = score if side else -score
            with_secret, other = (np.sort(rather[choosing & (secret == value)]) for value in (side, not side))
            cuts = _cuts(np.concatenate([with_secret, other]))
            hits, misses = (
                with_secret.size - np.searchsorted(with_secret, cuts),
                other.size - np.searchsorted(other, cuts),
            )
            nats, right = at_least(hits, misses, plays, doubt, delta), (hits + other.size - misses) / max(plays, 1)
            if nats.size and nats.max() > best + MARGIN:
                best, by = float(nats.max()), name
                event, with_side = rather >= cuts[nats.argmax()], secret == side
            if right.size and right.max() > surest + MARGIN / 10:
                surest, guess = float(right.max()), (rather >= cuts[right.argmax()]) == side
    hits, misses = (np.array([np.count_nonzero(event & measuring & group)]) for group in (with_side, ~with_side))
    bound = max(float(at_least(hits, misses, measured, doubt, delta)[0]), 0.0)
    share = float((secret == guess)[measuring].mean()) if measured else 0.5
    counts: dict[str, Any] = {"plays": measured, "hits": int(hits[0]), "misses": int(misses[0])}
    return AttackResult(measured=bound, right=share, by=by, **counts, **about)


def power_of(attacks: Sequence[AttackResult], doubt: float) -> Power | None:
    """Return which leaks attacks would have found, each at this doubt; see `smallest_leak`."""
    # Of attacks that look at the least, as one release, the one that measured most.
    once = min(attack.times for attack in attacks)
    best = max((attack for attack in attacks if attack.times == once), key=lambda attack: attack.measured)
    if best.claimed is None or not best.hits + best.misses:
        return None
    rate = (best.hits + best.misses) / best.plays
    leaks = {share: smallest_leak(best.claimed, rate, best.plays, doubt, share) for share in SHARES}
    return Power(probability=FINDS, attack=best.name, claimed=best.claimed, leaks=leaks)


def smallest_leak(claimed: float, rate: float, plays: int, doubt: float, share: float) -> float | None:
    """Return the smallest epsilon of a share of the answers that an attack finds to be too much [nats], if any."""
    # Half as many plays as are measured choose that event, which is to be that of the leaking answers alone.
    low, high = claimed, claimed + FARTHEST
    if _finding_probability(high, claimed, rate, plays, doubt, share) < FINDS:
        return None
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        enough = _finding_probability(middle, claimed, rate, plays, doubt, share) >= FINDS
        low, high = (low, middle) if enough else (middle, high)
    return high


def _finding_probability(leak: float, claimed: float, rate: float, plays: int, doubt: float, share: float) -> float:
    """Return the probability that the leaking answers' event is chosen, and that its lower bound is above the claim."""
    odds, honest = (1 / (1 + math.exp(-nats)) for nats in (leak, claimed))
    alone = share * rate * odds, share * rate * (1 - odds)
    power = _probability_above(claimed, *alone, plays, doubt)
    if share == 1:
        return power
    # Half as many plays choose: there the event must beat that of all answers, in which the leak is watered down.
    mean = share * odds + (1 - share) * honest
    counts = np.array([[rate * mean], [rate * (1 - mean)]]) * (plays // 2)
    whole = float(at_least(counts[0], counts[1], plays // 2, doubt)[0])
    return power * _probability_above(max(whole, 0.0) + MARGIN, *alone, plays // 2, doubt)


def _probability_above(nats: float, hit: float, miss: float, plays: int, doubt: float) -> float:
    """Return the probability that `at_least` is above so much, if plays hit and miss with these probabilities."""
    # Over 200 quantiles of the misses: the fewest hits that suffice, and how probable it is that there are as many.
    misses = binom.ppf((np.arange(200) + 0.5) / 200, plays, miss)
    threshold = np.exp(nats) * _at_most(misses, plays, doubt)
    hits = np.where(threshold < 1, binom.isf(doubt / 2, plays, np.minimum(threshold, 1)) + 1, plays + 1)
    return float(np.mean(binom.sf(hits - 1, plays - misses, hit / (1 - miss))))


def _cuts(scores: Floats) -> Floats:
    """Return thresholds: every value where there are few, else by rank, finely where scores are largest."""
    values = np.unique(scores)
    if values.size <= CUTS:
        return values
    ranks = np.concatenate([np.geomspace(1, scores.size, CUTS), np.linspace(1, scores.size, CUTS)]).astype(int)
    return np.asarray(np.unique(np.sort(scores)[-ranks]))


def frequency_scores(keys: Ints, secret: Bools, parts: Ints) -> Floats:
    """Return for every play the log-ratio of how often its key was seen with a and with b among the plays of `FIT`."""
    key_codes, fit = pd.factorize(keys)[0], parts == FIT
    size = int(key_codes.max(initial=0)) + 1
    ours, theirs = (np.bincount(key_codes[fit & group], minlength=size) for group in (secret, ~secret))
    ratios = np.log(ours + 0.5) - np.log(theirs + 0.5)
    ratios[ours + theirs < SCARCE] = 0.0
    return np.asarray(ratios[key_codes])


def learned_scores(features: Floats, secret: Bools, parts: Ints) -> dict[str, Floats]:
    """Return what a linear model and a tree say of every play, as probability of input a; they saw those of `FIT`."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 (only an attack waits for it)
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415 (as above)

    fit_subset = np.flatnonzero(parts == FIT)[:MOST_LEARNED]
    if np.unique(secret[fit_subset]).size < 2:
        return {}
    mean, spread = features[fit_subset].mean(axis=0), features[fit_subset].std(axis=0)
    scaled = (features - mean) / np.where(spread > 0, spread, 1)
    models: dict[str, Any] = {"learned line": LogisticRegression(C=0.01, max_iter=20)}
    if features.shape[1] <= WIDE:
        models["learned tree"] = DecisionTreeClassifier(max_depth=6, min_samples_leaf=50, random_state=0)
    fits = {name: model.fit(scaled[fit_subset], secret[fit_subset]) for name, model in models.items()}
    return {name: np.asarray(model.predict_proba(scaled)[:, 1], np.float64) for name, model in fits.items()}


ITEMS, RANK, BLOCK = 8, 2, 1 << 14
STARS = (1.0, 2.0, 3.0, 4.0, 5.0)
MOST = 60_000  # the largest number of releases that an attack inspects: each is a separate message


def model() -> ItemFeatures:
    """Return a small public model: two directions, stars from 1 to 5."""
    world = np.random.default_rng(0)
    vectors = np.linalg.qr(world.normal(size=(ITEMS, RANK)))[0] * np.array([6.0, 4.0])
    return ItemFeatures(
        mean=on_grid(world.normal(3.0, 0.3, ITEMS)),
        vectors=on_grid(np.ascontiguousarray(vectors)),
        kappa=1.0,
        lowest=STARS[0],
        highest=STARS[-1],
        scale=STARS,
        common_h=0.5,
    )


def second_order_inputs(features: ItemFeatures) -> Iterator[tuple[str, str, Floats, Floats]]:
    """Yield the pairs of inputs that are distinguished, as ratings of all items; 0 stands for none."""
    first, second = (np.where(features.vectors[:, factor] > 0, 5.0, 1.0) for factor in (0, 1))
    loved, others = np.zeros(ITEMS), np.where(np.arange(ITEMS) > ITEMS // 2, 1.0, 0.0)
    loved[0] = 5.0
    yield "worst", "two opposite tastes", first, 6.0 - first
    yield "directions", "tastes of two directions", first, second
    yield "membership", "whether a device rated an item", loved + others, others
    yield "attribute", "whether it liked the only item that it rated", loved, loved / 5


def second_order_audit(mechanism: str, epsilon: Fraction, *, releases: int, doubt: float) -> Audit:
    """Attack the releases of a two-tier mechanism; ``doubt`` is the probability that one of the bounds is wrong."""
    part, features = public_part_of(mechanism), model()
    claimed = epsilon if part.takes_epsilon else None
    check_mechanism(mechanism, claimed)
    query = SecondOrderQuery(model=features.digest, mechanism=mechanism, epsilon=claimed)
    channel = part.channel(query, features)
    coins, cases = np.random.default_rng(20261123), list(second_order_inputs(features))
    parts = [True] if claimed is None or part.epsilon_of == A_RELEASE else [False, True]
    each, attacks = doubt / len(cases) / len(parts), []
    for whole in parts:
        for name, meaning, *pair in cases:
            label = meaning if whole and len(parts) == 1 else f"{meaning}, {'a release' if whole else part.epsilon_of}"
            sample = _sample(query, features, np.stack(pair), min(releases, MOST), coins)
            use = parts_of(sample.secret.size, coins)
            times = ITEMS if whole and len(parts) > 1 else 1
            cost: dict[str, Any] = {"times": times, "epsilon": claimed and times * claimed}
            scores = _scores(sample, use, whole=whole)
            attacks.append(best_event(scores, sample.secret, use, each, name=name, meaning=label, **cost))
    return Audit(
        design=mechanism,
        guarantee=part.promised(query),
        epsilon=claimed,
        log_ratio=LogRatio.of(None) if channel is None else channel.log_ratio,
        confidence=1 - doubt,
        attacks=tuple(attacks),
        power=power_of(attacks, doubt / len(attacks)),
    )


class TwoTierSample(NamedTuple):
    """What the attacker observes of some devices' releases, and what they hold."""

    payloads: Bits2  # as they crossed, shape (devices, bytes)
    values: Floats2  # what they stand for: vectors, or what moments say of the two tastes, shape (devices, k)
    tastes: Floats2  # completed vectors with input a, and with b, shape (2, m)
    secret: Bools  # whether a device holds a


def _sample(
    query: SecondOrderQuery, features: ItemFeatures, pair: Floats2, devices: int, coins: np.random.Generator
) -> TwoTierSample:
    """Let private devices answer that each hold one of two inputs by a fair coin."""
    secret = coins.random(devices) < 0.5
    rows = _rows(np.where(secret[:, None], pair[0], pair[1]))
    consent = Consent(mechanisms=frozenset({query.mechanism}), epsilon=query.epsilon)
    cohort = PrivateCohort(rows, SECRET, 0, rows.users, consent=consent)
    cohort.pin(query.model, 0, devices)
    releases = [
        release
        for first in range(0, devices, BLOCK)
        for release in cohort.answer(query, features, first, min(first + BLOCK, devices))
    ]
    tastes = residuals(features, _rows(pair))
    payloads = np.frombuffer(b"".join(release.payload for release in releases), np.uint8).reshape(devices, -1)
    if not public_part_of(query.mechanism).moment:
        return TwoTierSample(
            payloads, np.stack([release.as_vector(features, query) for release in releases]), tastes, secret
        )
    sides = tastes @ basis_of(features)
    sides /= np.linalg.norm(sides, axis=1)[:, None]
    moments = np.stack([release.as_moment(features, query) for release in releases])
    return TwoTierSample(payloads, np.einsum("nij,ki,kj->nk", moments, sides, sides), tastes, secret)


def _rows(ratings: Floats2) -> Rows:
    """Return ratings of all items as those that there are; 0 stands for none."""
    users, items = np.nonzero(ratings)
    starts = np.searchsorted(users, np.arange(len(ratings) + 1))
    return Rows(starts=starts, items=items.astype(np.int32), values=ratings[users, items], count=ITEMS)


def _scores(sample: TwoTierSample, use: Ints, *, whole: bool) -> dict[str, Floats]:
    """Return scores of releases, by the name of what makes them; ``use`` is what each release is for."""
    lean = sample.tastes[0] - sample.tastes[1]
    if not whole:  # the coordinate, or the bit, that the two tastes differ in most
        coordinate = int(np.argmax(np.abs(lean)))
        return {"coordinate": sample.values[:, coordinate] * np.sign(lean[coordinate])}
    scores = {"projection": sample.values @ lean} if sample.values.shape[1] == lean.size else {}
    scores["releases"] = frequency_scores(keys_of(sample.payloads), sample.secret, use)
    return scores | learned_scores(sample.values.astype(np.float32), sample.secret, use)


AT_ONCE = 1 << 20  # numbers of sketches that are compared at once
MOST_PAIRS = 4  # pairs of inputs that one attack uses; a device's own pair depends on its public coins
SEARCHED = 1 << 18  # the largest number of releases that a search inspects
SEARCHING = derive(0, "devices that are searched")
"""The secret of these devices: their noise is not that of the devices on which an attack is measured."""
FEWEST = 1000  # releases that an attack looks at
MOST_HELD = 1 << 24  # bits of releases and sketches in memory at once: of long ones there are fewer
CHUNK, MOST_CHUNKS = 8, 8  # bits of a long release that are inspected together, and the largest number of such chunks
FAR = 15  # differing bits are counted up to here where they are compared


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """One attack, before it is run."""

    name: str
    meaning: str
    neighbours: Neighbours
    laws: tuple[ClaimedLaw, ...]  # of the queries that devices are asked in turn
    _: KW_ONLY
    fitted: bool = True  # whether each device gets the pair of inputs that the channel tells apart best there
    company: bool = False  # whether the attacker knows the inputs of the devices around the victim


def attack(plan: AttackPlan, releases: int, claimed: Epsilon, doubt: float, coins: np.random.Generator) -> AttackResult:
    """Make an attack, and return what the event shows that it counts."""
    sketches = [law.sketch(stored([()], [0], law.query.items))[0] for law in plan.laws]
    width = max(*(sketch.shape[1] for sketch in sketches), *(law.query.bits for law in plan.laws))
    devices = max(FEWEST, min(releases // len(plan.laws), MOST_HELD // (width * len(plan.laws))))
    sample = sample_attack(plan.laws, plan.neighbours, devices, coins, fitted=plan.fitted, company=plan.company)
    parts = parts_of(sample.victims.size, coins)
    new = len({law.query.id for law in plan.laws})  # What is claimed of one release may be spent so many times
    cost: dict[str, Any] = {"times": new, "epsilon": claimed and new * claimed}
    scores, secret = attack_scores(sample, parts), sample.secret[sample.victims]
    return best_event(scores, secret, parts, doubt, name=plan.name, meaning=plan.meaning, **cost)


def attack_plans(
    laws: tuple[ClaimedLaw, ...], size: Size, *, releases: int, coins: np.random.Generator
) -> Iterator[AttackPlan]:
    """Yield the attacks; the worst neighbours are looked up in the channel, and others are searched for."""
    first, names_rated, rows = laws[0], laws[0].names_rated, inputs(size, coins)
    pairs, rounds = comparable(rows, names_rated=names_rated), f"in {len(laws)} rounds"
    worst = _worst(first, rows, pairs)
    unlike = _most_unlike(first, rows, pairs, releases=releases, coins=coins)
    yield AttackPlan("worst", "the two inputs that the channel tells apart best", worst, (first,))
    yield AttackPlan("searched", "two inputs that were found by search", unlike, (first,), fitted=False)
    yield AttackPlan("repeat", "the worst inputs, asked twice the same", worst, (first, first))
    meaning = "the worst inputs, beside devices whose inputs are known"
    yield AttackPlan("company", meaning, worst, (first,), company=True)
    yield AttackPlan("rounds", f"the worst inputs, {rounds}", worst, laws)
    yield AttackPlan("searched rounds", f"inputs found by search, {rounds}", unlike, laws, fitted=False)
    # What is inferred of one device: whether it rated an item, and how; it likes all others, or none.
    others = [tuple((item, like) for item in range(1, max(2, min(size.rated, size.items)))) for like in (False, True)]
    liked, disliked = ([((0, like), *rest) for rest in others] for like in (True, False))
    sides = np.array([[0, 2], [1, 3]])
    if not names_rated:
        neighbours = Neighbours((*liked, *others), sides)
        yield AttackPlan("membership", f"whether an item was rated, {rounds}", neighbours, laws)
    yield AttackPlan("attribute", f"whether an item is liked, {rounds}", Neighbours((*liked, *disliked), sides), laws)


def variant_plans(
    kind: str, laws: tuple[ClaimedLaw, ...], size: Size, *, after: ClaimedLaw, releases: int, coins: np.random.Generator
) -> Iterator[AttackPlan]:
    """Yield the attacks on another kind of query, as that about some items only: alone, and after a run's first one."""
    first, description, rows = laws[0], kind.replace("pool=some", "about some items only"), inputs(size, coins)
    pairs = comparable(rows, names_rated=first.names_rated)
    worst = _worst(first, rows, pairs)
    unlike = _most_unlike(first, rows, pairs, releases=releases, coins=coins)
    # What a round about all items has in common with one about some of them shows where only the latter's rating
    # differs: of two inputs that differ in both, equal noise tells nothing.
    differing = [{item for item, _ in {*rows[first_index]} ^ {*rows[other]}} for first_index, other in pairs.tolist()]
    single = pairs[[len(items) == 1 for items in differing]]
    alone = _most_unlike(first, rows, single, releases=releases, coins=coins) if len(single) else unlike
    yield AttackPlan(f"worst {kind}", f"the worst inputs, {description}", worst, (first,))
    yield AttackPlan(f"searched {kind}", f"inputs found by search, {description}", unlike, (first,), fitted=False)
    meaning = (
        f"inputs that differ in one rating, found by search, in {len(laws)} rounds, from the second on {description}"
    )
    yield AttackPlan(f"rounds {kind}", meaning, alone, (after, *laws[1:]), fitted=False)


def _worst(law: ClaimedLaw, rows: list[Rated], pairs: Ints) -> Neighbours:
    """Return the few pairs of inputs that together lie farthest apart on most devices, as the channel claims it."""
    ratios = LogRatios(law)
    of_rows = [law.sketch(stored([row], [0] * PILOTS, law.query.items)) for row in rows]
    sketches, answered = (np.stack(parts) for parts in zip(*of_rows, strict=True))
    one_by_one = law.enumerable and not ratios.alike(sketches[pairs[0, 0]])
    step = 1 if one_by_one else max(1, AT_ONCE // sketches[0].size)
    far = np.zeros((len(pairs), PILOTS))
    for start in range(0, len(pairs), step):
        first_index, two = pairs[start : start + step].T
        apart = ratios.distance(np.concatenate(sketches[first_index]), np.concatenate(sketches[two])).reshape(
            -1, PILOTS
        )
        far[start : start + step] = np.where(answered[first_index] & answered[two], apart, 0.0)
    best: list[int] = []
    reached = np.zeros(PILOTS)
    for _ in range(MOST_PAIRS):
        gain = np.maximum(far, reached).sum(axis=1)
        best_column = int(np.argmax(gain))
        if best and gain[best_column] <= reached.sum() * 1.01:
            break
        best.append(best_column)
        reached = np.maximum(reached, far[best_column])
    return _of_places(rows, pairs[best])


def _most_unlike(
    law: ClaimedLaw, rows: list[Rated], pairs: Ints, *, releases: int, coins: np.random.Generator
) -> Neighbours:
    """Return the pairs of inputs whose releases differ most, whatever the channel claims, in releases of their own."""
    user = coins.integers(len(rows), size=min(SEARCHED, releases, (1 << 24) // law.query.bits))
    ((bits, answered, _),) = answers([law], stored(rows, user, law.query.items), SEARCHING)
    least = np.full(len(pairs), -np.inf)
    for start in range(0, law.query.bits, CHUNK):
        part = patterns_of(bits[:, start : start + CHUNK]) + (1 << CHUNK) * ~answered
        counts = np.bincount(user * (2 << CHUNK) + part, minlength=len(rows) * (2 << CHUNK)).reshape(len(rows), -1)
        counts = counts[:, counts.any(axis=0)]
        least = np.maximum(least, _cautious_log_ratio(counts, np.bincount(user, minlength=len(rows)), pairs))
    return _of_places(rows, pairs[np.argsort(-least, kind="stable")[:MOST_PAIRS]])


def _cautious_log_ratio(counts: Ints, devices: Ints, pairs: Ints) -> Floats:
    """Return a cautious log-ratio of one release's shares for each pair of inputs, the largest over releases."""
    shares = np.log((counts + 0.5) / (devices + 1.0)[:, None])
    spread = 1.0 / (counts + 0.5)
    largest = np.full(len(pairs), -np.inf)
    for column in range(counts.shape[1]):
        share, noise = shares[:, column], spread[:, column]
        apart = np.abs(share[pairs[:, 0]] - share[pairs[:, 1]])
        largest = np.maximum(largest, apart - 4 * np.sqrt(noise[pairs[:, 0]] + noise[pairs[:, 1]]))
    return largest


def _of_places(rows: list[Rated], pairs: Ints) -> Neighbours:
    """Return pairs of inputs, without the inputs that no pair has."""
    used, places = np.unique(pairs, return_inverse=True)
    return Neighbours(tuple(rows[index] for index in used.tolist()), places.reshape(pairs.shape))


def attack_scores(sample: AttackSample, parts: Ints) -> dict[str, Floats]:
    """Return scores of every play, larger where the victim rather holds a, by the name of what makes them."""
    victims = sample.victims
    secret = sample.secret[victims]
    log_ratio: Floats = np.sum([observation.log_ratio[victims] for observation in sample.observations], axis=0)
    scores = {"stated log-ratio": log_ratio}
    if (agreement := _agreement(sample)) is not None:
        scores["agreement"] = agreement
    columns = [_columns(sample, observation) for observation in sample.observations]
    tables = {"releases": np.stack([part for of_query in columns for part in of_query], axis=1)}
    if len(columns) > 1:
        tables |= {f"release {number}": np.stack(of_query, axis=1) for number, of_query in enumerate(columns)}
    if (noise := _equal_noise(sample)) is not None:
        tables["equal noise"] = noise
    tables |= _chunks(sample)
    features = _features(sample, list(scores.values()), noise)
    scores |= {name: frequency_scores(keys_of(table), secret, parts) for name, table in tables.items()}
    return scores | learned_scores(features, secret, parts)


def _columns(sample: AttackSample, observation: Observation) -> list[Ints]:
    """Return the attacker's knowledge of one query, as whole numbers: of the victim, and of its company."""
    victims, (bits, answered, pairs) = sample.victims, observation.answers
    releases, ours, theirs = patterns_of(bits), keys_of(observation.ours), keys_of(observation.theirs)
    columns = [releases[victims], answered[victims].astype(np.int64), ours[victims], theirs[victims]]
    columns += [] if pairs is None else [keys_of(pairs)[victims]]
    columns += [np.sign(observation.log_ratio[victims]).astype(np.int64)]
    for step in sample.company:
        other = victims + step
        columns += [releases[other], np.where(sample.secret[other], ours[other], theirs[other])]
    return columns


def _noises(sample: AttackSample) -> list[tuple[Bits2, Bits2]]:
    """Return which bits of each release are noise if the device holds a, and if it holds b, where that is known."""
    known = [
        (observation.bits, observation.likely) for observation in sample.observations if observation.likely is not None
    ]
    return [(bits ^ ours, bits ^ theirs) for bits, (ours, theirs) in known]


def _agreement(sample: AttackSample) -> Floats | None:
    """Return by how many bits releases are nearer to what is likeliest with a than to what is likeliest with b."""
    noises = _noises(sample)
    if len(noises) < len(sample.observations):
        return None
    nearer = [(theirs.sum(axis=1, dtype=np.int64) - ours.sum(axis=1))[sample.victims] for ours, theirs in noises]
    return np.asarray(np.sum(nearer, axis=0, dtype=np.float64))


def _equal_noise(sample: AttackSample) -> Ints | None:
    """Return how many bits of noise differ between the victim's release and its next one, or those of its company."""
    victims, noises, counts = sample.victims, _noises(sample), []
    for step in sample.company:
        for ours, theirs in noises:
            noise = np.where(sample.secret[:, None], ours, theirs)[victims + step]
            counts += [_differing_bits(ours[victims], noise), _differing_bits(theirs[victims], noise)]
    for sides, next_sides in pairwise(noises):
        counts += [_differing_bits(a[victims], b[victims]) for a, b in zip(sides, next_sides, strict=True)]
    return np.stack(counts, axis=1) if counts else None


def _differing_bits(first_bits: Bits2, two: Bits2) -> Ints:
    width = min(first_bits.shape[1], two.shape[1])  # two rounds may ask for releases of different lengths
    return np.asarray(np.minimum((first_bits[:, :width] ^ two[:, :width]).sum(axis=1, dtype=np.int64), FAR))


def _chunks(sample: AttackSample) -> dict[str, Ints]:
    """Return a few bits of long releases, with their pair of inputs: single bits may leak more than the whole."""
    first, victims = sample.observations[0], sample.victims
    width, ends = first.query.bits, CHUNK * MOST_CHUNKS // 2
    if width <= CHUNK:
        return {}
    starts = sorted({*range(0, width, CHUNK)} - {*range(ends, width - ends, CHUNK)})
    parts = {start: patterns_of(first.bits[victims, start : start + CHUNK]) for start in starts}
    return {
        f"bits {start} to {min(start + CHUNK, width) - 1}": np.stack([part, sample.pair[victims]], axis=1)
        for start, part in parts.items()
    }


def _features(sample: AttackSample, scores: Sequence[Floats], noise: Ints | None) -> Floats:
    """Return a learner's features: bits, the likeliest bits, other scores, and the public address."""
    victims = sample.victims
    columns: list[np.ndarray[Any, Any]] = [score[:, None] for score in scores]
    columns += [] if noise is None else [noise]
    address = [victims % 2, victims % 10, victims % 16, victims % 100, victims, sample.pair[victims]]
    columns += [np.stack(address, axis=1)]
    for observation in sample.observations:
        columns.append(observation.bits[victims])
        if observation.likely is not None:
            ours, theirs = (side[victims].astype(np.int8) for side in observation.likely)
            columns.append((ours - theirs) * (2 * observation.bits[victims].astype(np.int8) - 1))
        columns += [observation.bits[victims + step] for step in sample.company]
    return np.concatenate([part.astype(np.float32) for part in columns], axis=1)


CONFIDENCE = 0.999
MOST_REPORTS, MOST_PLAYERS = 1 << 27, 1 << 18  # what devices send that is looked at in all, and devices of a round
LEARNABLE = 500  # rounds that a learner needs at least
PARTS = (0.1, 0.2, 0.7)  # shares of the rounds that fit looks, choose an event, and measure it


def central_attack(
    parts: Sequence[tuple[Mapping[str, Floats], Floats2]],
    secrets: Sequence[Bools],
    *,
    doubt: float,
    delta: float,
    coins: np.random.Generator,
    **about: Any,
) -> AttackResult:
    """Return what the best event of all rounds shows, by blocks' scores or by what a learner makes of features."""
    looks = {look: np.concatenate([scores[look] for scores, _ in parts]) for look in parts[0][0]}
    features, secret = np.concatenate([features for _, features in parts]), np.concatenate(secrets)
    use = coins.choice([FIT, CHOOSE, MEASURE], secret.size, p=PARTS)
    if features.shape[1] and np.count_nonzero(use == FIT) >= LEARNABLE:
        looks |= learned_scores(features, secret, use)
    return best_event(looks, secret, use, doubt, delta, **about)


def require_game(
    *, users: int, releases: int, items: int, rated: int, confidence: float, most: int = MOST_REPORTS
) -> Size:
    """Return the size of the world that an audit plays in, or refuse numbers that are none."""
    require_whole("users", users, 2, MOST_PLAYERS)
    require_whole("releases", releases, FEWEST, most)
    if not 0.5 <= confidence < 1:
        raise InputError(f"confidence is {confidence:g}; give a probability from 0.5 to below 1")
    require_whole("items", items, 2, MOST_ITEMS)
    return Size(items=items, rated=require_whole("rated", rated, 1, items), users=users)
