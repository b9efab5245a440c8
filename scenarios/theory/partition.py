"""The decoder's k-means on points in few dimensions, compiled: many small sets of points are sorted in a plan."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.compiled import compiled

STARTS, STEPS = 10, 300
"""Starts of k-means, as the decoder's; the most steps of each start."""


def trials(count: int) -> int:
    """Return how many candidates the decoder's k-means (scikit-learn's) draws for each centre of a start."""
    return 2 + int(math.log(count))


@lru_cache(maxsize=64)
def decoder_coins(starts: int, count: int) -> Floats:
    """Return the coins, shape (starts, count, trials), that scikit-learn's k-means draws with random state 0."""
    coins, state = np.zeros((starts, count, trials(count))), np.random.RandomState(0)
    for start in coins:
        start[0, 0] = state.random_sample()
        start[1:] = state.random_sample((count - 1, trials(count)))
    return coins


@compiled
def _chosen(shares: Floats, coin: float, total: float) -> int:
    """Return a place, chosen with probability in proportion to its share of the total."""
    left, place = coin * total, 0
    while place < shares.size - 1 and left >= shares[place]:
        left -= shares[place]
        place += 1
    return place


@compiled
def _approach(points: Floats, weights: Floats, centre: int, nearest: Floats, result: Floats) -> float:
    """Write the weighted squared distances to the nearest centre, one point being a centre more; return their sum."""
    total = 0.0
    for i in range(len(points)):
        square = 0.0
        for k in range(points.shape[1]):
            square += (points[i, k] - points[centre, k]) ** 2
        result[i] = min(nearest[i], weights[i] * square)
        total += result[i]
    return total


@compiled
def _start(points: Floats, weights: Floats, coins: Floats, nearest: Floats, trial: Floats, chosen: Ints) -> None:
    """Choose points as centres by greedy k-means++: of several candidates the one that leaves the least squares."""
    total = 0.0
    for i in range(len(points)):
        nearest[i] = np.inf
        total += weights[i]
    chosen[0] = _chosen(weights, coins[0, 0], total)
    total = _approach(points, weights, chosen[0], nearest, nearest)
    for c in range(1, chosen.size):
        least = np.inf
        for k in range(coins.shape[1]):
            candidate = _chosen(nearest, coins[c, k], total)
            left = _approach(points, weights, candidate, nearest, trial)
            if left < least:
                least, chosen[c] = left, candidate
        total = _approach(points, weights, chosen[c], nearest, nearest)


@compiled
def _assign(points: Floats, weights: Floats, centres: Floats, labels: Ints, sums: Floats) -> tuple[int, float]:
    """Label points by their nearest centre; return how many labels changed, and the sum of squares.

    Row c of ``sums`` becomes the weighted sum of the points of label c, and their weight.
    """
    changed, cost, width = 0, 0.0, points.shape[1]
    for c in range(len(centres)):
        for k in range(width + 1):
            sums[c, k] = 0.0
    for i in range(len(points)):
        nearest, least = 0, np.inf
        for c in range(len(centres)):
            square = 0.0
            for k in range(width):
                square += (points[i, k] - centres[c, k]) ** 2
            if square < least:
                nearest, least = c, square
        changed += labels[i] != nearest
        labels[i] = nearest
        cost += weights[i] * least
        for k in range(width):
            sums[nearest, k] += weights[i] * points[i, k]
        sums[nearest, width] += weights[i]
    return changed, cost


@compiled
def _lloyd(points: Floats, weights: Floats, centres: Floats, labels: Ints, sums: Floats) -> float:
    """Run Lloyd's iteration until no label changes, in place, and return the sum of squares at its end."""
    changed, cost = 1, 0.0
    for _ in range(STEPS):
        changed, cost = _assign(points, weights, centres, labels, sums)
        if changed == 0:
            break
        for c in range(len(centres)):
            for k in range(points.shape[1]):
                if sums[c, -1] > 0:
                    centres[c, k] = sums[c, k] / sums[c, -1]
    return cost


@compiled
def best_partition(points: Floats, weights: Floats, given: Floats, coins: Floats) -> tuple[Ints, Floats]:
    """Return the labels, shape (N,), and the centres, shape (count, d), of the best of several runs of k-means.

    Shapes: ``points`` (N, d); ``weights`` (N,); ``given`` (runs, count, d); ``coins`` (starts, count, trials).
    """
    count, width = given.shape[1], given.shape[2]
    nearest, trial, sums = np.empty(len(points)), np.empty(len(points)), np.empty((count, width + 1))
    best, winners, least = np.zeros(len(points), np.int64), np.zeros((count, width)), np.inf
    chosen = np.zeros(count, np.int64)
    for run in range(len(given) + len(coins)):
        if run >= len(given):
            _start(points, weights, coins[run - len(given)], nearest, trial, chosen)
        labels, centres = np.full(len(points), -1), given[run].copy() if run < len(given) else points[chosen]
        cost = _lloyd(points, weights, centres, labels, sums)
        if cost < least:
            best, winners, least = labels, centres, cost
    return best, winners
