"""What sign sensing should achieve in one round: Gaussian estimates around known levels, cut where posteriors cross."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from coordinator.protocol.arrays import Floats
from coordinator.server.moments.blocks import BlockParameters


def _between(own: int, levels: Floats, shares: Floats, error: float) -> tuple[float, float]:
    """Return the stretch of estimates of which a cluster is the most probable one; empty where it is nowhere.

    The posteriors of two levels a > b cross at the middle, moved by ``error^2 ln(share_b / share_a) / (a - b)``.
    """
    low, high = -math.inf, math.inf
    for other in range(levels.size):
        gap = float(levels[own] - levels[other])
        if gap == 0:
            if (shares[other], own) > (shares[own], other):  # of equal ones the first
                return math.inf, -math.inf
            continue
        cut = float(levels[own] + levels[other]) / 2 + error**2 * math.log(shares[other] / shares[own]) / gap
        low, high = (max(low, cut), high) if gap > 0 else (low, min(high, cut))
    return low, high


def mistakes(parameters: BlockParameters, *, contrast: float, users: int) -> Floats:
    """Return the probability that an item of each cluster gets a wrong label, with levels and shares known.

    Parameters
    ----------
    parameters : BlockParameters
        The block model; its clusters have different means over user classes.
    contrast : float
        As `coordinator.server.moments.signs.sign_contrast` says.
    users : int
        Answers received.
    """
    levels = 2 * parameters.class_shares @ parameters.like - 1
    shares, error = parameters.cluster_sizes / parameters.items, 1 / (contrast * math.sqrt(users))
    wrong = np.ones(levels.size)
    for own, level in enumerate(levels.tolist()):
        low, high = _between(own, levels, shares, error)
        if low < high:
            wrong[own] = ndtr((level - high) / error) + ndtr((low - level) / error)
    return wrong


def sign_accuracy(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Predict the share of items right; see `mistakes`."""
    shares = parameters.cluster_sizes / parameters.items
    return float(1 - shares @ mistakes(parameters, contrast=contrast, users=users))


def sign_exact(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Predict the probability that all items are right; see `mistakes`."""
    wrong = mistakes(parameters, contrast=contrast, users=users)
    with np.errstate(divide="ignore"):
        return float(np.exp(parameters.cluster_sizes @ np.log1p(-wrong)))
