"""Exact moments of Pairwise-Preference under the block model: how often devices agree about a pair of items."""

from __future__ import annotations

import math

import numpy as np

from coordinator.moments import BlockParameters
from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError

AGREEMENTS = ("rated-equal", "equal", "positive")
"""The three readings of the agreement bit (spec section 3)."""


def pair_agreement(parameters: BlockParameters, *, agreement: str, epsilon: float) -> Floats:
    """Return P(S = 1) of a device asked about two items, by their clusters.

    Parameters
    ----------
    parameters : BlockParameters
        The block model.
    agreement : {"rated-equal", "equal", "positive"}
        Both rated and rated alike; liked alike, where unrated counts as not liked; both liked.
    epsilon : float
        Privacy parameter [nats]; ``math.inf`` for none.

    Returns
    -------
    ndarray of float64, shape (L, L)
        Symmetric; the diagonal stands for two different items of one cluster.

    Raises
    ------
    InputError
        If the agreement is unknown.
    """
    if agreement not in AGREEMENTS:
        raise InputError(f"agreement is {agreement!r}; choose one of {', '.join(AGREEMENTS)}")
    w, items, shares, like = parameters.rated, parameters.items, parameters.class_shares, parameters.like
    one_rated = w / items
    both_rated = one_rated * (w - 1) / (items - 1)
    both_liked = np.einsum("k,kl,km->lm", shares, like, like)
    if agreement == "positive":
        private = both_rated * both_liked
    elif agreement == "rated-equal":
        private = both_rated * (both_liked + np.einsum("k,kl,km->lm", shares, 1 - like, 1 - like))
    else:
        liked = one_rated * (shares @ like)
        private = 1 - liked[:, None] - liked[None, :] + 2 * both_rated * both_liked
    contrast = 1.0 if math.isinf(epsilon) else math.tanh(epsilon / 2)
    released: Floats = 0.5 + contrast * (private - 0.5)
    return released
