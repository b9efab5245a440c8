"""Lies in vectors that two servers add up: what an ideal proof lets pass, and what passes without any."""

import numpy as np

from actors.lying.lies import LiarsView
from coordinator.protocol.arrays import Words32


def proven(vectors: Words32, most: int) -> Words32:
    """Return vectors as an ideal proof lets them pass: zeros and ones, at most so many ones; others count nothing."""
    honest = (vectors <= 1).all(axis=1) & (vectors.sum(axis=1, dtype=np.int64) <= most)
    return np.where(honest[:, None], vectors, np.uint32(0))


def promoting(view: LiarsView, width: int, most: int) -> Words32:
    """Return liars' vectors, uint32, shape (n, width): as much for the wished items as the check of vectors lets pass.

    With an ideal proof a liar has at most ``most`` ones, on wished items in turn where there are more. Without one it
    adds to all of them what `Collusion.overflow` says: so much that one liar's item comes first, and so little that all
    liars' sum keeps its sign.
    """
    wished = np.flatnonzero(view.wishes > 0)
    vectors = np.zeros((view.liars.size, width), np.uint32)
    if not wished.size:
        return vectors
    if overflow := view.collusion.overflow:
        vectors[:, wished] = overflow
        return vectors
    each = min(most, wished.size)
    turns = (view.choices % np.uint64(wished.size)).astype(np.int64)[:, None] + np.arange(each)
    np.put_along_axis(vectors, wished[turns % wished.size], np.uint32(1), axis=1)
    return proven(vectors, most)
