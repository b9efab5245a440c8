"""Advice: a device ranks items that it has not rated by public models and its own ratings; nobody sees it."""

import numpy as np

from coordinator.protocol.arrays import Bools, Bools2, Floats, Floats2, Indices, Indices2, Ints, read_only
from coordinator.protocol.compiled import compiled
from coordinator.protocol.features import ItemFeatures, tastes
from coordinator.protocol.item_models import (
    LEAST_SCORE,
    ItemToItem,
    PublicFeatures,
    damped,
    floor_of,
    likely,
    scores,
    typical_error,
)
from coordinator.protocol.messages import Model
from coordinator.protocol.rating_table import Likes, Rows

NOTHING = -1  # Fills a recommendation up where the catalogue has no further unrated item
BLOCK = 4096  # Devices whose scores are in memory together


def public_order(near: ItemToItem | None, popularity: Floats, ties: Ints | None = None) -> Indices:
    """Return all items in the order for devices without likes: the model's by `liked`, then others by score."""
    # Equal ones come as in ``ties``, a permutation of the items, or by number if there is none.
    first: Indices = np.arange(popularity.size, dtype=np.int32) if ties is None else ties.astype(np.int32)
    items = first[np.argsort(-popularity[first], kind="stable")]
    if near is None:
        return items
    liked = np.full(popularity.size, -np.inf)
    liked[near.pool] = near.liked
    pool = first[np.isin(first, near.pool)]
    return np.concatenate([pool[np.argsort(-liked[pool], kind="stable")], items[~np.isin(items, near.pool)]])


def recommend_near(near: ItemToItem, popularity: Floats, rated: Likes, *, k: int) -> Indices2:
    """Return every device's own top ``k`` of the items that it has not rated."""
    # The model's items come first, by their scores; equal scores go by the estimated share of devices that like them,
    # so that a device without likes among them gets what most devices like. All other items follow by popularity.
    # Shapes: ``popularity`` (N,).
    top = np.full((rated.users, k), NOTHING, np.int32)
    fallback = public_order(near, popularity)[near.pool.size :]
    for first, stop in rated.blocks(BLOCK):
        top[first:stop] = _block(near, fallback, rated.block(first, stop), k)
    return top


def _block(near: ItemToItem, fallback: Indices, rated: Likes, k: int) -> Indices2:
    likes, seen = np.zeros((2, rated.users, near.pool.size), np.bool_)
    columns = np.full(rated.count, -1)
    columns[near.pool] = np.arange(near.pool.size)
    inside = columns[rated.items] >= 0
    owner, item = rated.owners[inside], columns[rated.items[inside]]
    seen[owner, item], likes[owner, item] = True, rated.values[inside]
    order = np.argsort(-near.liked, kind="stable")
    values = np.where(seen, -np.inf, scores(near, likes))[:, order]
    ranked = near.pool[order][np.argsort(-values, axis=1, kind="stable")]
    top = np.full((rated.users, k), NOTHING, np.int32)
    for device in range(rated.users):
        best = ranked[device, : near.pool.size - np.count_nonzero(seen[device])][:k]
        if best.size < k:
            rated_items = rated.items[rated.starts[device] : rated.starts[device + 1]]
            popular = fallback[: k - best.size + rated_items.size]
            best = np.concatenate([best, popular[~np.isin(popular, rated_items)]])[:k]
        top[device, : best.size] = best
    return top


SCORES = 1 << 22  # Scores that are in memory together


def recommend_featured(model: Model, features: PublicFeatures | None, rated: Likes, *, k: int) -> Indices2:
    """Return every device's own top ``k`` of the items that it has not rated, by scores and public features, if any."""
    # Scores are popularity, of which little is left where it is no more than noise, those of the model's item-item
    # part, or by its directions of taste; features multiply them. Equal scores are ordered by `public_order`.
    order = public_order(model.near, model.score)
    top = np.full((rated.users, k), NOTHING, np.int32)
    for first, stop in rated.blocks(max(1, SCORES // rated.count)):
        block = rated.block(first, stop)
        seen, likes = np.zeros((2, block.users, block.count), np.bool_)
        seen[block.owners, block.items], likes[block.owners, block.items] = True, block.values
        log_scores = np.log(_scores(model, block, likes))
        if features is not None:
            liked: Floats2 = likes.astype(np.float64) @ features.has
            log_scores += features.gains(liked, likes.sum(axis=1).astype(np.float64), model.score)
        log_scores[seen] = -np.inf
        best = order[np.argsort(-log_scores[:, order], axis=1, kind="stable")[:, :k]]
        left = np.take_along_axis(log_scores, best, axis=1) > -np.inf
        top[first:stop, : best.shape[1]] = np.where(left, best, NOTHING)
    return top


def _scores(model: Model, rated: Likes, likes: Bools2) -> Floats2:
    """Return the scores of all items on each device, all above 0."""
    if model.tastes is not None:
        return likely(model.tastes, rated)
    noise = typical_error(model.error)
    if model.near is None:
        return np.broadcast_to(np.maximum(damped(model.score, noise), floor_of(noise)), likes.shape)
    values = np.full(likes.shape, LEAST_SCORE)
    values[:, model.near.pool] = np.maximum(scores(model.near, likes[:, model.near.pool]), LEAST_SCORE)
    return values


@compiled
def _weigh(cluster: Indices, rated: Indices, likes: Bools, first: int, stop: int, share: Floats, seen: Floats) -> None:
    """Write a device's share of likes among its ratings of each cluster, smoothed by one like and one dislike."""
    share[:] = 1
    seen[:] = 2
    for k in range(first, stop):
        share[cluster[rated[k]]] += likes[k]
        seen[cluster[rated[k]]] += 1
    for c in range(share.size):
        share[c] /= seen[c]


@compiled
def _fill(
    cluster: Indices, starts: Ints, rated: Indices, likes: Bools, ranked: Indices, ends: Ints, top: Indices2
) -> None:
    """Write every device's top items; clusters are picked best first, and only as many as are needed."""
    marks, clusters = np.empty(cluster.size, np.int64), ends.size - 1
    share, seen = np.empty(clusters), np.empty(clusters)
    marks[:] = -1
    for device in range(top.shape[0]):
        for k in range(starts[device], starts[device + 1]):
            marks[rated[k]] = device
        _weigh(cluster, rated, likes, starts[device], starts[device + 1], share, seen)
        count, left = 0, clusters
        while left and count < top.shape[1]:
            best = np.argmax(share)  # ties go to the first
            share[best] = -1
            left -= 1
            for rank in range(ends[best], ends[best + 1]):
                if count == top.shape[1]:
                    break
                if marks[ranked[rank]] != device:
                    top[device, count] = ranked[rank]
                    count += 1


def recommend(model: Model, rated: Likes, *, k: int) -> Indices2:
    """Return every device's own top ``k`` of the items that it has not rated."""
    # Clusters are ordered by the device's own share of likes among its ratings of them. One like and one dislike are
    # added to each, so that an unknown cluster stands at 1/2; ties go to the cluster with the lower number. Within a
    # cluster items are ordered by public score, so that a model of one cluster is a list by score. Models of items
    # that go together, and of directions of taste, are followed by `recommend_near` and `recommend_featured` instead.
    if model.near is not None:
        return recommend_near(model.near, model.score, rated, k=k)
    if model.tastes is not None:
        return recommend_featured(model, None, rated, k=k)
    ranked = np.lexsort((-model.score, model.cluster)).astype(np.int32)
    ends = np.searchsorted(model.cluster[ranked], np.arange(model.clusters + 1))
    top = np.full((rated.users, k), NOTHING, np.int32)
    _fill(read_only(model.cluster), rated.starts, rated.items, rated.values, ranked, ends, top)
    return top


def top_items(features: ItemFeatures, rows: Rows, k: int) -> Indices2:
    """Return every device's own ``k`` unseen items of the highest prediction ``mu + V u``, best first."""
    top = np.full((rows.users, k), -1, np.int32)
    user_tastes = tastes(features, rows.starts, rows.items, rows.values - features.mean[rows.items])
    for device in range(rows.users):
        scores = features.mean + features.vectors @ user_tastes[device]
        scores[rows.items[rows.starts[device] : rows.starts[device + 1]]] = -np.inf
        bar = np.partition(scores, -k)[-k] if scores.size > k else -np.inf  # a sort of all would take most of the time
        near = np.flatnonzero((scores >= bar) & np.isfinite(scores))
        best = near[np.argsort(-scores[near], kind="stable")[:k]]
        top[device, : best.size] = best
    return top
