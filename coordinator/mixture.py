"""Mixtures: the clusters' levels and shares behind noisy estimates, by expectation and maximization.

Every item's estimate is normal around the level of its cluster, with a standard error that is known; levels and shares
are not. That items leave the pool because of what their estimates say does not matter: the likelihood is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from coordinator.decoders import kmeans_on_line
from coordinator.protocol.arrays import Floats

ITERATIONS = 500
SETTLED = 1e-5
"""The fit ends once an iteration gains less log-likelihood than this, in all."""
Floats2 = np.ndarray[tuple[int, int], np.dtype[np.float64]]


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
        Log-likelihood of the estimates.
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


def fit(value: Floats, error: Floats, clusters: int) -> Mixture:
    """Return the most likely mixture that two starts find: optimal clusters on a line, and evenly cut ones.

    Parameters
    ----------
    value, error : ndarray of float64, shape (N,)
        Estimates and their standard errors, finite and above 0.
    clusters : int
        Number of clusters L.
    """
    evenly = np.argsort(np.argsort(-value)) * clusters // value.size
    starts = [evenly] if clusters == 1 else [evenly, kmeans_on_line(value, clusters)]
    fits = [_climb(value, error, np.eye(clusters)[np.asarray(start, np.int64)]) for start in starts]
    best = max(fits, key=lambda one: one.likelihood)
    order = np.argsort(-best.levels, kind="stable")
    return Mixture(
        levels=best.levels[order], shares=best.shares[order], doubts=best.doubts[order], likelihood=best.likelihood
    )


def _climb(value: Floats, error: Floats, belongs: Floats2) -> Mixture:
    found = _maximize(value, error, belongs, -np.inf)
    for _ in range(ITERATIONS):
        log_joint = joint(found, value, error, doubtful=False)
        evidence = logsumexp(log_joint, axis=1)
        likelihood = float(evidence.sum())
        if likelihood - found.likelihood < SETTLED:
            break
        found = _maximize(value, error, np.exp(log_joint - evidence[:, None]), likelihood)
    return found


def _maximize(value: Floats, error: Floats, belongs: Floats2, likelihood: float) -> Mixture:
    weights = belongs / error[:, None] ** 2
    total = np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
    return Mixture(
        levels=(weights * value[:, None]).sum(axis=0) / total,
        shares=belongs.sum(axis=0) / value.size,
        doubts=1 / np.sqrt(total),
        likelihood=likelihood,
    )
