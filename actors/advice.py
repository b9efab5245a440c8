"""Advice: a device ranks unrated items by the public model and its own ratings; nobody else sees the ranking."""

from __future__ import annotations

import numpy as np

from actors.featured import recommend_featured
from actors.near import NOTHING, recommend_near
from coordinator.protocol.arrays import Bools, Floats, Indices, Indices2, Ints
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import Model
from coordinator.protocol.rows import Likes


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
    """Write every device's top items; clusters are picked best first, and only as many as are needed."""
    marks, share, seen = np.empty(cluster.size, np.int64), np.empty(clusters), np.empty(clusters)
    marks[:] = -1
    for device in range(top.shape[0]):
        for k in range(starts[device], starts[device + 1]):
            marks[rated[k]] = device
        _weigh(cluster, rated, likes, starts[device], starts[device + 1], share, seen)
        found, left = 0, clusters
        while left and found < top.shape[1]:
            best = np.argmax(share)  # ties go to the first
            share[best] = -1
            left -= 1
            for place in range(ends[best], ends[best + 1]):
                if found == top.shape[1]:
                    break
                if marks[ranked[place]] != device:
                    top[device, found] = ranked[place]
                    found += 1


def recommend(model: Model, rated: Likes, *, k: int) -> Indices2:
    """Return every device's own top ``k`` of the items that it has not rated.

    Clusters are ordered by the device's own share of likes among its ratings of them. One like and one dislike are
    added to each, so that an unknown cluster stands at 1/2; ties go to the cluster with the lower number. Within a
    cluster items are ordered by public score, so that a model of one cluster is a list by score. A model that tells
    which items go together is followed instead, see `actors.near.recommend_near`; one that tells along which directions
    tastes differ by `actors.featured.recommend_featured`.

    Parameters
    ----------
    model : Model
        The public item model.
    rated : Likes
        What each device rated, and whether it liked it.
    k : int
        Length of a recommendation.

    Returns
    -------
    ndarray of int32, shape (devices, k)
        Items, best first; -1 where no unrated item is left.
    """
    if model.near is not None:
        return recommend_near(model.near, model.score, rated, k=k)
    if model.tastes is not None:
        return recommend_featured(model, None, rated, k=k)
    ranked = np.lexsort((-model.score, model.cluster)).astype(np.int32)
    ends = np.searchsorted(model.cluster[ranked], np.arange(model.clusters + 1))
    top = np.full((rated.users, k), NOTHING, np.int32)
    _fill(model.cluster, model.clusters, rated.starts, rated.items, rated.values, ranked, ends, top)
    return top
