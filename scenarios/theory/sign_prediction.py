"""What sign sensing should achieve in one round: Gaussian estimates, cut where posteriors of known levels cross.

The server does not know the levels. Where that costs more than about one item in a hundred, which is so where many
labels are wrong or items are few, estimates are drawn and decoded as the server does it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from coordinator.protocol.arrays import Floats
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.posterior import believe
from coordinator.server.moments.blocks import BlockParameters
from scenarios.data.metrics import clustering_scores

FEW_WRONG, WRONG_AN_ITEM = 0.1, 1e-3
"""Up to this share of wrong labels, and this share for each item of the catalogue, levels count as known."""
FAILURE = 0.05
"""A round's default; labels hardly depend on it."""
DRAWN_ITEMS, LEAST_DRAWS, MOST_ITEMS = 4000, 8, 10_000
"""Items whose estimates are drawn in all, catalogues at least, and items of one; in larger ones levels are known."""


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
    """Return the probability that an item of each cluster gets a wrong label, with levels and shares known."""
    levels = 2 * parameters.class_shares @ parameters.like - 1
    shares, error = parameters.cluster_sizes / parameters.items, 1 / (contrast * math.sqrt(users))
    wrong = np.ones(levels.size)
    for own, level in enumerate(levels.tolist()):
        low, high = _between(own, levels, shares, error)
        if low < high:
            wrong[own] = ndtr((level - high) / error) + ndtr((low - level) / error)
    return wrong


def sign_accuracy(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Predict the share of items right; see `mistakes`, or `decoded_accuracy` where levels are not as good as known."""
    items = parameters.items
    wrong = float(parameters.cluster_sizes / items @ mistakes(parameters, contrast=contrast, users=users))
    if wrong <= min(FEW_WRONG, items * WRONG_AN_ITEM) or items > MOST_ITEMS:
        return 1 - wrong
    return decoded_accuracy(parameters, contrast=contrast, users=users)


def decoded_accuracy(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Return the mean share of items right where normal estimates are drawn, with fixed coins, and decoded."""
    sizes, error = parameters.cluster_sizes, 1 / (contrast * math.sqrt(users))
    truth = np.repeat(np.arange(sizes.size), sizes)
    means = (2 * parameters.class_shares @ parameters.like - 1)[truth]
    noise = np.random.default_rng(0).standard_normal((max(LEAST_DRAWS, DRAWN_ITEMS // truth.size), truth.size))
    information = np.full(truth.size, error**-2)
    posteriors = [
        believe(Estimates(weighted=value * information, information=information), clusters=sizes.size, failure=FAILURE)
        for value in means + error * noise
    ]
    return float(np.mean([clustering_scores(one.cluster, truth).accuracy for one in posteriors]))


def sign_exact(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Predict the probability that all items are right; see `mistakes`."""
    wrong = mistakes(parameters, contrast=contrast, users=users)
    with np.errstate(divide="ignore"):
        return float(np.exp(parameters.cluster_sizes @ np.log1p(-wrong)))
