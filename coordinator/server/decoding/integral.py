"""Integrals: every item's cluster, averaged over all possible levels and shares instead of the likeliest ones.

The level of a cluster of two items is known little better than a single item's estimate, and if it is wrong, several
labels are wrong at once. So P(cluster | estimates) is averaged over the posterior of levels and shares by importance
sampling. Points around each of its maxima follow Student's distribution with the maximum's curvature, and are weighted
by the likelihood of the estimates. The points are fixed and evenly spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy

from coordinator.protocol.arrays import Floats, Floats2, Indices
from coordinator.protocol.compiled import compiled
from coordinator.server.decoding.climbing import back, climb, factor
from coordinator.server.decoding.mixture import Mixture

POINTS, LEAST_POINTS, WORK = 512, 32, 1 << 16
"""Most and fewest points around a maximum; with more items fewer points do, since levels are known better."""
FREEDOM, WIDER = 8.0, 1.3
"""Degrees of freedom of Student's distribution, and how much wider it is than the curvature says."""
PRIOR = np.array([0.0, 1.0, 1.0])
"""The prior of `climbing.height`: mean and precision of levels in units of the estimates' range; uniform shares."""
CLOSE = 1e-4
"""Squared distance below which two maxima count as one, in units of the posterior's spread."""
NEGLIGIBLE = 1e-12
"""Smallest weight of a point, relative to the heaviest one, that is not left out."""
FAINT = 16.0
"""Log-ratio of probabilities to the first maximum beyond which a maximum is left out."""


def integrated(value: Floats, error: Floats, near: Sequence[Mixture], some: Indices) -> tuple[Floats2, Floats]:
    """Return P(cluster) of every item, shape (N, L), cluster 0 with the highest level, and every item's mean level.

    Parameters
    ----------
    value, error : ndarray of float64, shape (N,)
        Estimates and their standard errors, finite and above 0.
    near : sequence of Mixture
        Mixtures near which maxima of the posterior are looked for, at least one.
    some : ndarray of int32
        Items from whose estimates levels and shares are learned.

    Notes
    -----
    The prior is vague: levels are normal around the middle of the estimates, with the estimates' range as their
    standard deviation, and all shares are equally probable. Every cluster has at least one item.
    """
    many = near[0].levels.size
    middle, unit = float(value.max() + value.min()) / 2, float(value.max() - value.min()) or 1.0
    scaled, precision = (value - middle) / unit, (unit / error) ** 2
    modes, factors, weights = list[Floats](), list[Floats2](), list[float]()
    for one in near:
        logits = np.log(np.maximum(one.shares, 1e-3 / value.size))
        mode = np.concatenate([(one.levels - middle) / unit, logits - logits.mean()])
        curve, lower, inside = np.empty((2 * many, 2 * many)), np.empty((2 * many, 2 * many)), np.empty(many)
        reached = climb(scaled[some], precision[some], mode, PRIOR, curve, inside)
        if not factor(curve, lower):  # no maximum was reached, so use the curvature for known clusters
            lower = np.diag(np.sqrt(np.concatenate([inside, 1 + some.size * scipy.special.softmax(mode[many:])])))
        if not any(_close(lower, mode - other) for other in modes):
            modes.append(mode)
            factors.append(lower)
            weights.append(reached - float(np.log(np.diag(lower)).sum()))
    kept = np.array(weights) > max(weights) - FAINT
    shares = np.exp(np.array(weights)[kept] - max(weights))
    counted, told, means = np.zeros(value.size), np.zeros((value.size, many)), np.zeros(value.size)
    counted[some] = 1.0
    points = _points(2 * many, max(LEAST_POINTS, min(POINTS, WORK // value.size)))
    around = (np.array(modes)[kept], np.array(factors)[kept], shares, points)
    _average(scaled, precision, counted, *around, told, means)
    return told, middle + unit * means


def _close(lower: Floats2, step: Floats) -> bool:
    return float(np.square(lower.T @ step).sum()) < CLOSE


@lru_cache(maxsize=64)
def _points(size: int, count: int) -> Floats2:
    """Return fixed, evenly spread points of Student's distribution around 0, shape (count, size).

    The additive sequence of Roberts (2018) fills the unit cube; its first coordinate becomes the radius' share of the
    points, all others are normal.
    """
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (size + 2))
    cube = (0.5 + np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, size + 2))) % 1
    chi = 2 * scipy.special.gammaincinv(FREEDOM / 2, cube[:, :1])
    found: Floats2 = scipy.special.ndtri(cube[:, 1:]) * WIDER * np.sqrt(FREEDOM / chi)
    return found


@compiled
def _average(
    value: Floats,
    precision: Floats,
    counted: Floats,
    modes: Floats2,
    factors: Floats2,
    shares: Floats,
    points: Floats2,
    told: Floats2,
    means: Floats,
) -> None:
    """Average P(cluster) and levels over the points around all modes; see `integrated`."""
    many, heaviest = modes.shape[1] // 2, -np.inf
    local, level, log_shares = np.empty((value.size, many)), np.empty(many), np.empty(many)
    for m in range(len(modes)):
        for s in range(len(points)):
            point = modes[m] + back(factors[m], points[s])
            order, logits = np.argsort(-point[:many]), point[many:]
            total = np.log(np.exp(logits - logits.max()).sum()) + logits.max()
            found = -(logits.sum() ** 2) / 2 - np.log(_proposed(modes, factors, shares, point)) + np.log(shares[m])
            for c in range(many):
                level[c], log_shares[c] = point[order[c]], logits[order[c]] - total
                found += PRIOR[2] * log_shares[c] - PRIOR[1] * (level[c] - PRIOR[0]) ** 2 / 2
            found += _belongs(value, precision, counted, level, log_shares, local)
            if found > heaviest:
                told *= np.exp(heaviest - found)
                means *= np.exp(heaviest - found)
                heaviest = found
            if np.exp(found - heaviest) > NEGLIGIBLE:
                _add(np.exp(found - heaviest), local, level, told, means)
    for item in range(value.size):
        mass = told[item].sum()
        means[item] /= mass
        told[item] /= mass


@compiled
def _proposed(modes: Floats2, factors: Floats2, shares: Floats, point: Floats) -> float:
    """Return a point's density up to a factor: Student's distributions around the modes, weighted by their shares."""
    size, density = point.size, 0.0
    for m in range(len(modes)):
        square, root = 0.0, 1.0
        for i in range(size):
            along = 0.0
            for k in range(i, size):
                along += factors[m, k, i] * (point[k] - modes[m, k])
            square += along**2
            root *= factors[m, i, i]
        density += shares[m] * root * (1 + square / WIDER**2 / FREEDOM) ** (-(FREEDOM + size) / 2)
    return density


@compiled
def _belongs(
    value: Floats, precision: Floats, counted: Floats, level: Floats, log_shares: Floats, local: Floats2
) -> float:
    """Write P(cluster) of every item where levels and shares are known; return the log-likelihood."""
    part, found = np.empty(level.size), 0.0
    for item in range(value.size):
        best, mass = -np.inf, 0.0
        for c in range(level.size):
            part[c] = log_shares[c] - (value[item] - level[c]) ** 2 * precision[item] / 2
            best = max(best, part[c])
        for c in range(level.size):
            part[c] = np.exp(part[c] - best)
            mass += part[c]
        for c in range(level.size):
            local[item, c] = part[c] / mass
        found += counted[item] * (best + np.log(mass))
    return found


@compiled
def _add(weight: float, local: Floats2, level: Floats, told: Floats2, means: Floats) -> None:
    """Add a point's P(item in cluster, no cluster is empty), neglecting that two clusters are empty at once."""
    empty = np.ones(level.size)
    for item in range(len(local)):
        for c in range(level.size):
            empty[c] *= 1 - local[item, c]
    for item in range(len(local)):
        for c in range(level.size):
            whole = 1.0
            for d in range(level.size):
                if d != c and empty[d] > 0:
                    whole -= empty[d] / (1 - local[item, d])
            mass = weight * local[item, c] * max(whole, 0.0)
            told[item, c] += mass
            means[item] += mass * level[c]
