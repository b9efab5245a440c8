"""One loop for all attacks: a view plays its games, and the best event of each bounds what its attacker learns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import pandas as pd
from scipy.stats import beta, binom

from coordinator.protocol.arrays import Bools, Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.checked import MOST_ITEMS, require_whole
from coordinator.protocol.errors import InputError
from scenarios.studies.scrutiny.mechanism_under_test import Size
from scenarios.studies.scrutiny.verdicts import AttackResult, Audit, Failed, Power

CONFIDENCE = 0.999
FEWEST, MOST_REPORTS, MOST_PLAYERS = 1000, 1 << 27, 1 << 18
"""What devices send that is looked at in all, at least and at most, and devices of a round."""
FIT, CHOOSE, MEASURE = 0, 1, 2  # what a play is for: to order what is seen, to choose the event, or to measure it
RELEASE_PARTS, ROUND_PARTS = (0.25, 0.25, 0.5), (0.1, 0.2, 0.7)
"""Shares of plays that fit, choose and measure: of single releases, and of rounds, of which there are few."""
LEARNABLE = 500  # rounds that a learner needs at least
CUTS = 256  # thresholds that are tried for each score
SCARCE = 12  # what was seen less often says nothing
MOST_LEARNED, WIDE = 20_000, 64  # plays that are learned from, and columns of which a tree is still fitted
FINDS = 0.9  # probability with which leaks of the size that an audit states are found
SHARES = (1.0, 0.2, 0.01)  # shares of the answers for which it states that size
FARTHEST = 60.0  # no leak is larger [nats]
MARGIN = 0.01  # a later look is preferred to an earlier, simpler one if it promises so much more [nats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """What an attacker wants to know, and what the claim lets it know; a view adds what it plays with."""

    name: str
    meaning: str  # the inputs that are distinguished, and what is observed
    epsilon: Epsilon = None  # the exact cost that is allowed [nats]; None where nothing is promised
    times: int = 1  # how often the claimed epsilon may be spent on it


class Observations(NamedTuple):
    """What an attacker observes of some plays; arrays have a row for each."""

    secret: Bools  # whether the victim holds the first of two inputs
    scores: Mapping[str, Floats] = {}  # larger where it rather does, by the name of what makes them
    keys: Mapping[str, Ints] = {}  # numbers of what was seen, whose frequencies with either input are learned
    features: Any = None  # a learner's, shape (plays, k)
    guess: Bools | None = None  # instead of all these: the input that the attacker's best test says
    facts: Mapping[str, Any] = {}  # what else is said of the attack, by JSON's names

    @classmethod
    def joined(cls, blocks: Iterable[Self]) -> Self:
        """Return the plays of several blocks, with scores and features."""
        every = list(blocks)
        return cls(
            secret=np.concatenate([block.secret for block in every]),
            scores={name: np.concatenate([block.scores[name] for block in every]) for name in every[0].scores},
            features=np.concatenate([block.features for block in every]),
        )


G = TypeVar("G", bound=Game)


class View(ABC, Generic[G]):
    """What the attacker of a trust model sees of a mechanism: it plays games, and knows what is claimed.

    Its keywords are its options in Python and as flags; `scenarios.studies.scrutiny.audit.VIEWS` registers it.
    """

    flag: ClassVar[str]  # of the command, by which it is chosen
    seed: ClassVar[int]
    releases: ClassVar[int]  # by default
    fewest: ClassVar[int] = FEWEST
    most: ClassVar[int] = MOST_REPORTS
    parts: ClassVar[tuple[float, float, float]] = ROUND_PARTS
    learnable: ClassVar[int] = LEARNABLE  # plays to fit from which on a learner is tried
    delta: float = 0.0  # how much of an event's probability the claim does not cover
    label: str  # of the mechanism, with its settings where they are not the default

    @staticmethod
    @abstractmethod
    def designs(*args: Any, **options: Any) -> list[str]:
        """Return the names of all mechanisms that it is about."""

    @abstractmethod
    def games(self, releases: int, coins: np.random.Generator) -> Sequence[G]:
        """Return the games, whose inputs may be searched for."""

    @abstractmethod
    def observe(self, game: G, releases: int, coins: np.random.Generator) -> Observations:
        """Let devices that hold either input by a fair coin answer, and return what is seen."""

    @abstractmethod
    def verdict(self, attacks: tuple[AttackResult, ...], confidence: float) -> Audit:
        """Hold claim, exact law and attacks against each other."""


def attack_view(view: View[G], *, releases: int, confidence: float) -> Audit:
    """Play all games of a view; all lower bounds hold together with the confidence (Bonferroni)."""
    require_whole("releases", releases, view.fewest, view.most)
    if not 0.5 <= confidence < 1:
        raise InputError(f"confidence is {confidence:g}; give a probability from 0.5 to below 1")
    coins = np.random.default_rng(view.seed)
    try:
        games = view.games(releases, coins)
        doubt = (1 - confidence) / len(games)
        attacks = tuple(attack(view, game, releases, doubt, coins) for game in games)
        return view.verdict(attacks, confidence)
    except Failed as failure:
        raise InputError(f"design {view.label}: {failure}") from None


def attack(view: View[G], game: G, releases: int, doubt: float, coins: np.random.Generator) -> AttackResult:
    """Play one game, and return what its best event shows."""
    seen = view.observe(game, releases, coins)
    about: dict[str, Any] = {"name": game.name, "meaning": game.meaning, "times": game.times, "epsilon": game.epsilon}
    if seen.guess is not None:
        return rate_of_guesses(seen.guess == seen.secret, doubt, facts=seen.facts, **about)
    use, scores = parts_of(seen.secret.size, coins, view.parts), dict(seen.scores)
    scores |= {name: frequency_scores(keys, seen.secret, use) for name, keys in seen.keys.items()}
    if seen.features is not None and seen.features.shape[1] and np.count_nonzero(use == FIT) >= view.learnable:
        scores |= learned_scores(seen.features, seen.secret, use)
    return best_event(scores, seen.secret, use, doubt, view.delta, **about)


def rate_of_guesses(right: Bools, doubt: float, **about: Any) -> AttackResult:
    """Return what guesses show of the epsilon under which so many can be right."""
    plays, hits = right.size, int(np.count_nonzero(right))
    least = float(beta.ppf(doubt, hits, plays - hits + 1)) if hits else 0.0
    measured = max(math.log(least / (1 - least)), 0.0) if least else 0.0
    share = float(right.mean()) if plays else None
    return AttackResult(measured=measured, right=share, plays=plays, hits=hits, misses=plays - hits, **about)


def central_audit(
    view: View[Any],
    attacks: tuple[AttackResult, ...],
    confidence: float,
    *,
    claimed: float,
    exact: float,
    source: str,
    neighbours: str = "replace",
    **facts: Any,
) -> Audit:
    """Return what is said of a central promise: epsilon claimed, given away by ``source``, and measured, at a delta."""
    beyond = f"{source} gives away {exact:.5g}, above the claimed {claimed:.5g}"
    trust = view.flag.split()[1]
    shared = ("design", "epsilon", "epsilon_at_least", "delta", "neighbours", "measured", "confidence")
    every = {"trust_model": trust, "epsilon": claimed, "epsilon_at_least": exact, "delta": view.delta}
    return Audit(
        view=trust,
        design=view.label,
        epsilon=Fraction(claimed),
        exact=exact,
        confidence=confidence,
        attacks=attacks,
        contradictions=(beyond,) if exact > claimed * (1 + 1e-3) else (),
        facts={**every, "neighbours": neighbours, **facts},
        names=("trust_model", *shared, *facts, "held", "failures"),
    )


def require_game(*, users: int, items: int, rated: int) -> Size:
    """Return the size of the world that an audit plays in, or refuse numbers that are none."""
    require_whole("users", users, 2, MOST_PLAYERS)
    require_whole("items", items, 2, MOST_ITEMS)
    return Size(items=items, rated=require_whole("rated", rated, 1, items), users=users)


def parts_of(plays: int, coins: np.random.Generator, shares: Sequence[float] = RELEASE_PARTS) -> Ints:
    """Return what each play is for, drawn by chance so that it goes with no address."""
    return coins.choice([FIT, CHOOSE, MEASURE], plays, p=shares)


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
