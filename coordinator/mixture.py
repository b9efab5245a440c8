"""Mixtures: the clusters' levels and shares behind noisy estimates, by maximum likelihood.

Every item's estimate is normal around the level of its cluster, with a standard error that is known; levels and shares
are not. That items leave the pool because of what their estimates say does not matter: the likelihood is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from coordinator.decoders import kmeans_on_line
from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.compiled import compiled
from coordinator.threads import one_thread

WARM, ITERATIONS = 10, 500
TINY = 1e-200
SETTLED = 1e-12
"""The fit ends once an iteration gains a smaller share of the log-likelihood than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Levels and shares of L clusters, the highest first.

    Attributes
    ----------
    levels, shares : ndarray of float64, shape (L,)
        What the estimates of a cluster's items are around, and the cluster's share of the items.
    doubts : ndarray of float64, shape (L,)
        Standard errors of the levels.
    likelihood : float
        Log-likelihood of the estimates, up to a number that depends on their errors only.
    """

    levels: Floats
    shares: Floats
    doubts: Floats
    likelihood: float


def joint(mixture: Mixture, value: Floats, error: Floats, *, doubtful: bool) -> Floats2:
    """Return log P(cluster, estimate) of every item, shape (N, L); ``doubtful`` counts the levels' errors, too."""
    variance = error[:, None] ** 2 + (mixture.doubts**2 if doubtful else 0.0)
    with np.errstate(divide="ignore"):
        prior = np.log(mixture.shares)
    found: Floats2 = prior - (value[:, None] - mixture.levels) ** 2 / (2 * variance) - np.log(variance) / 2
    return found


def fit(value: Floats, error: Floats, clusters: int, *, further: Sequence[Ints] = ()) -> Mixture:
    """Return the most likely mixture that a few starts find.

    Clusters start as k-means finds them, with as many items in each, and as equal stretches between the
    extremes of the better known half.

    Parameters
    ----------
    value, error : ndarray of float64, shape (N,)
        Estimates and their standard errors, finite and above 0.
    clusters : int
        Number of clusters L.
    further : sequence of ndarray of int64, shape (N,)
        More labels to start from.
    """
    evenly = np.argsort(np.argsort(-value)) * clusters // value.size
    starts = [evenly, *further]
    if clusters > 1:
        precise = value[error <= np.median(error)]
        marks = np.linspace(precise.max(), precise.min(), clusters + 1)[1:-1]
        starts += [kmeans_on_line(value, clusters, starts=1).astype(np.int64), (value[:, None] < marks).sum(axis=1)]
    with one_thread():
        fits = [_climb(value, error, start, clusters) for start in starts]
    best = max(fits, key=lambda one: one.likelihood)
    order = np.argsort(-best.levels, kind="stable")
    return Mixture(
        levels=best.levels[order], shares=best.shares[order], doubts=best.doubts[order], likelihood=best.likelihood
    )


def _climb(value: Floats, error: Floats, start: Ints, clusters: int) -> Mixture:
    """Maximize the likelihood over levels, in units of the estimates' spread, and the logits of shares."""
    precision, belongs = 1 / error**2, np.ascontiguousarray(np.eye(clusters)[start])
    centre, unit = float(value.mean()), float(value.std()) or 1.0
    sums = np.zeros((3, clusters))

    def unlikely(point: Floats) -> tuple[float, Floats]:
        levels, shares = centre + unit * point[:clusters], softmax(point[clusters:])
        likelihood = _expect(value, precision, belongs, levels, np.log(np.maximum(shares, TINY)), sums)
        members, weights, weighted = sums
        slope = np.concatenate([unit * (weighted - weights * levels), members - value.size * shares])
        return -likelihood, -slope

    sums[:] = belongs.sum(axis=0), precision @ belongs, (precision * value) @ belongs
    for _ in range(WARM):  # expectation and maximization: safe, and slow near the end
        levels, shares = sums[2] / np.maximum(sums[1], TINY), (sums[0] + TINY) / value.size
        _expect(value, precision, belongs, levels, np.log(shares), sums)
    begin = np.concatenate([(levels - centre) / unit, np.log(shares)])
    found = minimize(unlikely, begin, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS, "ftol": SETTLED})
    likelihood, _ = unlikely(found.x)
    return Mixture(
        levels=centre + unit * found.x[:clusters],
        shares=softmax(found.x[clusters:]),
        doubts=1 / np.sqrt(np.maximum(sums[1], TINY)),
        likelihood=-likelihood,
    )


@compiled
def _expect(value: Floats, precision: Floats, belongs: Floats2, levels: Floats, priors: Floats, sums: Floats2) -> float:
    """Write P(cluster | estimate) of every item; return the log-likelihood, up to what no parameter changes.

    ``sums`` receives, a cluster each, how many items belong to it, their precision and their weighted estimates.
    """
    likelihood, sums[:] = 0.0, 0.0
    for item in range(value.size):
        best, total = -np.inf, 0.0
        for cluster in range(levels.size):
            belongs[item, cluster] = priors[cluster] - (value[item] - levels[cluster]) ** 2 * precision[item] / 2
            best = max(best, belongs[item, cluster])
        for cluster in range(levels.size):
            belongs[item, cluster] = np.exp(belongs[item, cluster] - best)
            total += belongs[item, cluster]
        for cluster in range(levels.size):
            part = belongs[item, cluster] / total
            belongs[item, cluster] = part
            sums[0, cluster] += part
            sums[1, cluster] += part * precision[item]
            sums[2, cluster] += part * precision[item] * value[item]
        likelihood += best + np.log(total)
    return likelihood
