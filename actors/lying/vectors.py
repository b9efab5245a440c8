"""Lies in vectors that two servers add up: what an ideal proof lets pass, and what passes without any."""

import numpy as np

from actors.lying.lies import LiarsView
from coordinator.protocol.arrays import Words32
from coordinator.protocol.mechanisms.totals import SharedVector


def proven(vectors: Words32, most: int) -> Words32:
    """Return vectors as an ideal proof lets them pass: zeros and ones, at most so many ones; others count nothing."""
    honest = (vectors <= 1).all(axis=1) & (vectors.sum(axis=1, dtype=np.int64) <= most)
    return np.where(honest[:, None], vectors, np.uint32(0))


def promoting(view: LiarsView, half: SharedVector) -> Words32:
    """Return liars' vectors, uint32, shape (n, width): as much for the wished items as the check of vectors lets pass.

    With an ideal proof a liar has at most `SharedVector.ones` ones, on words about wished items, in turn where there
    are more. Without one it adds to all of them what `Collusion.overflow` says: so much that one liar's item comes
    first, and so little that all liars' sum keeps its sign.
    """
    width, most = half.width(view.query), half.ones(view.query)
    wished = np.flatnonzero(half.words_about(view.query, view.wishes > 0))
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
