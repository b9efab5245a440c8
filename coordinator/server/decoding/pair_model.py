"""From noisy shares of items and of pairs to an item-item model: a covariance cleaned by its known noise, then EASE.

All functions are pure: they take counts and numbers of devices, or estimates, and know nothing of queries and devices.
Source of EASE: Steck, *Embarrassingly shallow autoencoders for sparse data* (WWW 2019).
"""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.grid import on_grid
from coordinator.protocol.item_to_item import ItemToItem
from coordinator.server.decoding.frequencies import Rates, shares

LEAST_RIDGE, STEP, ABOVE = 0.03, 1.2, 0.015
"""EASE's ridge is the first, or as many times the lowest eigenvalue's depth below 0, and the third above it."""


def pair_matrix(values: Floats, items: int) -> Floats2:
    """Return the symmetric matrix of values of pairs, in the order of an upper triangle's rows, with a zero diagonal.

    Examples
    --------
    >>> pair_matrix(np.array([1.0, 2.0, 3.0]), 3).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]]
    """
    matrix = np.zeros((items, items))
    matrix[np.triu_indices(items, 1)] = values
    return matrix + matrix.T


def noise_of(rates: Rates, counts: Ints, devices: int) -> float:
    """Return the standard deviation of an estimated share, typical of values that were counted so often."""
    rate = min(max(float(counts.mean()) / max(devices, 1), rates.others), 1.0)
    return math.sqrt(rate * (1 - rate) / max(devices, 1)) / rates.contrast


def cleaned(pairs: Floats2, liked: Floats, noise: float) -> tuple[float, Floats2]:
    """Return how liked items go together beyond popularity, as far as it stands out of the noise.

    Pairs that users like independently would have shares ``alpha f_i f_j``; alpha is fitted by least squares. Of
    what is left, C, the eigenvalues beyond those of pure noise are kept: a symmetric matrix of M items, whose entries
    have standard deviation sigma, has eigenvalues up to ``2 sigma sqrt(M)`` (Wigner). They are shrunk to
    ``sign(l) sqrt(l^2 - 4 sigma^2 M)``.

    Parameters
    ----------
    pairs : ndarray of float64, shape (M, M)
        Estimated shares of devices that like both items; the diagonal does not matter.
    liked : ndarray of float64, shape (M,)
        Estimated shares f that like each.
    noise : float
        Standard deviation sigma of the shares of pairs.

    Returns
    -------
    alpha : float
    excess : ndarray of float64, shape (M, M)
        C, cleaned.
    """
    expected = np.outer(liked, liked)
    np.fill_diagonal(expected, 0.0)
    alpha = float((pairs * expected).sum() / max((expected**2).sum(), np.finfo(float).tiny))
    excess = pairs - alpha * expected
    np.fill_diagonal(excess, 0.0)
    values, vectors = np.linalg.eigh(excess)
    edge = 4 * noise**2 * liked.size
    shrunk = np.sign(values) * np.sqrt(np.maximum(values**2 - edge, 0.0))
    return alpha, (vectors * shrunk) @ vectors.T


def ease(second: Floats2) -> Floats2:
    """Return EASE's weights: row i has what a like of item i adds to the scores of the others.

    Parameters
    ----------
    second : ndarray of float64, shape (M, M)
        Symmetric: shares of devices that like both items, on the diagonal each. It need not be positive definite:
        the ridge follows from its lowest eigenvalue.
    """
    lowest = float(np.linalg.eigvalsh(second)[0])
    ridge = max(LEAST_RIDGE, -STEP * lowest + ABOVE)
    precision = np.linalg.inv(second + ridge * np.eye(len(second)))
    weights: Floats2 = -precision / np.diag(precision)
    np.fill_diagonal(weights, 0.0)
    return weights


def item_to_item(pool: Indices, liked: Floats, pairs: Floats2, noise: float) -> ItemToItem:
    """Return the item-item model of some items; its numbers lie on the public grid.

    Parameters
    ----------
    pool : ndarray of int32, shape (M,)
        The items, ascending.
    liked, pairs, noise
        As for `cleaned`.
    """
    alpha, excess = cleaned(pairs, liked, noise)
    second = alpha * np.outer(liked, liked) + excess
    np.fill_diagonal(second, liked)
    return ItemToItem(pool=pool, liked=on_grid(liked), weights=on_grid(np.ascontiguousarray(ease(second))))


def from_counts(pool: Indices, liked: tuple[Rates, Ints, int], pairs: tuple[Rates, Ints, int]) -> ItemToItem:
    """Return the item-item model that counts tell, whether devices answered or an aggregate was drawn.

    Parameters
    ----------
    pool : ndarray of int32, shape (M,)
        The items, ascending.
    liked, pairs : tuple
        How often reports speak for a value, how many spoke for each item or pair (the counts of dummies may follow),
        and how many devices reported.
    """
    many = pool.size
    rates, counts, devices = pairs
    counts = counts[: many * (many - 1) // 2]
    f = shares(liked[0], liked[1][:many], liked[2])
    return item_to_item(pool, f, pair_matrix(shares(rates, counts, devices), many), noise_of(rates, counts, devices))
