"""Advice beside errors: whether private devices find what they like among items that they have not rated."""

from __future__ import annotations

from typing import Any

import numpy as np

from actors.ranking import top_items
from coordinator.protocol.arrays import Bools, Indices2, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.rows import Rows
from scenarios.data.metrics import ranking_scores

TOP = 10
MOST_DEVICES = 2000
"""Devices that are advised at most."""


def advice_scores(features: ItemFeatures, popularity: Ints, train: Rows, test: Rows) -> dict[str, Any]:
    """Score devices' own rankings of unseen items on their held-out likes, against popularity.

    Parameters
    ----------
    features : ItemFeatures
        The final model.
    popularity : ndarray of int64, shape (m,)
        Public ratings of every item.
    train, test : Rows
        The devices' ratings, and their held-out ones: likes are those above a device's own mean.

    Returns
    -------
    dict
        ``hit_rate``, ``ndcg``, ``popularity_hit_rate``, ``popularity_ndcg`` at 10 with standard errors, and the
        number of devices with a held-out like, ``evaluated``; empty where there is none.
    """
    train, test = train.block(0, min(train.users, MOST_DEVICES)), test.block(0, min(test.users, MOST_DEVICES))
    likes = test.where(liked(train, test))
    model = top_items(features, train, TOP)
    scores: dict[str, Any] = {}
    for name, ranked in (("", model), ("popularity_", _popular(popularity, train))):
        try:
            found = ranking_scores(ranked, likes)
        except InputError:
            return {}
        scores |= {
            f"{name}hit_rate": found.hit_rate,
            f"{name}hit_rate_error": found.hit_rate_error,
            f"{name}ndcg": found.ndcg,
            f"{name}ndcg_error": found.ndcg_error,
            "evaluated": found.evaluated,
        }
    return scores


def liked(train: Rows, test: Rows) -> Bools:
    """Return which test ratings are above the mean of their own device's training ratings."""
    sums = np.bincount(train.owners, weights=train.values, minlength=train.users)
    means = sums / np.maximum(train.degrees, 1)
    return np.greater(test.values, np.repeat(means, test.degrees))


def _popular(popularity: Ints, train: Rows) -> Indices2:
    """Return every device's most rated unseen items."""
    order = np.argsort(-popularity, kind="stable").astype(np.int32)
    found = np.full((train.users, TOP), -1, np.int32)
    for device in range(train.users):
        rated = train.items[train.starts[device] : train.starts[device + 1]]
        best = order[: TOP + rated.size]
        best = best[~np.isin(best, rated)][:TOP]
        found[device, : best.size] = best
    return found
