"""Ranking on devices in the two-tier model: a device finds its k best unseen items by its own ratings."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Indices2
from coordinator.protocol.features import ItemFeatures, tastes
from coordinator.protocol.rows import Rows


def top_items(features: ItemFeatures, rows: Rows, k: int) -> Indices2:
    """Return every device's own ``k`` unseen items of the highest prediction ``mu + V u``, best first."""
    top = np.full((rows.users, k), -1, np.int32)
    own = tastes(features, rows.starts, rows.items, rows.values - features.mean[rows.items])
    for device in range(rows.users):
        scores = features.mean + features.vectors @ own[device]
        scores[rows.items[rows.starts[device] : rows.starts[device + 1]]] = -np.inf
        best = np.argsort(-scores, kind="stable")[:k]
        best = best[np.isfinite(scores[best])]
        top[device, : best.size] = best
    return top
