"""From what an attack sees to a lower bound of epsilon: chosen on one half of the plays, measured on the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import beta

from coordinator.protocol.arrays import Bools, Floats, Ints

FIT, CHOOSE, MEASURE = 0, 1, 2
"""What a play is for: a quarter orders what is seen, a quarter chooses the event, a half measures it."""
CUTS = 256
"""Thresholds that are tried for each score."""
FEWEST = 12
"""What was seen less often says nothing."""
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
    """

    nats: float
    by: str
    plays: int
    right: float


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
    return Found(nats=max(nats, 0.0), by=by, plays=measured, right=right_share)


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
