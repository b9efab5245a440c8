"""Attacks that are learned: from releases to which of two inputs the victim holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Ints
from scenarios.audit.bounds import FIT

MOST_LEARNED = 20_000
"""Plays that are learned from."""
WIDE = 64
"""A tree is not fitted to more columns than this."""


def learned(features: Floats, secret: Bools, parts: Ints) -> dict[str, Floats]:
    """Return what a linear model and a tree tell of every play, as log-odds of input a; they saw those of `bounds.FIT`.

    Parameters
    ----------
    features : ndarray of float32, shape (plays, columns)
        What was seen of each play.
    secret : ndarray of bool
        Whether the victim holds a.
    parts : ndarray
        What each play is for.
    """
    some = np.flatnonzero(parts == FIT)[:MOST_LEARNED]
    if np.unique(secret[some]).size < 2:
        return {}
    mean, spread = features[some].mean(axis=0), features[some].std(axis=0)
    told = (features - mean) / np.where(spread > 0, spread, 1)
    models = {"learned line": _line()} | ({"learned tree": _tree()} if features.shape[1] <= WIDE else {})
    fitted = {name: model.fit(told[some], secret[some]) for name, model in models.items()}
    return {name: np.asarray(model.predict_proba(told)[:, 1], np.float64) for name, model in fitted.items()}


def _line() -> Any:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 (only an attack waits for it)

    return LogisticRegression(C=0.01, max_iter=20)


def _tree() -> Any:
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415 (as above)

    return DecisionTreeClassifier(max_depth=6, min_samples_leaf=50, random_state=0)
