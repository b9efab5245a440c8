"""On-device ranking with the two-tier model: own taste from own ratings, the k unseen items predicted highest."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats, Indices, Indices2, Ints
from coordinator.protocol.features import ItemFeatures, tastes


def top_items(features: ItemFeatures, starts: Ints, items: Indices, values: Floats, k: int) -> Indices2:
    """Return every device's own ``k`` unseen items of the highest prediction ``mu + V u``, best first.

    Parameters
    ----------
    features : ItemFeatures
        The public model.
    starts, items, values
        Devices' ratings in compressed sparse rows.
    k : int
        Length of a ranking.

    Returns
    -------
    ndarray of int32, shape (devices, k)
        Equal predictions go by item number; -1 where a device has rated all others.
    """
    found = np.full((starts.size - 1, k), -1, np.int32)
    own = tastes(features, starts, items, values - features.mean[items])
    for device in range(starts.size - 1):
        scores = features.mean + features.vectors @ own[device]
        scores[items[starts[device] : starts[device + 1]]] = -np.inf
        best = np.argsort(-scores, kind="stable")[:k]
        best = best[np.isfinite(scores[best])]
        found[device, : best.size] = best
    return found
