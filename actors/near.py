"""Advice by an item-item model: a device adds up what its own likes say for the items that it has not rated."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats, Indices, Indices2, Ints
from coordinator.protocol.item_to_item import ItemToItem, scores
from coordinator.protocol.rows import Likes

NOTHING = -1
"""Fills a recommendation up where the catalogue has no further unrated item."""
BLOCK = 4096
"""Devices whose scores are held at once."""


def public_order(near: ItemToItem | None, popularity: Floats, ties: Ints | None = None) -> Indices:
    """Return all items as those come that a device's likes say nothing of: the model's by `liked`, others by score.

    Of equal ones those come first that do so in ``ties``, a permutation of the items; without it, by number.
    """
    first: Indices = np.arange(popularity.size, dtype=np.int32) if ties is None else ties.astype(np.int32)
    items = first[np.argsort(-popularity[first], kind="stable")]
    if near is None:
        return items
    liked = np.full(popularity.size, -np.inf)
    liked[near.pool] = near.liked
    pool = first[np.isin(first, near.pool)]
    return np.concatenate([pool[np.argsort(-liked[pool], kind="stable")], items[~np.isin(items, near.pool)]])


def recommend_near(near: ItemToItem, popularity: Floats, rated: Likes, *, k: int) -> Indices2:
    """Return every device's own top ``k`` of the items that it has not rated.

    The model's items come first, by their scores; equal scores go by the estimated share of devices that like them, so
    that a device without likes among them gets what most devices like. All other items follow by popularity.

    Parameters
    ----------
    near : ItemToItem
        The public item-item model of M items.
    popularity : ndarray of float64, shape (N,)
        Public scores of all items.
    rated : Likes
        What each device rated, and whether it liked it.
    k : int
        Length of a recommendation.

    Returns
    -------
    ndarray of int32, shape (devices, k)
        Items, best first; -1 where no unrated item is left.
    """
    top = np.full((rated.users, k), NOTHING, np.int32)
    others = public_order(near, popularity)[near.pool.size :]
    for first, stop in rated.blocks(BLOCK):
        top[first:stop] = _block(near, others, rated.block(first, stop), k)
    return top


def _block(near: ItemToItem, others: Indices, rated: Likes, k: int) -> Indices2:
    likes, seen = np.zeros((2, rated.users, near.pool.size), np.bool_)
    place = np.full(rated.count, -1)
    place[near.pool] = np.arange(near.pool.size)
    inside = place[rated.items] >= 0
    owner, item = rated.owners[inside], place[rated.items[inside]]
    seen[owner, item], likes[owner, item] = True, rated.values[inside]
    order = np.argsort(-near.liked, kind="stable")
    told = np.where(seen, -np.inf, scores(near, likes))[:, order]
    ranked = near.pool[order][np.argsort(-told, axis=1, kind="stable")]
    top = np.full((rated.users, k), NOTHING, np.int32)
    for device in range(rated.users):
        found = ranked[device, : near.pool.size - np.count_nonzero(seen[device])][:k]
        if found.size < k:
            own = rated.items[rated.starts[device] : rated.starts[device + 1]]
            wanted = others[: k - found.size + own.size]
            found = np.concatenate([found, wanted[~np.isin(wanted, own)]])[:k]
        top[device, : found.size] = found
    return top
