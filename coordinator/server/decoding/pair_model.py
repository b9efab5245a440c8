"""From noisy shares of items and pairs to an item-item model, and from signs of pairs to directions of taste."""

import math
from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.item_models import ItemToItem, Tastes
from coordinator.protocol.rounding import on_grid
from coordinator.server.decoding.estimates import shares
from coordinator.server.statistics.counts import Rates

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


def gram_matrix(values: Ints, items: int) -> Floats2:
    """Return the symmetric matrix of values of pairs and of items, in the order of an upper triangle's rows.

    Examples
    --------
    >>> gram_matrix(np.array([1, 2, 3]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    matrix = np.zeros((items, items))
    matrix[np.triu_indices(items)] = values
    return matrix + np.triu(matrix, 1).T


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

    Shapes: ``pairs`` (M, M); ``liked`` (M,); ``excess`` (M, M).
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
    """Return EASE's weights, shape (M, M): row i has what a like of item i adds to the scores of the others."""
    lowest = float(np.linalg.eigvalsh(second)[0])
    ridge = max(LEAST_RIDGE, -STEP * lowest + ABOVE)
    precision = np.linalg.inv(second + ridge * np.eye(len(second)))
    weights: Floats2 = -precision / np.diag(precision)
    np.fill_diagonal(weights, 0.0)
    return weights


def item_to_item(pool: Indices, liked: Floats, pairs: Floats2, noise: float) -> ItemToItem:
    """Return the item-item model of a pool, shape (M,); its numbers lie on the public grid."""
    alpha, excess = cleaned(pairs, liked, noise)
    second = alpha * np.outer(liked, liked) + excess
    np.fill_diagonal(second, liked)
    return ItemToItem(pool=pool, liked=on_grid(liked), weights=on_grid(np.ascontiguousarray(ease(second))))


def from_counts(pool: Indices, liked: tuple[Rates, Ints, int], pairs: tuple[Rates, Ints, int]) -> ItemToItem:
    """Return the item-item model of a pool, shape (M,), by its counts, from devices or drawn as an aggregate."""
    pool_items = pool.size
    rates, counts, devices = pairs
    counts = counts[: pool_items * (pool_items - 1) // 2]
    f = shares(liked[0], liked[1][:pool_items], liked[2])
    return item_to_item(
        pool, f, pair_matrix(shares(rates, counts, devices), pool_items), noise_of(rates, counts, devices)
    )


def from_sums(pool: Indices, gram: Floats2, users: int, deviation: float) -> ItemToItem:
    """Return the item-item model of a pool by noisy numbers of people who like both items of a pair, shape (M, M).

    The diagonal holds those who like an item; noise has a standard deviation.
    """
    return item_to_item(pool, np.diag(gram) / users, gram / users, deviation / users)


MOST = 8  # Directions that are used at most
RIDGE = 2.0
"""Variance of a rating by itself. It is at most 1; twice as much made the best lists on Jester's first split."""
FEWEST, EDGE = 1e-5, 0.01  # A share is at least the first; shares and mean ratings keep the second from 1


class Subspace(NamedTuple):
    """What stands out of the noise."""

    vectors: Floats2  # shape (M, k); Orthonormal eigenvectors, the strongest first
    # shape (k,); Eigenvalues without noise, and how far each vector is right: expected squared cosines
    strengths: Floats
    overlaps: Floats

    def directions(self, contrast: float) -> Floats2:
        """Return V, shape (M, k), where ``V V^T contrast`` is what is expected of the signal after the noise."""
        # without contrast answers say nothing of tastes
        scale = self.strengths * self.overlaps / contrast if contrast else np.zeros(self.strengths.size)
        return self.vectors * np.sqrt(scale)


def subspace(matrix: Floats2, noise: float) -> Subspace:
    """Return the eigenvectors of a symmetric matrix that stand out of its noise, at most `MOST`.

    Shapes: ``matrix`` (M, M).
    """
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1][:MOST], vectors[:, ::-1][:, :MOST]
    edge = 2 * noise * math.sqrt(len(matrix))
    signal = values > max(edge, 1e-12)
    seen = values[signal]
    strengths = (seen + np.sqrt(seen**2 - edge**2)) / 2
    return Subspace(vectors[:, signal], strengths, 1 - (edge / 2 / strengths) ** 2)


def agreed(counts: Ints, answered: int, items: int) -> tuple[Floats2, float]:
    """Return the matrix of mean agreements with signs of pairs, from -1 to 1, and its noise."""
    return pair_matrix(2 * counts / answered - 1, items), 1 / math.sqrt(answered)


def tastes_of_pairs(pool: Indices, subspace: Subspace, contrast: float, *, rated: Floats, liked: Floats) -> Tastes:
    """Return directions of taste among all items, for devices; their numbers lie on the public grid.

    Shapes: ``pool`` (M,); ``rated``, ``liked`` (N,).
    """
    vectors = np.zeros((rated.size, subspace.strengths.size))
    vectors[pool] = subspace.directions(contrast)
    return Tastes(
        rated=on_grid(np.clip(rated, FEWEST, 1 - EDGE)),
        liked=on_grid(np.clip(liked, EDGE - 1, 1 - EDGE)),
        vectors=on_grid(np.ascontiguousarray(vectors)),
        ridge=RIDGE,
    )
