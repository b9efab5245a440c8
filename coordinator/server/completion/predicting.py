"""Errors of features: every device completes its own ratings and predicts those that were held out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.completing import predictions_of
from coordinator.protocol.features import ItemFeatures, tastes
from coordinator.protocol.rows import Rows

BLOCK = 2048
"""Users that are scored at once; it does not affect the result."""


def squared_errors(features: ItemFeatures, seen: Rows, asked: Rows, workers: int = 1) -> Floats:
    """Return the squared error of every asked rating, predicted from a user's seen ones and clipped to the range.

    Parameters
    ----------
    features : ItemFeatures
    seen, asked : Rows
        The same users.
    workers : int
        Threads.

    Returns
    -------
    ndarray of float64, shape (asked ratings,)
    """

    def score(bounds: tuple[int, int]) -> Floats:
        known, wanted = seen.block(*bounds), asked.block(*bounds)
        centred = known.values - features.mean[known.items]
        found = tastes(features, known.starts, known.items, centred)
        told = predictions_of(
            features.vectors, features.mean, found, wanted.starts, wanted.items, features.lowest, features.highest
        )
        return np.square(told - wanted.values)

    blocks = list(seen.blocks(BLOCK))
    if workers == 1 or len(blocks) == 1:
        return np.concatenate([score(bounds) for bounds in blocks])
    with ThreadPoolExecutor(workers) as threads:
        return np.concatenate(list(threads.map(score, blocks)))


def rmse(errors: Floats) -> float:
    """Return the root of the mean of squared errors."""
    return float(np.sqrt(errors.mean()))


def baseline_errors(features: ItemFeatures, asked: Rows) -> Floats:
    """Return the squared errors of the items' means alone."""
    told = np.clip(features.mean[asked.items], features.lowest, features.highest)
    return np.square(told - asked.values)
