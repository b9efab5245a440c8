"""The best partition of numbers on a line into clusters, exactly: k-means without starts and without chance."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.compiled import compiled, inlined


@inlined
def _spread(mass: Floats, sums: Floats, squares: Floats, first: int, stop: int) -> float:
    """Return the squared distances of numbers ``first`` to ``stop - 1`` from their mean."""
    held = mass[stop] - mass[first]
    told = sums[stop] - sums[first]
    return float(squares[stop] - squares[first] - told * told / held)


@compiled
def best_cuts(values: Floats, weights: Floats, clusters: int) -> Ints:
    """Return where the clusters begin that leave the smallest sum of squared distances from their means.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Ascending, no number twice.
    weights : ndarray of float64, shape (n,)
        How often each number occurs.
    clusters : int
        From 1 to n.

    Returns
    -------
    ndarray of int64, shape (clusters,)
        Ascending, from 0. Of several best partitions the one whose last clusters begin first.

    Notes
    -----
    Dynamic programming over the last cluster's beginning, which never moves down as numbers are added, so that each
    number of clusters takes n log n steps (Wu, 1991; Grønlund et al., 2017).
    """
    n = values.size
    mass, sums, squares = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    middle = (values * weights).sum() / weights.sum()
    for k in range(n):
        apart = values[k] - middle
        mass[k + 1] = mass[k] + weights[k]
        sums[k + 1] = sums[k] + weights[k] * apart
        squares[k + 1] = squares[k] + weights[k] * apart * apart
    best, before = np.empty(n + 1), np.empty(n + 1)
    begins = np.zeros((clusters, n + 1), np.int64)
    for stop in range(1, n + 1):
        best[stop] = _spread(mass, sums, squares, 0, stop)
    stack = np.empty((2 * 64, 4), np.int64)
    for many in range(1, clusters):
        before[:] = best
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = many + 1, n, many, n - 1
        height = 1
        while height:
            height -= 1
            first, last, low, high = stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3]
            stop = (first + last) // 2
            least, at = np.inf, low
            for begin in range(low, min(high, stop - 1) + 1):
                cost = before[begin] + _spread(mass, sums, squares, begin, stop)
                if cost < least:
                    least, at = cost, begin
            best[stop], begins[many, stop] = least, at
            if first < stop:
                stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3] = first, stop - 1, low, at
                height += 1
            if stop < last:
                stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3] = stop + 1, last, at, high
                height += 1
    cuts, stop = np.zeros(clusters, np.int64), n
    for many in range(clusters - 1, 0, -1):
        stop = cuts[many] = begins[many, stop]
    return cuts
