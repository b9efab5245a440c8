"""What share of the items a design's scores should put right, from its exact moments, before anything is run."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_ndtr, logsumexp, ndtr

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.server.moments.blocks import SketchMoments
from scenarios.data.matching import best_matching
from scenarios.theory.kmeans_limit import Cuts, Mixture, best_centres, sampled_cuts
from scenarios.theory.line_clusters import half_way
from scenarios.theory.normal import log_density

NODES = 64  # Gauss-Hermite nodes for a cluster's mean: the logarithm of the integrand is smooth


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
        Expected share, in [0, 1], to first order in 1/N. For many items of two equal clusters ``Phi(d / (2 sd))``;
        in general the optimal cut of the line into L intervals under the Gaussian mixture of the scores, matched to
        the clusters, with the cuts' scatter and bias in a sample of N items (`kmeans_limit.sampled_cuts`).

    Raises
    ------
    InputError
        If sizes and moments disagree, or the decoder is unknown.

    Notes
    -----
    k-means is the best clustering, as the decoder finds it. Clusters with the same ``given_sensed`` cannot be told
    apart: k-means then cuts elsewhere, through the bulk of the scores, and the value is what that gives by luck
    (1/2 for two equal clusters; a sample of N items has ``O(1/sqrt(N))`` more, because the matching is chosen after
    the fact). Without noise and without contrast it is the largest cluster's share.
    """
    return mixture_accuracy(_scaled(moments, cluster_sizes, users, decoder), cluster_sizes)


def mixture_accuracy(mixture: Mixture | None, sizes: Ints) -> float:
    """Predict the share of items that k-means puts right of such a mixture, None of equal scores; see above."""
    if mixture is None:
        return float(sizes.max() / sizes.sum())
    rows, columns, inside = _matched(mixture, sampled_cuts(mixture))
    return float(mixture.shares[rows] @ inside[rows, columns])


def predicted_exact(moments: SketchMoments, cluster_sizes: Ints, *, users: int, decoder: str) -> float:
    """Predict the probability that all N labels are right, up to a permutation of labels.

    Parameters
    ----------
    moments, cluster_sizes, users, decoder
        As for `predicted_accuracy`.

    Returns
    -------
    float
        Probability that no move of one item between neighbouring clusters lowers the sum of squares of the true
        clustering. For two large equal clusters ``Phi(z)^N``, about ``exp(-N Phi(-z))``.

    Raises
    ------
    InputError
        As `predicted_accuracy`.

    Notes
    -----
    When all is right, the centres are the true clusters' mean scores, which are independent of the scores' deviations
    from them. Given the means' gap G, an item of a cluster of n stays away from a neighbour of m items if its
    deviation from its own mean is below ``G k / (1 + k)``, ``k^2 = (1 - 1/n) / (1 + 1/m)`` (Hartigan's condition).
    The gaps are integrated out, cluster by cluster. Where the mixture's best cuts do not separate the clusters' means,
    as when clusters coincide, k-means cuts elsewhere and the value is 0.
    """
    return mixture_exact(_scaled(moments, cluster_sizes, users, decoder), cluster_sizes)


def mixture_exact(mixture: Mixture | None, sizes: Ints) -> float:
    """Predict the probability that k-means puts all items right of such a mixture, None of equal scores; see above."""
    if mixture is None:
        return float(sizes.size == 1)
    order = np.argsort(mixture.means)
    means, cuts = mixture.means[order], half_way(best_centres(mixture))
    if not bool(np.all((means[:-1] < cuts) & (cuts < means[1:]))):
        return 0.0
    return _chance_of_order(means, mixture.deviations[order], mixture.sizes[order])


def mixture_of(level: Floats, variance: Floats, sizes: Ints) -> Mixture | None:
    """Return the mixture of independent estimates of such means and variances, one a cluster, in units of their noise.

    None where nothing is uncertain. A cluster's variance counts as at least a hundredth of the mean one.
    """
    noise = float(np.average(variance, weights=sizes))
    if noise == 0:
        return None
    centre = float(np.average(level, weights=sizes))
    deviations = np.sqrt(np.maximum(variance / noise, 0.01))
    return Mixture(means=(level - centre) / math.sqrt(noise), deviations=deviations, sizes=sizes)


def _scaled(moments: SketchMoments, sizes: Ints, users: int, decoder: str) -> Mixture | None:
    """Mixture of the scores in units of their mean noise, around their mean; None where all scores are equal.

    An item in a cluster with a larger effect is answered 1 more often, which changes its score's variance: the
    derivative of a design's noise, ``p (1 - p) q`` and ``p (1 - p) q (1 - q)`` for MaxSense, when the item's own rate
    moves by the effect, and so does that of the items sensed with it.
    """
    if sizes.shape != moments.effect.shape:
        raise InputError(f"cluster_sizes has shape {sizes.shape}; the moments have {moments.effect.size} clusters")
    deviation = moments.estimate_deviation(users, decoder)
    if deviation == 0:
        return None
    means, rate = moments.effect / deviation, moments.answer_rate
    if decoder == "paper":
        noise, spread, slope = moments.noise_paper, rate, 1.0
    else:
        noise, spread, slope = moments.noise_centred, rate * (1 - rate), 1 - 2 * rate
    change = moments.effect * slope * (2 / spread - moments.sensing / noise) if spread > 0 else np.zeros(sizes.size)
    return Mixture(
        means=means - np.average(means, weights=sizes),
        deviations=np.sqrt(np.maximum(1 + change, 0.01)),
        sizes=sizes,
    )


def _matched(mixture: Mixture, cuts: Cuts) -> tuple[Ints, Ints, Floats]:
    """Match clusters (rows) with intervals (columns), and give the chance of each to hold an item of each cluster."""
    spread = np.sqrt(mixture.deviations[:, None] ** 2 + cuts.variance)
    below = ndtr((cuts.limit + cuts.shift - mixture.means[:, None]) / spread)
    inside = np.maximum(np.diff(below, axis=1, prepend=0, append=1), 0)
    rows, columns = best_matching(mixture.shares[:, None] * inside)
    return rows, columns, inside


def _chance_of_order(means: Floats, deviations: Floats, sizes: Ints) -> float:
    """Chance that Hartigan's condition holds at every item, for clusters in ascending order of their means.

    A chain: the sum over one cluster's mean, given the next one's, at a time.
    """
    points, logs = _nodes()
    total = logs
    for low in range(means.size - 1):
        high = low + 1
        own, other = (means[k] + points * deviations[k] / math.sqrt(sizes[k]) for k in (low, high))
        gap = other[None, :] - own[:, None]
        stay = _log_stay(gap, deviations[low], sizes[low], sizes[high])
        stay = stay + _log_stay(gap, deviations[high], sizes[high], sizes[low])
        total = logsumexp(total[:, None] + stay, axis=0) + logs
    return math.exp(min(0.0, float(logsumexp(total))))


@cache
def _nodes() -> tuple[Floats, Floats]:
    """Return the nodes of an integral over the normal law, and the logarithms of their weights, which sum to 1."""
    points, weights = hermegauss(NODES)
    return points, np.log(weights / weights.sum())


def _log_stay(gap: Floats, deviation: float, size: int, neighbour: int) -> Floats:
    """Logarithm of the chance that no item of a cluster is nearer to a neighbour at the given gap.

    Deviations from the cluster's own mean have variance ``1 - 1/n`` and correlation ``-1 / (n - 1)``, whose effect on
    the chance is counted to first order.
    """
    if size == 1:
        return np.zeros_like(gap)
    ratio = math.sqrt((1 - 1 / size) / (1 + 1 / neighbour))
    reach = gap * ratio / (1 + ratio) / (deviation * math.sqrt(1 - 1 / size))
    log_below = log_ndtr(reach)
    return np.asarray(size * log_below - size / 2 * np.exp(2 * (log_density(reach) - log_below)))
