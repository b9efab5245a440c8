"""From noisy shares of items and pairs to an item-item model, and from signs of pairs to directions of taste."""

import math
from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.coins import on_grid
from coordinator.protocol.decoding.estimates import shares
from coordinator.protocol.item_models import ItemToItem, Tastes
from coordinator.protocol.statistics.counts import Rates

LEAST_RIDGE, STEP, ABOVE = 0.03, 1.2, 0.015
"""EASE's ridge is the first, or as many times the lowest eigenvalue's depth below 0, and the third above it."""


def pair_matrix(values: Floats, items: int) -> Floats2:
    """Return the symmetric matrix of values of pairs, in the order of an upper triangle's rows, with a zero diagonal.

    >>> pair_matrix(np.array([1.0, 2.0, 3.0]), 3).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]]
    """
    matrix = np.zeros((items, items))
    matrix[np.triu_indices(items, 1)] = values
    return matrix + matrix.T


def gram_matrix(values: Ints, items: int) -> Floats2:
    """Return the symmetric matrix of values of pairs and of items, in the order of an upper triangle's rows.

    >>> gram_matrix(np.array([1, 2, 3]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    matrix = np.zeros((items, items))
    matrix[np.triu_indices(items)] = values
    return matrix + np.triu(matrix, 1).T


def noise_of(rates: Rates, counts: Ints, devices: int, items: int) -> Floats:
    """Return items' noise s, shape (M,): the estimated share of a pair has the variance ``s_i s_j``, of one rank."""
    # Reports name pairs of popular items more often, and so their shares are less certain. What a pair's variance is
    # follows from its count; their sums for an item are certain enough, and are at least those of pairs nobody has, or
    # of one report.
    rate = np.minimum(counts / max(devices, 1), 1.0)
    least = max((items - 1) * rates.others * (1 - rates.others), 1 / max(devices, 1))
    sums = np.maximum(pair_matrix(rate * (1 - rate), items).sum(axis=1), least)
    # If all pairs of M items had the variance v, sums would be (M - 1) v, and their total M (M - 1) v
    noise: Floats = sums / np.sqrt(sums.sum() * (1 - 1 / items) * max(devices, 1)) / rates.contrast
    return noise


def cleaned(pairs: Floats2, liked: Floats, noise: Floats | float) -> tuple[float, Floats2]:
    """Return how liked items go together beyond popularity, as far as it stands out of the noise."""
    # Pairs that users like independently would have shares ``alpha f_i f_j``; alpha is fitted by weighted least
    # squares. Of what is left, C, the eigenvalues beyond those of pure noise are kept: a symmetric matrix of M items,
    # whose entries have standard deviation sigma, has eigenvalues up to ``2 sigma sqrt(M)`` (Wigner). They are shrunk
    # to ``sign(l) sqrt(l^2 - 4 sigma^2 M)``. Where entries have variances ``s_i s_j``, it is ``C_ij / sqrt(s_i s_j)``
    # whose entries are alike, with sigma 1.
    # Shapes: ``pairs`` (M, M); ``liked`` (M,); ``noise``, s, (M,), or one number for all; ``excess`` (M, M).
    largest = float(np.max(noise))
    # In units of the largest; without noise all entries are alike
    share = np.broadcast_to(np.asarray(noise) / largest if largest else 1.0, liked.shape)
    variances = np.outer(share, share)
    expected = np.outer(liked, liked)
    np.fill_diagonal(expected, 0.0)
    squares = (expected**2 / variances).sum()
    alpha = float((pairs * expected / variances).sum() / max(squares, np.finfo(float).tiny))
    excess = pairs - alpha * expected
    np.fill_diagonal(excess, 0.0)
    units = np.sqrt(variances)
    values, vectors = np.linalg.eigh(excess / units)
    edge = 4 * largest**2 * liked.size
    shrunk = np.sign(values) * np.sqrt(np.maximum(values**2 - edge, 0.0))
    return alpha, (vectors * shrunk) @ vectors.T * units


def ease_weights(second: Floats2) -> Floats2:
    """Return EASE's weights, shape (M, M): row i has what a like of item i adds to the scores of the others."""
    lowest = float(np.linalg.eigvalsh(second)[0])
    ridge = max(LEAST_RIDGE, -STEP * lowest + ABOVE)
    precision = np.linalg.inv(second + ridge * np.eye(len(second)))
    weights: Floats2 = -precision / np.diag(precision)
    np.fill_diagonal(weights, 0.0)
    return weights


def item_to_item(pool: Indices, liked: Floats, pairs: Floats2, noise: Floats | float) -> ItemToItem:
    """Return the item-item model of a pool, shape (M,); its numbers lie on the public grid. See `cleaned`."""
    alpha, excess = cleaned(pairs, liked, noise)
    second = alpha * np.outer(liked, liked) + excess
    np.fill_diagonal(second, liked)
    return ItemToItem(pool=pool, liked=on_grid(liked), weights=on_grid(np.ascontiguousarray(ease_weights(second))))


def from_counts(pool: Indices, liked: tuple[Rates, Ints, int], pairs: tuple[Rates, Ints, int]) -> ItemToItem:
    """Return the item-item model of a pool, shape (M,), by its counts, from devices or drawn as an aggregate."""
    pool_items = pool.size
    rates, counts, devices = pairs
    counts = counts[: pool_items * (pool_items - 1) // 2]
    f = shares(liked[0], liked[1][:pool_items], liked[2])
    of_pairs = pair_matrix(shares(rates, counts, devices), pool_items)
    return item_to_item(pool, f, of_pairs, noise_of(rates, counts, devices, pool_items))


def from_sums(pool: Indices, gram: Floats2, users: int, deviation: float) -> ItemToItem:
    """Return the item-item model of a pool by noisy numbers of people who like both items of a pair, shape (M, M)."""
    # The diagonal holds those who like an item; noise has a standard deviation.
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
    """Return the eigenvectors of a symmetric matrix that stand out of its noise, at most `MOST`."""
    # Shapes: ``matrix`` (M, M).
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
    """Return directions of taste among all items, for devices; their numbers lie on the public grid."""
    # Shapes: ``pool`` (M,); ``rated``, ``liked`` (N,).
    vectors = np.zeros((rated.size, subspace.strengths.size))
    vectors[pool] = subspace.directions(contrast)
    return Tastes(
        rated=on_grid(np.clip(rated, FEWEST, 1 - EDGE)),
        liked=on_grid(np.clip(liked, EDGE - 1, 1 - EDGE)),
        vectors=on_grid(np.ascontiguousarray(vectors)),
        ridge=RIDGE,
    )
