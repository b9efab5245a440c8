"""Scores on the line with any law, cluster by cluster: where k-means cuts them, and what it puts right."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from scenarios.data.matching import best_matching

STEPS = 20_000  # Lloyd's iteration ends long before, when no centre moves
BINS = 300  # heaps by value, and as many by mass, stand for the law when the starting centres are sought


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLaw:
    """Law of an item's score on the line, cluster by cluster.

    Attributes
    ----------
    points : ndarray of float64, shape (J,)
        Values, ascending.
    mass : ndarray of float64, shape (L, J)
        Probability of each value for an item of each cluster.
    sizes : ndarray of int64, shape (L,)
        Items in each cluster.
    """

    points: Floats
    mass: Floats
    sizes: Ints

    @property
    def shares(self) -> Floats:
        """Share of the items in each cluster."""
        return np.asarray(self.sizes / self.sizes.sum())


def line_accuracy(law: LineLaw, cuts: Floats) -> float:
    """Return the expected share of items in the interval that is matched to their cluster, under the best matching."""
    return float(law.shares @ matched(law, cuts)[1])


def line_exact(law: LineLaw, cuts: Floats) -> float:
    """Return the probability that every item is in the interval that is matched to its cluster, items independent."""
    with np.errstate(divide="ignore"):
        return math.exp(float(law.sizes @ np.log1p(-np.minimum(matched(law, cuts)[0], 1))))


def kmeans_cuts(law: LineLaw) -> Floats:
    """Return where k-means cuts a law of scores into L intervals; fewer where there are fewer distinct scores.

    Parameters
    ----------
    law : LineLaw
        What many items' scores are drawn from.

    Returns
    -------
    ndarray of float64, shape (at most L - 1,)
        Ascending, half way between neighbouring centres: a fixed point of Lloyd's iteration, started from the
        grouping of least within-cluster variance of a coarser law.
    """
    mass = np.concatenate(([0.0], np.cumsum(law.shares @ law.mass)))
    first = np.concatenate(([0.0], np.cumsum((law.shares @ law.mass) * law.points)))
    centres = _start(law.points, law.shares @ law.mass, law.sizes.size)
    for _ in range(STEPS):
        ends = np.concatenate(([0], np.searchsorted(law.points, half_way(centres), side="right"), [law.points.size]))
        inside = np.diff(mass[ends])
        moved = np.where(inside > 0, np.diff(first[ends]) / np.where(inside > 0, inside, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return half_way(centres)


def half_way(centres: Floats) -> Floats:
    """Return the cuts that send every point to the nearest centre: half way between neighbours."""
    return np.asarray((centres[1:] + centres[:-1]) / 2)


def matched(law: LineLaw, cuts: Floats) -> tuple[Floats, Floats]:
    """Probability, for each cluster, that an item falls outside or inside the interval matched to the cluster."""
    ends = np.searchsorted(law.points, cuts, side="right")
    nothing = np.zeros((law.sizes.size, 1))
    below = np.hstack((nothing, np.cumsum(law.mass, axis=1)))
    above = np.hstack((np.cumsum(law.mass[:, ::-1], axis=1)[:, ::-1], nothing))
    outside = np.hstack((nothing, below[:, ends])) + np.hstack((above[:, ends], nothing))
    rows, columns = best_matching(law.shares[:, None] * (1 - outside))
    misses = np.ones(law.sizes.size)
    misses[rows] = outside[rows, columns]
    return misses, 1 - np.minimum(misses, 1)


def _start(points: Floats, weights: Floats, clusters: int) -> Floats:
    """Centres of the best grouping of a coarser law into contiguous groups, by dynamic programming."""
    by_mass = np.searchsorted(np.cumsum(weights), np.linspace(0, weights.sum(), BINS)[1:-1])
    by_value = np.searchsorted(points, np.linspace(points[0], points[-1], BINS)[1:-1])
    starts = np.unique(np.concatenate(([0], by_mass, by_value)))
    starts = starts[starts < points.size]
    heaps = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * points, starts)[heaps > 0] / heaps[heaps > 0]
    heaps = heaps[heaps > 0]
    mass, first, second = (np.concatenate(([0.0], np.cumsum(heaps * (means - means[0]) ** k))) for k in range(3))
    empty = np.tri(heaps.size + 1, dtype=bool)  # a group [row, column) holds at least one heap
    group = np.where(empty, 1, mass[None, :] - mass[:, None])
    group[group <= 0] = np.inf  # heaps so light that their sum is lost in rounding
    cost = second[None, :] - second[:, None] - (first[None, :] - first[:, None]) ** 2 / group
    cost[empty] = np.inf
    best, choices = cost[0], []
    for _ in range(min(clusters, heaps.size) - 1):
        total = best[:, None] + cost
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [heaps.size]
    for choice in reversed(choices):
        ends.append(int(choice[ends[-1]]))
    cuts = np.array([*ends, 0])[::-1]
    return np.asarray(means[0] + np.diff(first[cuts]) / np.diff(mass[cuts]))
