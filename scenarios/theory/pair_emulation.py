"""Emulated pair statistics: the affinity matrix drawn from its law, decoded as `spectral` does, and scored.

Given a pair of items, devices answer independently, each with the probability that `pair_agreement` tells; a pair is
asked about Poisson with mean ``n = 2 U / (N (N - 1))`` times, so agreements and disagreements are independent Poisson
variables. That is the statistic's own law at any N, where the theory of `spectral_prediction` is one for many items.
Eigenvectors and k-means are those of the decoder in a faster form; a test holds them against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.compiled import compiled

STARTS, STEPS = 10, 300
"""Starts of k-means, as the decoder's; the most steps of each start."""
MANY = 10.0
"""Where every pair expects more answers of either kind than this, sums are drawn from the normal law."""


def emulated_shares(
    rates: Floats, sizes: Ints, *, users: float, decoder: str, generator: np.random.Generator
) -> Iterator[float]:
    """Draw affinity matrices without end, decode them, and tell the share of items right under the best matching.

    Parameters
    ----------
    rates : array of float, shape (L, L)
        ``P(S = 1)`` by the clusters of the pair, from `coordinator.server.moments.pairs.pair_agreement`.
    sizes : array of int, shape (L,)
        Items in each cluster.
    users : float
        Answers received, U.
    decoder : {"centred", "paper"}
        Whether S less its mean rate or S is summed.
    generator : numpy.random.Generator
        What is drawn with.

    Yields
    ------
    float
        In [1/L, 1].
    """
    truth, count = np.repeat(np.arange(sizes.size), sizes), sizes.size
    upper = np.triu_indices(truth.size, 1)
    rate = rates[truth[upper[0]], truth[upper[1]]]
    while True:
        entries = _entries(rate, users / rate.size, centred=decoder == "centred", generator=generator)
        if not entries.any():
            yield float(sizes.max() / truth.size)
            continue
        profiles = leading_vectors(_symmetric(entries, truth.size), count)
        found = np.zeros((count, count))
        np.add.at(found, (truth, best_partition(profiles, count, generator.random((STARTS, count, trials(count))))), 1)
        yield float(found[linear_sum_assignment(found, maximize=True)].sum() / truth.size)


def trials(count: int) -> int:
    """Return how many candidates the decoder's k-means (scikit-learn's) draws for each centre of a start."""
    return 2 + int(math.log(count))


def _entries(rate: Floats, each: float, *, centred: bool, generator: np.random.Generator) -> Floats:
    """Draw ``sum_u (S_u - centre)`` for pairs with these rates that expect ``each`` answers."""
    if each * min(rate.min(), 1 - rate.max()) > MANY:
        centre = float(rate.mean()) if centred else 0.0
        variance = rate * (1 - centre) ** 2 + (1 - rate) * centre**2
        return np.asarray(each * (rate - centre) + np.sqrt(each * variance) * generator.standard_normal(rate.size))
    agreed, other = generator.poisson(each * rate), generator.poisson(each * (1 - rate))
    centre = agreed.sum() / max(1, agreed.sum() + other.sum()) if centred else 0.0
    return np.asarray((1 - centre) * agreed - centre * other)


@compiled
def _symmetric(entries: Floats, items: int) -> Floats:
    """Return the symmetric matrix with these entries above its diagonal, row by row, and 0 on it."""
    matrix, place = np.zeros((items, items)), 0
    for i in range(items):
        for j in range(i + 1, items):
            matrix[i, j] = matrix[j, i] = entries[place]
            place += 1
    return matrix


def leading_vectors(matrix: Floats, count: int) -> Floats:
    """Return the eigenvectors with eigenvalues largest in magnitude, shape (N, count), of a symmetric matrix."""
    ends = ((0, count - 1), (len(matrix) - count, len(matrix) - 1))
    low, high = (eigh(matrix, subset_by_index=end, check_finite=False) for end in ends)
    values, vectors = np.concatenate((low[0], high[0])), np.concatenate((low[1], high[1]), axis=1)
    return np.ascontiguousarray(vectors[:, np.argsort(-np.abs(values), kind="stable")[:count]])


@compiled
def _approach(points: Floats, centre: Floats, nearest: Floats, result: Floats) -> None:
    """Write the squared distances to the nearest centre, with one centre more."""
    for i in range(len(points)):
        square = 0.0
        for k in range(centre.size):
            square += (points[i, k] - centre[k]) ** 2
        result[i] = min(nearest[i], square)


@compiled
def best_partition(points: Floats, count: int, coins: Floats) -> Ints:
    """Return the labels, shape (N,), of the best of several runs of k-means from starts of greedy k-means++.

    Parameters
    ----------
    points : array of float, shape (N, d)
        What is sorted.
    count : int
        Number of clusters.
    coins : array of float, shape (starts, count, trials)
        Uniform numbers in [0, 1) that choose the candidates for the starting centres.
    """
    items, width = points.shape
    best, least = np.zeros(items, np.int64), np.inf
    labels, nearest, trial = np.zeros(items, np.int64), np.zeros(items), np.zeros(items)
    centres = np.zeros((count, width))
    for start in range(coins.shape[0]):
        nearest[:] = np.inf
        centres[0] = points[min(items - 1, int(coins[start, 0, 0] * items))]
        _approach(points, centres[0], nearest, nearest)
        for c in range(1, count):
            rest, total = np.inf, nearest.sum()
            for coin in coins[start, c]:
                left, chosen = coin * total, 0
                while chosen < items - 1 and left >= nearest[chosen]:
                    left -= nearest[chosen]
                    chosen += 1
                _approach(points, points[chosen], nearest, trial)
                if trial.sum() < rest:
                    rest = trial.sum()
                    centres[c] = points[chosen]
            _approach(points, centres[c], nearest, nearest)
        cost = _lloyd(points, centres, labels)
        if cost < least:
            least = cost
            best[:] = labels
    return best


@compiled
def _lloyd(points: Floats, centres: Floats, labels: Ints) -> float:
    """Run Lloyd's iteration until no label changes, in place, and return the sum of squares at its end."""
    items, width = points.shape
    count = len(centres)
    labels[:] = -1
    cost = 0.0
    for _ in range(STEPS):
        changed, cost = 0, 0.0
        sums, members = np.zeros((count, width)), np.zeros(count)
        for i in range(items):
            nearest, least = 0, np.inf
            for c in range(count):
                square = 0.0
                for k in range(width):
                    square += (points[i, k] - centres[c, k]) ** 2
                if square < least:
                    nearest, least = c, square
            changed += labels[i] != nearest
            labels[i] = nearest
            cost += least
            members[nearest] += 1
            for k in range(width):
                sums[nearest, k] += points[i, k]
        if changed == 0:
            break
        for c in range(count):
            if members[c] > 0:
                centres[c] = sums[c] / members[c]
    return cost
