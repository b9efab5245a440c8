"""What sign sensing should achieve in one round: Gaussian estimates around known levels, cut where posteriors cross."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from coordinator.moments import BlockParameters
from coordinator.protocol.arrays import Floats


def cuts(levels: Floats, shares: Floats, error: float) -> Floats:
    """Return where the most probable cluster changes, float64, shape (L - 1,): levels descend, and so do the cuts.

    Between two levels a and b the posteriors cross at the middle, moved by ``error^2 ln(share_b / share_a) / (a - b)``
    towards the rarer one. A cluster that is nowhere the most probable one takes no part.
    """
    gaps = levels[:-1] - levels[1:]
    moved = error**2 * np.log(shares[1:] / shares[:-1]) / gaps
    found: Floats = np.minimum.accumulate((levels[:-1] + levels[1:]) / 2 + moved)
    return found


def mistakes(parameters: BlockParameters, *, contrast: float, users: int) -> Floats:
    """Return the probability that an item of each cluster gets a wrong label, with levels and shares known.

    Parameters
    ----------
    parameters : BlockParameters
        The block model; its clusters have different means over user classes.
    contrast : float
        As `coordinator.sign_moments.sign_contrast` says.
    users : int
        Answers received.
    """
    levels = 2 * parameters.class_shares @ parameters.like - 1
    order = np.argsort(-levels, kind="stable")
    sizes = parameters.cluster_sizes[order]
    error = 1 / (contrast * math.sqrt(users))
    marks = np.concatenate([[np.inf], cuts(levels[order], sizes / sizes.sum(), error), [-np.inf]])
    above, below = (marks[:-1] - levels[order]) / error, (marks[1:] - levels[order]) / error
    wrong = np.empty(sizes.size)
    wrong[order] = ndtr(-above) + ndtr(below)
    return np.minimum(wrong, 1.0)


def sign_accuracy(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Predict the share of items right; see `mistakes`."""
    shares = parameters.cluster_sizes / parameters.items
    return float(1 - shares @ mistakes(parameters, contrast=contrast, users=users))


def sign_exact(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Predict the probability that all items are right; see `mistakes`."""
    wrong = mistakes(parameters, contrast=contrast, users=users)
    with np.errstate(divide="ignore"):
        return float(np.exp(parameters.cluster_sizes @ np.log1p(-wrong)))
