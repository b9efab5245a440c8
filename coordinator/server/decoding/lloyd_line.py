"""K-means of numbers, step by step as scikit-learn's, which takes a second to load: longer than a small run."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats, Indices

MOST_STEPS = 500


def fitted(values: Floats, clusters: int, *, starts: int) -> tuple[Indices, Floats]:
    """Return each number's cluster, shape (N,), and the clusters' means, shape (L,).

    They are those of ``sklearn.cluster.KMeans(clusters, n_init=starts, tol=0, max_iter=500, random_state=0)``, with the
    same coins in the same order (scikit-learn 1.9).

    Parameters
    ----------
    values : ndarray of float64, shape (N,)
        What is clustered.
    clusters : int
        Number of clusters L, at most that of distinct values.
    starts : int
        Number of starts, of which the best result counts.
    """
    mean = values.mean()
    x, chance = values - mean, np.random.RandomState(0)
    least, best, means = _started(x, clusters, chance)
    for _ in range(1, starts):
        inertia, labels, centres = _started(x, clusters, chance)
        if inertia < least and not _same(labels, best, clusters):
            least, best, means = inertia, labels, centres
    return best, means + mean


def _started(x: Floats, clusters: int, chance: np.random.RandomState) -> tuple[float, Indices, Floats]:
    """Return what one start ends in: the sum of squared distances, clusters and means."""
    labels, centres = _settled(x, _seeds(x, clusters, chance))
    return float(np.cumsum((x - centres[labels]) ** 2)[-1]), labels, centres


def _seeds(x: Floats, clusters: int, chance: np.random.RandomState) -> Floats:
    """Return the centres that greedy k-means++ starts from (Arthur and Vassilvitskii 2007)."""
    ones, trials = np.ones_like(x), 2 + int(np.log(clusters))
    chosen = [int(chance.choice(x.size, p=ones / ones.sum()))]
    nearest = _squared(x[chosen], x)[0]
    potential = nearest @ ones
    for _ in range(1, clusters):
        tried = np.searchsorted(np.cumsum(nearest), chance.uniform(size=trials) * potential)
        tried = np.clip(tried, None, x.size - 1)
        closer = np.minimum(nearest, _squared(x[tried], x))
        potentials = (closer @ ones[:, None])[:, 0]
        best = int(np.argmin(potentials))
        potential, nearest = potentials[best], closer[best]
        chosen.append(int(tried[best]))
    seeds: Floats = x[chosen]
    return seeds


def _squared(centres: Floats, x: Floats) -> Floats:
    """Return squared distances, shape (centres, N), with the roundings of the formula that also holds for vectors."""
    found: Floats = np.maximum(-2 * (centres[:, None] * x) + (centres**2)[:, None] + x**2, 0)
    return found


def _settled(x: Floats, centres: Floats) -> tuple[Indices, Floats]:
    """Move centres to the means of what is nearest to them, until nothing moves (Lloyd 1982)."""
    labels = np.full(x.size, -1, np.int32)
    for _ in range(MOST_STEPS):
        found = _nearest(x, centres)
        counts = np.bincount(found, minlength=centres.size).astype(float)
        sums = np.bincount(found, weights=x, minlength=centres.size).astype(float)
        if not counts.all():
            _fill(x, centres, found, counts, sums)
        before, centres = centres, sums * (1 / counts)
        if np.array_equal(found, labels):
            return found, centres
        labels = found
        if not ((centres - before) ** 2).sum():
            break
    return _nearest(x, centres), centres


def _nearest(x: Floats, centres: Floats) -> Indices:
    found: Indices = np.argmin(centres**2 - 2 * (x[:, None] * centres), axis=1).astype(np.int32)
    return found


def _fill(x: Floats, centres: Floats, labels: Indices, counts: Floats, sums: Floats) -> None:
    """Give each cluster that is empty one of the numbers farthest from their centres."""
    empty = np.flatnonzero(counts == 0)
    far = np.argpartition((x - centres[labels]) ** 2, -empty.size)[: -empty.size - 1 : -1]
    for cluster, place in zip(empty, far, strict=True):
        sums[labels[place]] -= x[place]
        counts[labels[place]] -= 1
        sums[cluster], counts[cluster] = x[place], 1.0


def _same(labels: Indices, others: Indices, clusters: int) -> bool:
    """Return whether two clusterings differ in their numbers only."""
    return np.unique(labels.astype(np.int64) * clusters + others).size == np.unique(labels).size
