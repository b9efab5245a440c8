"""From what an attack sees to a lower bound of epsilon: chosen on one half of the plays, measured on the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, binom

from coordinator.protocol.arrays import Bools, Floats, Ints
from coordinator.protocol.budget import Epsilon
from scenarios.studies.scrutiny.verdicts import AttackResult, Detectable, Event, Power

FIT, CHOOSE, MEASURE = 0, 1, 2
"""What a play is for: a quarter orders what is seen, a quarter chooses the event, a half measures it."""
CUTS = 256  # thresholds that are tried for each score
FEWEST = 12  # what was seen less often says nothing
MOST_LEARNED, WIDE = 20_000, 64  # plays that are learned from, and columns of which a tree is still fitted
FINDS = 0.9  # probability with which leaks of the size that an audit states are found
SHARES = (1.0, 0.2, 0.01)  # shares of the answers for which it states that size
FARTHEST = 60.0  # no leak is larger [nats]
MARGIN = 0.01  # a later look is preferred to an earlier, simpler one if it promises so much more [nats]


def parts_of(plays: int, coins: np.random.Generator) -> Ints:
    """Return what each play is for, drawn by chance so that it goes with no address."""
    return coins.choice([FIT, CHOOSE, MEASURE], plays, p=[0.25, 0.25, 0.5])


def at_least(hits: Ints, misses: Ints, plays: int, doubt: float) -> Floats:
    """Return lower bounds of ``log(P(E | a) / P(E | b))`` by Clopper and Pearson (1934) [nats].

    Whether the victim holds a or b is a fair coin, so that ``hits`` of the event with a, and ``misses`` of it with b,
    are counts among all plays whose means have the ratio of the two chances. Where the chances differ from play to
    play, a count is less spread than a binomial one with its mean (Hoeffding, 1956), so that the bound holds as well.
    """
    hit_bound = np.where(hits > 0, beta.ppf(doubt / 2, np.maximum(hits, 1), plays - hits + 1), 0.0)
    with np.errstate(divide="ignore"):
        bounds: Floats = np.log(hit_bound) - np.log(_at_most(misses, plays, doubt))
    return bounds


def _at_most(misses: Floats | Ints, plays: int, doubt: float) -> Floats:
    """Return upper bounds of the probability of what happened so often, each wrong with half of the doubt."""
    return np.where(misses < plays, beta.isf(doubt / 2, misses + 1, np.maximum(plays - misses, 1)), 1.0)


def best_event(scores: Mapping[str, Floats], secret: Bools, parts: Ints, doubt: float) -> Event:
    """Return what the event shows that the choosing plays like best; a score is larger where the victim rather holds a.

    Scores have shape (plays,), and are fitted on no play but those of `FIT`; ``secret`` says whether the victim holds
    a, ``parts`` what each play is for, and ``doubt`` how probable it is that the bound is wrong.
    """
    choosing, measuring = parts == CHOOSE, parts == MEASURE
    plays, measured = int(choosing.sum()), int(measuring.sum())
    best, surest = -math.inf, 0.0
    event = guess = with_side = np.zeros(secret.size, np.bool_)
    by = "nothing"
    for name, score in scores.items():
        for side in (True, False):  # whether the event speaks for a or for b
            rather = score if side else -score
            own, other = (np.sort(rather[choosing & (secret == one)]) for one in (side, not side))
            cuts = _cuts(np.concatenate([own, other]))
            hits, misses = own.size - np.searchsorted(own, cuts), other.size - np.searchsorted(other, cuts)
            nats, right = at_least(hits, misses, plays, doubt), (hits + other.size - misses) / max(plays, 1)
            if nats.size and nats.max() > best + MARGIN:
                best, by = float(nats.max()), name
                event, with_side = rather >= cuts[nats.argmax()], secret == side
            if right.size and right.max() > surest + MARGIN / 10:
                surest, guess = float(right.max()), (rather >= cuts[right.argmax()]) == side
    hits, misses = (np.array([np.count_nonzero(event & measuring & one)]) for one in (with_side, ~with_side))
    bound = max(float(at_least(hits, misses, measured, doubt)[0]), 0.0)
    share = float((secret == guess)[measuring].mean()) if measured else 0.5
    return Event(measured=bound, right=share, plays=measured, hits=int(hits[0]), misses=int(misses[0]), by=by)


def attack_of(event: Event, *, name: str, meaning: str, times: int, claimed: Epsilon) -> AttackResult:
    """Return an attack with what its event shows; what is claimed of one release may be spent so many times."""
    epsilon = None if claimed is None else times * claimed
    return AttackResult(**asdict(event), name=name, meaning=meaning, times=times, epsilon=epsilon)


def power_of(attacks: Sequence[AttackResult], doubt: float) -> Power | None:
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
    """Return the smallest epsilon of a share of the answers that an attack finds to be above the claim [nats], if any.

    An event that happens in ``rate`` of the plays, with either input, finds it with probability `FINDS`; half as many
    plays as are measured choose that event, which is to be that of the leaking answers alone.
    """
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
    ranks = np.unique(
        np.concatenate([np.geomspace(1, scores.size, CUTS), np.linspace(1, scores.size, CUTS)]).astype(int)
    )
    cuts: Floats = np.unique(np.sort(scores)[-ranks])
    return cuts


def frequency_scores(keys: Ints, secret: Bools, parts: Ints) -> Floats:
    """Return for every play the log-ratio of how often its key was seen with a and with b among the plays of `FIT`.

    What was seen less than `FEWEST` times says nothing: 0.
    """
    place, fit = pd.factorize(keys)[0], parts == FIT
    size = int(place.max(initial=0)) + 1
    ours, theirs = (np.bincount(place[fit & one], minlength=size) for one in (secret, ~secret))
    ratios = np.log(ours + 0.5) - np.log(theirs + 0.5)
    ratios[ours + theirs < FEWEST] = 0.0
    scores: Floats = ratios[place]
    return scores


def learned_scores(features: Floats, secret: Bools, parts: Ints) -> dict[str, Floats]:
    """Return what a linear model and a tree say of every play, as probability of input a; they saw those of `FIT`.

    Features have shape (plays, columns).
    """
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
