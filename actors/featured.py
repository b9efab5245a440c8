"""Advice with public features: a device weighs scores by how its own likes are spread over features of items."""

from __future__ import annotations

import numpy as np

from actors.near import NOTHING, public_order
from coordinator.protocol.arrays import Bools2, Floats2, Indices2
from coordinator.protocol.item_to_item import scores
from coordinator.protocol.messages import Model
from coordinator.protocol.public_features import LEAST, PublicFeatures, damped, floor_of, typical_error
from coordinator.protocol.rows import Likes
from coordinator.protocol.tastes import likely

SCORES = 1 << 22
"""Scores that are held at once."""


def recommend_featured(model: Model, features: PublicFeatures | None, rated: Likes, *, k: int) -> Indices2:
    """Return every device's own top ``k`` of the items that it has not rated, by scores and public features, if any.

    Scores are popularity, of which little is left where it is no more than noise, those of the model's item-item
    part, or by its directions of taste; features multiply them. Equal ones go as `actors.near.public_order` says.

    Parameters
    ----------
    model : Model
        The public item model, whose scores are popularity.
    features : PublicFeatures or None
        Of the same items.
    rated : Likes
        What each device rated, and whether it liked it.
    k : int
        Length of a recommendation.

    Returns
    -------
    ndarray of int32, shape (devices, k)
        Items, best first; -1 where no unrated item is left.
    """
    order = public_order(model.near, model.score)
    top = np.full((rated.users, k), NOTHING, np.int32)
    for first, stop in rated.blocks(max(1, SCORES // rated.count)):
        block = rated.block(first, stop)
        seen, likes = np.zeros((2, block.users, block.count), np.bool_)
        seen[block.owners, block.items], likes[block.owners, block.items] = True, block.values
        told = np.log(_scores(model, block, likes))
        if features is not None:
            told += _gains(model, features, likes)
        told[seen] = -np.inf
        best = order[np.argsort(-told[:, order], axis=1, kind="stable")[:, :k]]
        left = np.take_along_axis(told, best, axis=1) > -np.inf
        top[first:stop, : best.shape[1]] = np.where(left, best, NOTHING)
    return top


def _scores(model: Model, rated: Likes, likes: Bools2) -> Floats2:
    """Return the scores of all items on each device, all above 0."""
    if model.tastes is not None:
        return likely(model.tastes, rated)
    noise = typical_error(model.error)
    if model.near is None:
        return np.broadcast_to(np.maximum(damped(model.score, noise), floor_of(noise)), likes.shape)
    found = np.full(likes.shape, LEAST)
    found[:, model.near.pool] = np.maximum(scores(model.near, likes[:, model.near.pool]), LEAST)
    return found


def _gains(model: Model, features: PublicFeatures, likes: Bools2) -> Floats2:
    liked: Floats2 = likes.astype(np.float64) @ features.has
    return features.gains(liked, likes.sum(axis=1).astype(np.float64), model.score)
