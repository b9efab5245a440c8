"""From agreements with signs of pairs to directions of taste: eigenvectors that stand out of the known noise, shrunk.

Mean agreements are a symmetric matrix of M items: a signal of small rank, and noise of standard deviation sigma an
entry. Noise alone has eigenvalues up to ``2 sigma sqrt(M)`` (Wigner). A signal's eigenvalue l > sigma sqrt(M) is seen
at ``l + sigma^2 M / l``, and its eigenvector overlaps with the true one by ``1 - sigma^2 M / l^2`` (squared;
Benaych-Georges and Nadakuditi, *The eigenvalues and eigenvectors of finite, low rank perturbations*, 2011).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.grid import on_grid
from coordinator.protocol.tastes import Tastes
from coordinator.server.decoding.pair_model import pair_matrix

MOST = 8
"""Directions that are used at most."""
RIDGE = 2.0
"""Variance of a rating by itself. It is at most 1; twice as much made the best lists on Jester's first split."""
FEWEST, EDGE = 1e-5, 0.01
"""A share is at least the first; shares and mean ratings keep the second from 1."""


class Subspace(NamedTuple):
    """What stands out of the noise.

    Attributes
    ----------
    vectors : ndarray of float64, shape (M, k)
        Orthonormal eigenvectors, the strongest first.
    strengths, overlaps : ndarray of float64, shape (k,)
        Eigenvalues without noise, and how far each vector is right: expected squared cosines.
    """

    vectors: Floats2
    strengths: Floats
    overlaps: Floats

    def directions(self, contrast: float) -> Floats2:
        """Return V, shape (M, k), where ``V V^T contrast`` is what is expected of the signal after the noise.

        It is 0 where the contrast is, since answers say nothing of tastes then.
        """
        scale = self.strengths * self.overlaps / contrast if contrast else np.zeros(self.strengths.size)
        found: Floats2 = self.vectors * np.sqrt(scale)
        return found


def subspace(matrix: Floats2, noise: float) -> Subspace:
    """Return the eigenvectors of a symmetric matrix that stand out of its noise, at most `MOST`.

    Parameters
    ----------
    matrix : ndarray of float64, shape (M, M)
        With a diagonal of 0.
    noise : float
        Standard deviation sigma of its entries; 0 for none.
    """
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1][:MOST], vectors[:, ::-1][:, :MOST]
    edge = 2 * noise * math.sqrt(len(matrix))
    some = values > max(edge, 1e-12)
    seen = values[some]
    strengths = (seen + np.sqrt(seen**2 - edge**2)) / 2
    return Subspace(vectors[:, some], strengths, 1 - (edge / 2 / strengths) ** 2)


def agreed(counts: Ints, answered: int, items: int) -> tuple[Floats2, float]:
    """Return the matrix of mean agreements with signs of pairs, from -1 to 1, and its noise.

    Parameters
    ----------
    counts : ndarray of int64, shape (M (M - 1) / 2,)
        Devices whose bit was the sign of a pair, in the order of an upper triangle's rows.
    answered, items : int
        Devices that answered, at least 1, and M.
    """
    return pair_matrix(2 * counts / answered - 1, items), 1 / math.sqrt(answered)


def tastes_of_pairs(pool: Indices, told: Subspace, contrast: float, *, rated: Floats, liked: Floats) -> Tastes:
    """Return directions of taste among all items, for devices; their numbers lie on the public grid.

    Parameters
    ----------
    pool : ndarray of int32, shape (M,)
        The items whose pairs were asked about; no direction tells anything of others.
    told : Subspace
        What stands out of the noise.
    contrast : float
        Mean agreement for each unit of a pair's covariance, `moments.anchor.pair_contrast`.
    rated, liked : ndarray of float64, shape (N,)
        Share of people who rated each item, and mean rating from -1 to 1, of all items.
    """
    vectors = np.zeros((rated.size, told.strengths.size))
    vectors[pool] = told.directions(contrast)
    return Tastes(
        rated=on_grid(np.clip(rated, FEWEST, 1 - EDGE)),
        liked=on_grid(np.clip(liked, EDGE - 1, 1 - EDGE)),
        vectors=on_grid(np.ascontiguousarray(vectors)),
        ridge=RIDGE,
    )


def likeness(one: Floats2, other: Floats2) -> float:
    """Return the mean squared cosine of the angles between two subspaces of one dimension, from 0 to 1.

    Parameters
    ----------
    one, other : ndarray of float64, shape (M, j) and (M, k)
        Orthonormal columns. If j is below k, the missing directions count as orthogonal.
    """
    return float(np.square(one.T @ other).sum() / max(other.shape[1], 1))
