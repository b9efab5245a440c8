"""What the paper's two toys without privacy should learn: full reveal by chance, and one-bit item queries.

Both score an item by its share of likes among the ratings that are known of it, and run k-means on the line.
Source: Banerjee, Hegde, Massoulié, section 1.1 and after Theorem 10 [4.3].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.server.mechanisms.toys import round_users, toy_share
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.probabilities import binomial_mass
from scenarios.theory.prediction import LineLaw, kmeans_cuts, line_accuracy, line_exact, normal_density

REACH = 9.0  # standard deviations of a binomial count that a law spans
NODES = 60  # counts of ratings that stand for all, where there are more
LIKES = 400  # the same, for counts of likes among them
GOLDEN = (math.sqrt(5) - 1) / 2
SMOOTH = 1e6  # from this variance on a binomial count has a normal density
SMALL_POOL = 200  # pools of fewer items than this are not told by their mean
MOST_YESES = 20  # an item gets fewer in one round, of a quarter or half a yes on average, but for 1 in 1e20
LONG = 64  # from so many answers an item on, the last round's surplus has its limiting law
LARGEST_ANSWERS = 10**7 + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Law of the number of known ratings of an item."""

    counts: Floats
    weights: Floats


def reveal_accuracy(parameters: BlockParameters, *, users: int, share: float | None = None) -> float:
    """Predict the share of items right under ``full-reveal``, under the best matching of labels.

    An item has ``Binomial(U, share w/N)`` known ratings, of which ``Binomial(m, b_l)`` are likes, b averaged over
    classes; k-means cuts that law of shares. Users of one class like and dislike alike, which moves whole clusters:
    around that an item's share of likes scatters by ``b(1-b) - (w-1)/(N-1) Var_k(b_kl)`` a rating, so the law is
    shrunk to this variance. Items without ratings stand at the mean of all, on one side of the cuts.
    """
    law = _reveal_law(parameters, users, share)
    return line_accuracy(law, kmeans_cuts(law))


def reveal_exact(parameters: BlockParameters, *, users: int, share: float | None = None) -> float:
    """Predict the probability that all items are right under ``full-reveal``, up to a permutation of labels.

    Arguments, errors and notes as `reveal_accuracy`. Items are taken as independent, in their numbers of ratings too;
    where w is close to N these rise and fall together, and the truth is higher where failures come from few ratings.
    """
    law = _reveal_law(parameters, users, share)
    return line_exact(law, kmeans_cuts(law))


def query_users(parameters: BlockParameters, *, answers: int = 1) -> float:
    """Predict how many users item queries ask until every item has ``answers`` yeses.

    A user says yes with probability ``w / (2 N)`` whatever the ratings are, as the value asked about is a fair coin;
    by Wald's identity users and yeses keep this proportion. The law of one item's yeses is followed over rounds, with
    the number of other items still open taken as binomial and fresh each round.
    """
    known = _yeses(parameters, answers)
    return 2 * parameters.items**2 / parameters.rated * float(known.counts @ known.weights)


def query_accuracy(parameters: BlockParameters, *, answers: int = 1) -> float:
    """Predict the share of items right once item queries have learned all, under the best matching of labels.

    Arguments and errors as `query_users`. Yeses beyond ``answers`` in an item's last round count too.
    """
    law = _share_law(parameters, _yeses(parameters, answers))
    return line_accuracy(law, kmeans_cuts(law))


def query_exact(parameters: BlockParameters, *, answers: int = 1) -> float:
    """Predict the probability that all items are right once item queries have learned all, up to a permutation.

    Arguments and errors as `query_users`.
    """
    law = _share_law(parameters, _yeses(parameters, answers))
    return line_exact(law, kmeans_cuts(law))


def answers_for(parameters: BlockParameters, *, accuracy: float | None = None, exact: float | None = None) -> int:
    """Return the smallest odd number of answers an item with which item queries meet a target."""
    if (accuracy is None) == (exact is None):
        raise InputError(f"accuracy is {accuracy} and exact {exact}; give one of the two")
    target = accuracy if exact is None else exact
    if target is None or not 0 < target < 1:
        raise InputError(f"the target is {target}; give a number between 0 and 1")
    predicted = query_accuracy if exact is None else query_exact
    low, high = -1, 0  # answers are 2 k + 1
    while predicted(parameters, answers=2 * high + 1) < target:
        low, high = high, 2 * high + 1
        if 2 * high + 1 > LARGEST_ANSWERS:
            raise InputError(f"{LARGEST_ANSWERS} answers an item do not meet {target}: clusters are too alike")
    while high - low > 1:
        middle = (low + high) // 2
        if predicted(parameters, answers=2 * middle + 1) < target:
            low = middle
        else:
            high = middle
    return 2 * high + 1


def _reveal_law(parameters: BlockParameters, users: int, share: float | None) -> LineLaw:
    share = toy_share(parameters.items) if share is None else share
    if users < 1:
        raise InputError(f"users = {users}; give at least 1")
    if not 0 < share <= 1:
        raise InputError(f"reveal share is {share}; it must lie in (0, 1]")
    seen = share * parameters.rated / parameters.items
    together = (parameters.rated - 1) / max(1, parameters.items - 1)
    return _share_law(parameters, _known(users, seen), together=together)


def _known(users: int, seen: float) -> _Known:
    """Binomial number of known ratings, at every count or at equally spaced ones."""
    counts = _around(users, seen, NODES)
    mean, variance = users * seen, users * seen * (1 - seen)
    rough = variance > SMOOTH
    weights = normal_density((counts - mean) / math.sqrt(variance)) if rough else binomial_mass(counts, users, seen)
    return _Known(counts=counts, weights=weights / weights.sum())


def _around(count: float, probability: float, nodes: int, *, late: float = 0.0) -> Floats:
    """Whole numbers that a binomial count takes, all of few, otherwise about ``nodes``, ``late`` of a step late."""
    mean, reach = count * probability, REACH * math.sqrt(count * probability * (1 - probability)) + 20
    low, high = max(0, math.floor(mean - reach)), min(count, math.ceil(mean + reach))
    step = max(1, (high - low) // nodes)
    return np.arange(low + math.floor(late * step), high + 1, step, dtype=float)


def _share_law(parameters: BlockParameters, known: _Known, *, together: float = 0.0) -> LineLaw:
    """Law of the share of likes among known ratings; ``together``: how likely two ratings are of one user's set."""
    likes = parameters.class_shares @ parameters.like
    between = parameters.class_shares @ (parameters.like - likes) ** 2
    alone, sizes = likes * (1 - likes), parameters.cluster_sizes
    shrink = np.sqrt(np.maximum(0, 1 - together * between / np.where(alone > 0, alone, 1)))
    points, mass = (
        [np.array([sizes @ likes / sizes.sum()])],
        [np.full((likes.size, 1), known.weights[known.counts == 0].sum())],
    )
    # else the points of all counts would stand in the same places
    late = np.asarray(np.arange(known.counts.size) * GOLDEN % 1, np.float64)
    told = known.counts > 0
    counts, weights = known.counts[told], known.weights[told]
    laws = [_liked(counts, late[told], like) for like in likes]
    for k, (count, weight) in enumerate(zip(counts, weights, strict=True)):
        for cluster, like in enumerate(likes):
            liked, law = laws[cluster][k]
            points.append(liked / count if shrink[cluster] == 1 else like + shrink[cluster] * (liked / count - like))
            mass.append(np.outer(np.arange(likes.size) == cluster, weight * law / law.sum()))
    values = np.concatenate(points)
    order = np.argsort(values, kind="stable")
    return LineLaw(points=values[order], mass=np.hstack(mass)[:, order], sizes=sizes)


def _liked(counts: Floats, late: Floats, like: float) -> list[tuple[Floats, Floats]]:
    """Return how many of so many ratings are likes, and how probable each number is; one pair a count."""
    liked = [_around(count, like, LIKES, late=behind) for count, behind in zip(counts, late, strict=True)]
    lengths = [part.size for part in liked]
    law = binomial_mass(np.concatenate(liked), np.repeat(counts, lengths), like)
    return list(zip(liked, np.split(law, np.cumsum(lengths)[:-1]), strict=True))


def _yeses(parameters: BlockParameters, answers: int) -> _Known:
    """Law of an item's yeses once it is learned."""
    if not 1 <= answers <= LARGEST_ANSWERS:
        raise InputError(f"answers = {answers}; give 1 to {LARGEST_ANSWERS}")
    surplus = _surplus(parameters.items, parameters.rated, min(answers, LONG))
    return _Known(counts=answers + np.arange(surplus.size, dtype=float), weights=surplus)


@lru_cache(maxsize=128)
def _surplus(items: int, rated: int, answers: int) -> Floats:
    """Law of the yeses beyond ``answers``: follow an item's yeses from round to round until no item is left."""
    still_open, learned = np.zeros(answers), np.zeros(answers + MOST_YESES)
    still_open[0] = 1.0
    while (left := float(still_open.sum())) * items > 1e-10:
        after = np.convolve(still_open, _round_yeses(items, rated, min(1.0, left)))
        still_open = after[:answers]
        learned[: after.size - answers] += after[answers:]
    return np.asarray(learned[:MOST_YESES] / learned.sum())


def _round_yeses(items: int, rated: int, left: float) -> Floats:
    """Law of the yeses that an item of the pool gets in one round, while a share ``left`` of all items is open."""
    if items * left <= SMALL_POOL:
        laws = _small_pools(items, rated)
        return binomial_mass(np.arange(len(laws)), items - 1, left) @ laws
    pool = items * left
    asked = math.ceil(pool * items / (2 * rated))
    return binomial_mass(np.arange(MOST_YESES), asked, rated / (2 * items * pool))


@lru_cache(maxsize=16)
def _small_pools(items: int, rated: int) -> Floats:
    """Law of the yeses of one item in a round, row k for a pool of it and k others."""
    pools = np.arange(1, min(items, 4 * SMALL_POOL) + 1)
    asked = np.array([round_users(int(pool), items=items, rated=rated) for pool in pools])
    yes = rated / (2 * items * pools)
    return binomial_mass(np.arange(MOST_YESES), asked[:, None], yes[:, None])
