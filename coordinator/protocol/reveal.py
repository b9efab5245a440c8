"""Who reveals, and how much of it, by public coins: the toy of full reveal and the trusted curator's bounded rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Bools, Ints, Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw

_RANKS = np.uint64(1 << 32)


@compiled
def _below(streams: Words, threshold: np.uint64) -> Bools:
    chosen = np.empty(streams.size, np.bool_)
    for k in range(streams.size):
        chosen[k] = draw(streams[k], uint64(0)) >> uint64(1) < threshold
    return chosen


def reveals(streams: Words, share: float) -> Bools:
    """Return which devices tell everything, each with probability ``share`` by its public coin (lane 0)."""
    return _below(streams, np.uint64(round(Fraction(share) * (1 << 63))))


@compiled
def kept(streams: Words, starts: Ints, most: int) -> Bools:
    """Return which entries of each device's list are kept: all of a short list, a uniform ``most`` of a longer one.

    Parameters
    ----------
    streams : ndarray of uint64, shape (count,)
        Public streams of the devices, `streams.device_streams`.
    starts : ndarray of int64, shape (count + 1,)
        Where each device's list starts, CSR.
    most : int
        Entries kept at most.

    Returns
    -------
    ndarray of bool, shape (starts[-1],)
    """
    keep = np.ones(starts[-1], np.bool_)
    for k in range(streams.size):
        size = starts[k + 1] - starts[k]
        if size > most:
            ranks = np.empty(size, np.uint64)
            for j in range(size):
                ranks[j] = draw(streams[k], _RANKS + uint64(j))
            keep[starts[k] : starts[k + 1]] = False
            keep[starts[k] + np.argsort(ranks)[:most]] = True
    return keep
