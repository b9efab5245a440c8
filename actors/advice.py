"""Advice: a device ranks unrated items by the public model and its own ratings; nobody else sees the ranking."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Indices, Indices2, Ints
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import Model

NOTHING = -1
"""Stands in a recommendation where the catalogue has no further unrated item."""


@compiled
def _weigh(cluster: Indices, rated: Indices, likes: Bools, first: int, stop: int, share: Floats, seen: Floats) -> None:
    """Write a device's share of likes among its ratings of each cluster, smoothed by one like and one dislike."""
    share[:] = 1
    seen[:] = 2
    for k in range(first, stop):
        share[cluster[rated[k]]] += likes[k]
        seen[cluster[rated[k]]] += 1
    for place in range(share.size):
        share[place] /= seen[place]


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
    """Write every device's top; clusters are picked best first, only as many as it takes."""
    marks, share, seen = np.empty(cluster.size, np.int64), np.empty(clusters), np.empty(clusters)
    marks[:] = -1
    for device in range(top.shape[0]):
        for k in range(starts[device], starts[device + 1]):
            marks[rated[k]] = device
        _weigh(cluster, rated, likes, starts[device], starts[device + 1], share, seen)
        found, left = 0, clusters
        while left and found < top.shape[1]:
            best = np.argmax(share)  # of those that are as good, the first
            share[best] = -1
            left -= 1
            for place in range(ends[best], ends[best + 1]):
                if found == top.shape[1]:
                    break
                if marks[ranked[place]] != device:
                    top[device, found] = ranked[place]
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
    """
    ranked = np.lexsort((-model.score, model.cluster)).astype(np.int32)
    ends = np.searchsorted(model.cluster[ranked], np.arange(model.clusters + 1))
    top = np.full((starts.size - 1, k), NOTHING, np.int32)
    _fill(model.cluster, model.clusters, starts, rated, likes, ranked, ends, top)
    return top
