"""What share of the items a design's scores should put right, from its exact moments, before anything is run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

from coordinator.moments import SketchMoments
from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError

STEPS = 20_000  # Lloyd's iteration ends long before, when no centre moves
POINTS = 600  # about as many quantiles stand for the mixture when the starting centres are sought


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mixture:
    """Item scores as a Gaussian mixture, one component a cluster, in units of the noise's standard deviation."""

    means: Floats
    sizes: Ints

    @property
    def shares(self) -> Floats:
        return np.asarray(self.sizes / self.sizes.sum())


def predicted_accuracy(moments: SketchMoments, cluster_sizes: Ints, *, users: int, decoder: str) -> float:
    """Predict the share of items that k-means on the scores puts right, under the best matching of labels.

    Parameters
    ----------
    moments : SketchMoments
        Moments of the design.
    cluster_sizes : array of int, shape (L,)
        Items in each cluster.
    users : int
        Answers received, U.
    decoder : {"paper", "centred"}
        Which score is clustered.

    Returns
    -------
    float
        Expected share, in [0, 1]. Two equal clusters: ``Phi(d / (2 sd))``. Otherwise the optimal cut of the line
        into L intervals under the Gaussian mixture of the scores, matched to the clusters.

    Raises
    ------
    InputError
        If sizes and moments disagree, or the decoder is unknown.

    Notes
    -----
    The limit of many items: the cuts are those of the mixture, not of a sample from it, and k-means is run to the
    end (scikit-learn's default ``tol`` stops earlier where clusters are unequal or many). Clusters with the same
    ``given_sensed`` cannot be told apart: k-means then cuts elsewhere, through the bulk of the scores, and the value
    is what that gives by luck (1/2 for two equal clusters; a sample of N items has ``O(1/sqrt(N))`` more, because
    the matching is chosen after the fact). Without noise and without contrast it is the largest cluster's share.
    """
    mixture = _scaled(moments, cluster_sizes, users, decoder)
    if mixture is None:
        return float(cluster_sizes.max() / cluster_sizes.sum())
    if mixture.means.size == 2 and mixture.sizes[0] == mixture.sizes[1]:
        return float(norm.cdf(abs(mixture.means[0] - mixture.means[1]) / 2))
    _, hits = _matched_misses(mixture)
    return float(mixture.shares @ hits)


def predicted_exact(moments: SketchMoments, cluster_sizes: Ints, *, users: int, decoder: str) -> float:
    """Predict the probability that all N labels are right, up to a permutation of labels.

    Parameters
    ----------
    moments : SketchMoments
        Moments of the design.
    cluster_sizes : array of int, shape (L,)
        Items in each cluster.
    users : int
        Answers received, U.
    decoder : {"paper", "centred"}
        Which score is clustered.

    Returns
    -------
    float
        Product over items of the probability that the item's score falls in its cluster's interval; for two equal
        clusters ``Phi(z)^N``, about ``exp(-N Phi(-z))``. Items are taken as independent and the cuts as those of
        `predicted_accuracy`.

    Raises
    ------
    InputError
        As `predicted_accuracy`.

    Notes
    -----
    Where clusters coincide the product is practically 0, and so is the truth.
    """
    mixture = _scaled(moments, cluster_sizes, users, decoder)
    if mixture is None:
        return float(cluster_sizes.size == 1)
    misses, _ = _matched_misses(mixture)
    with np.errstate(divide="ignore"):
        return math.exp(float(mixture.sizes @ np.log1p(-np.minimum(misses, 1))))


def _scaled(moments: SketchMoments, sizes: Ints, users: int, decoder: str) -> _Mixture | None:
    """Mixture of the scores in units of their noise, around their mean; None where all scores are equal."""
    if sizes.shape != moments.effect.shape:
        raise InputError(f"cluster_sizes has shape {sizes.shape}; the moments have {moments.effect.size} clusters")
    deviation = moments.estimate_deviation(users, decoder)
    if deviation == 0:
        return None
    means = moments.effect / deviation
    return _Mixture(means=means - np.average(means, weights=sizes), sizes=sizes)


def _matched_misses(mixture: _Mixture) -> tuple[Floats, Floats]:
    """Probability, for each cluster, that an item falls outside or inside the interval matched to the cluster."""
    cuts = _cuts(_settled(mixture, _start(mixture)))
    below, above = (_offsets(mixture, edge) for edge in (cuts[:-1], cuts[1:]))
    inside = norm.cdf(above) - norm.cdf(below)
    outside = norm.cdf(below) + norm.sf(above)
    rows, columns = linear_sum_assignment(mixture.shares[:, None] * inside, maximize=True)
    return outside[rows, columns], inside[rows, columns]


def _settled(mixture: _Mixture, centres: Floats) -> Floats:
    """Run Lloyd's iteration on the mixture's density from the given ascending centres to its fixed point."""
    for _ in range(STEPS):
        cuts = _cuts(centres)
        below, above = (_offsets(mixture, edge) for edge in (cuts[:-1], cuts[1:]))
        inside = norm.cdf(above) - norm.cdf(below)
        mass = mixture.shares @ inside
        moment = (mixture.shares * mixture.means) @ inside - mixture.shares @ (norm.pdf(above) - norm.pdf(below))
        moved = np.where(mass > 0, moment / np.where(mass > 0, mass, 1), centres)
        if np.abs(moved - centres).max() < 1e-10 * (1 + np.abs(centres).max()):
            return moved
        centres = moved
    return centres


def _cuts(centres: Floats) -> Floats:
    """Give the ends of the intervals nearest to each centre: shape (L + 1,), from minus to plus infinity."""
    return np.concatenate(([-np.inf], (centres[1:] + centres[:-1]) / 2, [np.inf]))


def _offsets(mixture: _Mixture, edges: Floats) -> Floats:
    """Distance of every edge from every component's mean, shape (L, edges)."""
    return edges[None, :] - mixture.means[:, None]


def _start(mixture: _Mixture) -> Floats:
    """Centres of least within-cluster variance for a fine discrete stand-in of the mixture.

    Dynamic programming over contiguous groups of the sorted points finds the best grouping of all, which on the line
    is what several starts of Lloyd's iteration can only hope for.
    """
    count = mixture.means.size
    each = max(16, POINTS // count)
    quantiles = norm.ppf((np.arange(each) + 0.5) / each)
    points = (mixture.means[:, None] + quantiles).ravel()
    order = np.argsort(points)
    points, weights = points[order], np.repeat(mixture.shares / each, each)[order]
    mass, first, second = (np.concatenate(([0.0], np.cumsum(weights * points**k))) for k in range(3))
    empty = np.tri(points.size + 1, dtype=bool)  # a group [row, column) holds at least one point
    group = np.where(empty, 1, mass[None, :] - mass[:, None])
    cost = second[None, :] - second[:, None] - (first[None, :] - first[:, None]) ** 2 / group
    cost[empty] = np.inf
    best, choices = cost[0], []
    for _ in range(count - 1):
        total = best[:, None] + cost
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [points.size]
    for choice in reversed(choices):
        ends.append(int(choice[ends[-1]]))
    cuts = np.array([*ends, 0])[::-1]
    return np.asarray(np.diff(first[cuts]) / np.diff(mass[cuts]))
