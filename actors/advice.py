"""Advice: a device ranks unrated items by the public model and its own ratings; nobody else sees the ranking."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Bools, Indices, Indices2, Ints
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import Model

NOTHING = -1
"""Stands in a recommendation where the catalogue has no further unrated item."""


@compiled
def _cluster_order(cluster: Indices, rated: Indices, likes: Bools, clusters: int) -> Ints:
    """Return the clusters by the device's own share of likes, smoothed by one like and one dislike, best first."""
    liked, seen = np.ones(clusters), np.full(clusters, 2.0)
    for k in range(rated.size):
        liked[cluster[rated[k]]] += likes[k]
        seen[cluster[rated[k]]] += 1
    return np.argsort(-liked / seen, kind="mergesort")


@compiled
def _fill(
    cluster: Indices,
    clusters: int,
    starts: Ints,
    rated: Indices,
    likes: Bools,
    ranked: Indices,
    ends: Ints,
    top: Indices2,
) -> None:
    marks = np.full(cluster.size, -1, np.int64)
    for device in range(top.shape[0]):
        own = slice(starts[device], starts[device + 1])
        marks[rated[own]] = device
        found = 0
        for place in _cluster_order(cluster, rated[own], likes[own], clusters):
            for item in ranked[ends[place] : ends[place + 1]]:
                if found == top.shape[1]:
                    break
                if marks[item] != device:
                    top[device, found] = item
                    found += 1


def recommend(model: Model, starts: Ints, rated: Indices, likes: Bools, *, k: int) -> Indices2:
    """Return every device's own top ``k`` of the items that it has not rated.

    Clusters come in the order of the device's own share of likes among its ratings of them (one like and one
    dislike added, so that an unknown cluster stands at 1/2; ties: the cluster with the higher public score); within
    a cluster items come by public score.

    Parameters
    ----------
    model : Model
        The public item model.
    starts : ndarray of int64, shape (devices + 1,)
        Rows of the devices, CSR.
    rated : ndarray of int32
        Items that each device rated.
    likes : ndarray of bool
        Whether each was liked.
    k : int
        Length of a recommendation.

    Returns
    -------
    ndarray of int32, shape (devices, k)
        Items, best first; -1 where no unrated item is left.

    Raises
    ------
    ValueError
        If the model is none: a server may send anything.
    """
    _check(model)
    ranked = np.lexsort((-model.score, model.cluster)).astype(np.int32)
    ends = np.searchsorted(model.cluster[ranked], np.arange(model.clusters + 1))
    top = np.full((starts.size - 1, k), NOTHING, np.int32)
    _fill(model.cluster, model.clusters, starts, rated, likes, ranked, ends, top)
    return top


def _check(model: Model) -> None:
    """Refuse a model that compiled code, which checks no bounds, would follow astray."""
    if model.cluster.ndim != 1 or model.cluster.shape != model.score.shape or model.clusters < 1:
        raise ValueError(f"model has clusters {model.cluster.shape} and scores {model.score.shape}")
    if model.cluster.size and not 0 <= model.cluster.min() <= model.cluster.max() < model.clusters:
        raise ValueError(f"model has clusters outside 0 to {model.clusters - 1}")
    if not np.isfinite(model.score).all():
        raise ValueError("model has scores that are no numbers")
