"""Spectral clustering of items: Pairwise-Preference's decoder (Banerjee et al., Figure 1)."""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model
from coordinator.server.decoding.threads import k_means, one_thread
from coordinator.server.statistics.pairs import PairStatistic

CENTRES = ("centred", "paper")
"""Decoders: they sum S - mean S over a pair's devices, which removes the constant's eigenvector, or S itself."""


def decode_pairs(statistic: PairStatistic, *, clusters: int, decoder: str) -> Model:
    """Return the item model of k-means on the L leading eigenvectors of agreements about pairs."""
    if decoder not in CENTRES:
        raise InputError(f"decoder {decoder!r} is unknown; choose one of {', '.join(CENTRES)}")
    rate = statistic.ones / statistic.answered if statistic.answered else 0.0
    affinity = statistic.affinity(rate if decoder == "centred" else 0.0)
    spread = rate * (1 - rate) if decoder == "centred" else rate
    error = math.sqrt(statistic.answered * 2 / len(affinity) * spread)
    return decode_affinity(affinity, clusters=clusters, error=error)


def decode_affinity(affinity: Floats, *, clusters: int, error: float) -> Model:
    """Return the item model that a symmetric affinity matrix tells. Shapes: ``affinity`` (N, N)."""
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
    labels: Indices = k_means(vectors, clusters, starts=10).labels_.astype(np.int32)
    return labels


def _leading(affinity: Floats, count: int) -> Floats:
    """Return the eigenvectors with eigenvalues largest in magnitude, shape (N, count)."""
    from scipy.sparse.linalg import ArpackError, eigsh  # noqa: PLC0415 (other decoders need none of it)

    try:
        vectors: Floats = eigsh(affinity, k=count, which="LM", v0=np.ones(len(affinity)))[1]
    except ArpackError:  # many eigenvalues are equal, for instance if few devices answered
        values, everything = np.linalg.eigh(affinity)
        vectors = everything[:, np.argsort(-np.abs(values))[:count]]
    return vectors


def _by_falling_score(labels: Indices, score: Floats) -> Indices:
    """Return the labels, numbered by falling mean score of their cluster."""
    clusters, place = np.unique(labels, return_inverse=True)
    means = np.bincount(place, weights=score) / np.bincount(place)
    rank: Indices = np.argsort(np.argsort(-means, kind="stable")).astype(np.int32)
    return rank[place] if clusters.size else labels
