"""From what an attack sees to a lower bound of epsilon: chosen on one half of the plays, measured on the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, binom

from coordinator.protocol.arrays import Bools, Floats, Ints
from scenarios.scrutiny.verdicts import Attack, Detectable, Power

FIT, CHOOSE, MEASURE = 0, 1, 2
"""What a play is for: a quarter orders what is seen, a quarter chooses the event, a half measures it."""
CUTS = 256
"""Thresholds that are tried for each score."""
FEWEST = 12
"""What was seen less often says nothing."""
FINDS = 0.9
"""Probability with which leaks of the size that an audit states are found."""
SHARES = (1.0, 0.2, 0.01)
"""Shares of the answers for which it states that size."""
FARTHEST = 60.0
"""No leak is larger [nats]."""
MARGIN = 0.01
"""A later look is preferred to an earlier, simpler one if it promises so much more [nats]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one event of an attack shows.

    Attributes
    ----------
    nats : float
        Lower bound of epsilon, at least 0 [nats].
    by : str
        Which look at the releases was chosen.
    plays : int
        Plays that were measured.
    right : float
        Share of these plays in which the victim's input was guessed right; a half says nothing.
    hits, misses : int
        How often the event happened among these plays with the input that it speaks for, and with the other one.
    """

    nats: float
    by: str
    plays: int
    right: float
    hits: int
    misses: int


def parts_of(plays: int, coins: np.random.Generator) -> Ints:
    """Return what each play is for, drawn by chance so that it goes with no address."""
    return coins.choice([FIT, CHOOSE, MEASURE], plays, p=[0.25, 0.25, 0.5])


def at_least(hits: Ints, misses: Ints, plays: int, doubt: float) -> Floats:
    """Return lower bounds of ``log(P(E | a) / P(E | b))`` by Clopper and Pearson (1934) [nats].

    Whether the victim holds a or b is a fair coin, so that ``hits`` of the event with a, and ``misses`` of it with b,
    are counts among all plays whose means have the ratio of the two chances. Where the chances differ from play to
    play, a count is less spread than a binomial one with its mean (Hoeffding, 1956), so that the bound holds as well.

    Parameters
    ----------
    hits, misses : ndarray of int64
        How often the event happened with input a, and with input b.
    plays : int
        All plays.
    doubt : float
        Probability that a bound is wrong; each of the two counts gets half of it.
    """
    low = np.where(hits > 0, beta.ppf(doubt / 2, np.maximum(hits, 1), plays - hits + 1), 0.0)
    high = np.where(misses < plays, beta.isf(doubt / 2, misses + 1, np.maximum(plays - misses, 1)), 1.0)
    with np.errstate(divide="ignore"):
        told: Floats = np.log(low) - np.log(high)
    return told


def best_event(scores: Mapping[str, Floats], secret: Bools, parts: Ints, doubt: float) -> Found:
    """Return what the event shows that the choosing plays like best; a score is larger where the victim rather holds a.

    Parameters
    ----------
    scores : dict of str to ndarray of float64, shape (plays,)
        What each look at the releases makes of a play; fitted on no play but those of `FIT`.
    secret : ndarray of bool
        Whether the victim holds a.
    parts : ndarray
        What each play is for; see `parts_of`.
    doubt : float
        Probability that the bound is wrong.
    """
    choosing, measuring = parts == CHOOSE, parts == MEASURE
    plays, measured = int(choosing.sum()), int(measuring.sum())
    best, surest = -math.inf, 0.0
    event = guess = mine = np.zeros(secret.size, np.bool_)
    by = "nothing"
    for name, score in scores.items():
        for side in (True, False):  # whether the event speaks for a or for b
            rather = score if side else -score
            own, other = (np.sort(rather[choosing & (secret == one)]) for one in (side, not side))
            cuts = _cuts(np.concatenate([own, other]))
            hits, misses = own.size - np.searchsorted(own, cuts), other.size - np.searchsorted(other, cuts)
            told, right = at_least(hits, misses, plays, doubt), (hits + other.size - misses) / max(plays, 1)
            if told.size and told.max() > best + MARGIN:
                best, by = float(told.max()), name
                event, mine = rather >= cuts[told.argmax()], secret == side
            if right.size and right.max() > surest + MARGIN / 10:
                surest, guess = float(right.max()), (rather >= cuts[right.argmax()]) == side
    hits, misses = (np.array([np.count_nonzero(event & measuring & one)]) for one in (mine, ~mine))
    nats = float(at_least(hits, misses, measured, doubt)[0])
    right_share = float((secret == guess)[measuring].mean()) if measured else 0.5
    counts = int(hits[0]), int(misses[0])
    return Found(nats=max(nats, 0.0), by=by, plays=measured, right=right_share, hits=counts[0], misses=counts[1])


def power_of(attacks: Sequence[Attack], doubt: float) -> Power | None:
    """Return which leaks attacks would have found, each at this doubt; see `smallest_leak`.

    It is computed for the attack that measured most among those that look at the least, as one release.
    """
    once = min(one.times for one in attacks)
    best = max((one for one in attacks if one.times == once), key=lambda one: one.measured)
    if best.claimed is None or not best.hits + best.misses:
        return None
    rate = (best.hits + best.misses) / best.plays
    sizes = {share: smallest_leak(best.claimed, rate, best.plays, doubt, share) for share in SHARES}
    leaks = tuple(Detectable(share=share, epsilon=size) for share, size in sizes.items())
    return Power(probability=FINDS, attack=best.name, claimed=best.claimed, leaks=leaks)


def smallest_leak(claimed: float, rate: float, plays: int, doubt: float, share: float) -> float | None:
    """Return the smallest epsilon of a share of the answers that an attack finds to be above the claim [nats].

    Parameters
    ----------
    claimed : float
        What one release may cost [nats]; what answers give away that do not leak.
    rate : float
        Share of plays in which the event happens that the attack counts, with either input.
    plays : int
        Plays that are measured; half as many choose the event, which is to be that of the leaking answers alone.
    doubt : float
        Probability that the attack's bound is wrong.
    share : float
        Share of the answers that leak.

    Returns
    -------
    float or None
        What is found with probability `FINDS`; None if nothing is.
    """
    low, high = claimed, claimed + FARTHEST
    if _finding(high, claimed, rate, plays, doubt, share) < FINDS:
        return None
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        enough = _finding(middle, claimed, rate, plays, doubt, share) >= FINDS
        low, high = (low, middle) if enough else (middle, high)
    return high


def _finding(leak: float, claimed: float, rate: float, plays: int, doubt: float, share: float) -> float:
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
    low = np.exp(nats) * np.where(misses < plays, beta.isf(doubt / 2, misses + 1, np.maximum(plays - misses, 1)), 1.0)
    hits = np.where(low < 1, binom.isf(doubt / 2, plays, np.minimum(low, 1)) + 1, plays + 1)
    return float(np.mean(binom.sf(hits - 1, plays - misses, hit / (1 - miss))))


def _cuts(scores: Floats) -> Floats:
    """Return thresholds: every value where there are few, else by rank, finely where scores are largest."""
    values = np.unique(scores)
    if values.size <= CUTS:
        return values
    ranks = np.unique(
        np.concatenate([np.geomspace(1, scores.size, CUTS), np.linspace(1, scores.size, CUTS)]).astype(int)
    )
    told: Floats = np.unique(np.sort(scores)[-ranks])
    return told


def ordered(keys: Ints, secret: Bools, parts: Ints) -> Floats:
    """Return for every play the log-ratio of how often its key was seen with a and with b among the plays of `FIT`.

    What was seen less than `FEWEST` times says nothing: 0.
    """
    place, fit = pd.factorize(keys)[0], parts == FIT
    size = int(place.max(initial=0)) + 1
    ours, theirs = (np.bincount(place[fit & one], minlength=size) for one in (secret, ~secret))
    told = np.log(ours + 0.5) - np.log(theirs + 0.5)
    told[ours + theirs < FEWEST] = 0.0
    found: Floats = told[place]
    return found


MOST_LEARNED = 20_000
"""Plays that are learned from."""
WIDE = 64
"""A tree is not fitted to more columns than this."""


def learned(features: Floats, secret: Bools, parts: Ints) -> dict[str, Floats]:
    """Return what a linear model and a tree tell of every play, as log-odds of input a; they saw those of `bounds.FIT`.

    Parameters
    ----------
    features : ndarray of float32, shape (plays, columns)
        What was seen of each play.
    secret : ndarray of bool
        Whether the victim holds a.
    parts : ndarray
        What each play is for.
    """
    some = np.flatnonzero(parts == FIT)[:MOST_LEARNED]
    if np.unique(secret[some]).size < 2:
        return {}
    mean, spread = features[some].mean(axis=0), features[some].std(axis=0)
    told = (features - mean) / np.where(spread > 0, spread, 1)
    models = {"learned line": _line()} | ({"learned tree": _tree()} if features.shape[1] <= WIDE else {})
    fitted = {name: model.fit(told[some], secret[some]) for name, model in models.items()}
    return {name: np.asarray(model.predict_proba(told)[:, 1], np.float64) for name, model in fitted.items()}


def _line() -> Any:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 (only an attack waits for it)

    return LogisticRegression(C=0.01, max_iter=20)


def _tree() -> Any:
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415 (as above)

    return DecisionTreeClassifier(max_depth=6, min_samples_leaf=50, random_state=0)
