"""Decoders: from a statistic of scores, of pairs or of open ratings to item clusters, by name."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import kmeans1d
import numpy as np

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.decoding.curator import item_sensitivity, noisy_symmetric, noisy_totals, pair_sensitivity
from coordinator.protocol.decoding.threads import k_means, one_thread
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model
from coordinator.protocol.statistics.counts import PairStatistic
from coordinator.protocol.statistics.scores import ScoreStatistic


def decode_pairs(statistic: PairStatistic, *, clusters: int, decoder: str) -> Model:
    """Return the item model of k-means on the L leading eigenvectors of agreements about pairs."""
    if decoder not in DECODERS:
        raise InputError(f"decoder {decoder!r} is unknown; choose one of {', '.join(DECODERS)}")
    # centred: S - mean S is summed over a pair's devices, which removes the constant's eigenvector; paper: S itself
    rate = statistic.ones / statistic.answered if statistic.answered else 0.0
    affinity = statistic.affinity(rate if decoder == "centred" else 0.0)
    spread = rate * (1 - rate) if decoder == "centred" else rate
    error = math.sqrt(statistic.answered * 2 / len(affinity) * spread)
    return decode_affinity(affinity, clusters=clusters, error=error)


def decode_affinity(affinity: Floats, *, clusters: int, error: float) -> Model:
    """Return the item model of a symmetric affinity matrix. Shapes: ``affinity`` (N, N)."""
    items = len(affinity)
    if not 2 <= clusters < items:
        raise InputError(f"clusters is {clusters}; pairwise needs at least 2 and fewer than items, {items}")
    score = affinity.sum(axis=1)
    cluster = _by_falling_score(_profile_clusters(affinity, clusters), score)
    return Model(cluster=cluster, score=score, error=np.full(items, error, np.float64), clusters=clusters)


def _profile_clusters(affinity: Floats, clusters: int) -> Indices:
    if not affinity.any():
        return np.zeros(len(affinity), np.int32)
    with one_thread():
        vectors = _leading(affinity, clusters)
    return np.asarray(k_means(vectors, clusters, starts=10).labels_.astype(np.int32))


def _leading(affinity: Floats, count: int) -> Floats:
    """Return the eigenvectors with eigenvalues largest in magnitude, shape (N, count)."""
    from scipy.sparse.linalg import ArpackError, eigsh  # noqa: PLC0415 (other decoders need none of it)

    try:
        vectors: Floats = eigsh(affinity, k=count, which="LM", v0=np.ones(len(affinity)), rng=0)[1]
    except ArpackError:  # many eigenvalues are equal, for instance if few devices answered
        values, everything = np.linalg.eigh(affinity)
        vectors = everything[:, np.argsort(-np.abs(values))[:count]]
    return vectors


def _by_falling_score(labels: Indices, score: Floats) -> Indices:
    """Return the labels, numbered by falling mean score of their cluster."""
    clusters, inverse = np.unique(labels, return_inverse=True)
    means = np.bincount(inverse, weights=score) / np.bincount(inverse)
    rank: Indices = np.argsort(np.argsort(-means, kind="stable")).astype(np.int32)
    return rank[inverse] if clusters.size else labels


Scores = tuple[Floats, float]  # Scores, shape (N,), and their common standard error


def paper_scores(statistic: ScoreStatistic, sensing: float) -> Scores:
    """Return MaxSense's own scores ``B_i = sum_u H_ui S_u`` (Banerjee et al., Figure 2)."""
    q, sets_sensed = statistic.answer_rate, statistic.questions * sensing
    spread = sets_sensed * statistic.answer_rate * (1 - sensing * (1 - q) - sets_sensed * q)  # one set: p (1 - p) q
    return statistic.scores.astype(float), math.sqrt(statistic.answered * max(spread, 0.0))


def centred_scores(statistic: ScoreStatistic, sensing: float) -> Scores:
    """Return ``sum_u H_ui (S_u - mean S)``: the same contrast between clusters at ``1 - q`` of the variance (ours)."""
    q = statistic.answer_rate
    error = math.sqrt(statistic.answers * sensing * (1 - sensing) * q * (1 - q))
    return statistic.scores - q * statistic.sensed, error


DECODERS: dict[str, Callable[[ScoreStatistic, float], Scores]] = {"centred": centred_scores, "paper": paper_scores}


def kmeans_on_line(scores: Floats, clusters: int) -> Indices:
    """Return the best k-means clusters of scores, shape (N,), numbered by falling mean: cluster 0 is the highest."""
    if not np.isfinite(scores).all():
        raise InputError(f"{np.sum(~np.isfinite(scores))} of {scores.size} scores are infinite or no number")
    # On a line the clusters with the least sum of squares are found exactly (Wu, 1991) and not by starts of Lloyd's
    # algorithm, so that no luck of a start is among the errors, as `scenarios.theory.prediction` takes it. Beside
    # scores that lie 10^8 widths of a cluster away squares lose digits: the clusters may then be the best nearby only.
    values, inverse = np.unique(scores, return_inverse=True)
    if values.size <= clusters:
        return np.asarray(values.size - 1 - inverse, np.int32)
    centred = scores - scores.mean()  # squares of large numbers would lose digits
    rising = np.array(kmeans1d.cluster(centred, clusters).clusters)
    if not _each_nearest(centred, rising, clusters):
        raise InputError(
            f"scores from {scores.min():g} to {scores.max():g} lie too far apart for {clusters} clusters: the squares "
            "of those that lie far out leave no digits for the others"
        )
    return np.asarray(clusters - 1 - rising, np.int32)


def _each_nearest(centred: Floats, labels: Ints, clusters: int) -> bool:
    """Return whether all clusters have scores, and each score is nearest to its own mean, as in the best clusters."""
    counts = np.bincount(labels, minlength=clusters)
    means = np.bincount(labels, centred, clusters) / np.maximum(counts, 1)
    nearest = np.searchsorted((means[1:] + means[:-1]) / 2, centred)
    return bool(counts.all() and np.array_equal(nearest, labels))


def decode(statistic: ScoreStatistic, *, sensing: float, clusters: int, decoder: str) -> Model:
    """Return the item model of a statistic."""
    if decoder not in DECODERS:
        raise InputError(f"decoder {decoder!r} is unknown; choose one of {', '.join(DECODERS)}")
    if not 2 <= clusters <= statistic.scores.size:
        raise InputError(
            f"clusters is {clusters}; it must lie between 2 and the number of items, {statistic.scores.size}"
        )
    scores, error = DECODERS[decoder](statistic, sensing)
    cluster = kmeans_on_line(scores, clusters)
    return Model(cluster=cluster, score=scores, error=np.full(scores.size, error), clusters=clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curator:
    """A trusted curator, who sees ratings and publishes a model under ``epsilon``-differential privacy of one user."""

    epsilon: Epsilon  # Privacy parameter of everything that is published [nats]; None for no noise
    rated: int  # Most ratings w of a user, to which the noise of totals is scaled
    neighbours: str  # "replace" or "add-remove": what the privacy of one user is about
    seed: bytes = field(repr=False)  # Sixteen bytes that key the curator's own coins, which nobody else knows


def decode_shares(statistic: ScoreStatistic, *, clusters: int) -> Model:
    """Cluster items by the share of likes among their known ratings; an item without any gets the mean of all."""
    seen, liked = statistic.sensed, statistic.scores
    everywhere = liked.sum() / max(1, seen.sum())
    share = np.where(seen > 0, liked / np.maximum(seen, 1), everywhere)
    smooth = (liked + 1) / (seen + 2)
    error = np.sqrt(smooth * (1 - smooth) / np.maximum(seen, 1))
    return Model(cluster=kmeans_on_line(share, clusters), score=share, error=error, clusters=clusters)


def decode_item_totals(statistic: ScoreStatistic, curator: Curator, *, clusters: int) -> Model:
    """Cluster items by the curator's noisy totals of likes less dislikes; nothing else about users is published."""
    sensitivity = item_sensitivity(curator.rated, neighbours=curator.neighbours)
    totals = 2 * statistic.scores - statistic.sensed
    noisy, noise = noisy_totals(totals, epsilon=curator.epsilon, sensitivity=sensitivity, seed=curator.seed)
    # the error of the noise alone: that of sampling depends on the number of users, private where one may be added
    error = math.sqrt(noise.variance)
    return Model(
        cluster=kmeans_on_line(noisy, clusters), score=noisy, error=np.full(totals.size, error), clusters=clusters
    )


def decode_pair_totals(statistic: PairStatistic, curator: Curator, *, clusters: int) -> Model:
    """Cluster items by the spectrum of the curator's noisy totals of agreements less disagreements about pairs."""
    totals = 2 * statistic.agreed - statistic.pairs
    sensitivity = pair_sensitivity(curator.rated, items=len(totals), neighbours=curator.neighbours)
    noisy, noise = noisy_symmetric(totals, epsilon=curator.epsilon, sensitivity=sensitivity, seed=curator.seed)
    return decode_affinity(noisy, clusters=clusters, error=math.sqrt((len(totals) - 1) * noise.variance))
