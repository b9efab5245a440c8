"""The M-step of the weighted trace norm: ridge regression of completed rows on tastes, then balancing."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.features import ItemFeatures
from coordinator.server.completion.crowd import Crowd
from coordinator.server.completion.folding import ReleaseBook
from coordinator.server.completion.statistics import Expected, added
from coordinator.server.decoding.threads import one_thread


def alternate(
    features: ItemFeatures, counts: Floats, told: Expected, crowd: Crowd, book: ReleaseBook, weight: float
) -> Floats2:
    """Return V of ``min sum_i |r_i - V u_i|^2 + kap sum_j w_j |v_j|^2`` over completed rows r, tastes u held.

    It majorises the error of observed ratings, so ``sum error^2 + kap (sum_i w_i |u_i|^2 + sum_j w_j |v_j|^2)`` never
    rises. A release is a fully observed row.

    Parameters
    ----------
    features : ItemFeatures
        Of the E-step; ``mean_degree`` is set.
    counts : ndarray of float64, shape (m,)
        Public ratings of every item.
    told : Expected
        The E-step's sums.
    crowd, book, weight
        As for `coordinator.server.completion.fitting.iterate`.

    Returns
    -------
    ndarray of float64, shape (m, r)
        Balanced: ``sum_j w_j v_j v_j^T`` is diagonal and equals the tastes' weighted sum in the same directions.
    """
    old, kappa = features.vectors, features.kappa
    with one_thread():
        crossed = old @ told.tastes + added(crowd.ask("crossed"))
        gram, weighted = told.tastes.copy(), told.weighted_tastes.copy()
        full = features.items / (features.mean_degree or 1.0)
        for rows in book.blocks() if weight else ():
            tastes = np.linalg.solve(old.T @ old + kappa * full * np.eye(old.shape[1]), old.T @ rows.T).T
            crossed += weight * (rows.T @ tastes)
            gram += weight * (tastes.T @ tastes)
            weighted += weight * full * (tastes.T @ tastes)
        weights = (counts + 1) / (counts + 1).mean()
        values, directions = np.linalg.eigh(gram)
        vectors = ((crossed @ directions) / (np.maximum(values, 0) + kappa * weights[:, None])) @ directions.T
        balanced: Floats2 = vectors @ _balance(weighted, (weights[:, None] * vectors).T @ vectors)
        return balanced


def _balance(tastes: Floats2, items: Floats2) -> Floats2:
    """Return T for which ``T^-1 G_u T^-T`` and ``T^T G_v T`` are one diagonal matrix: the smallest penalty for UV^T.

    With roots A of G_u and B of G_v, and ``A^T B = P S Z^T``, it is ``A P S^(-1/2)``. The product of both moments would
    square what is lost of small directions: they would be noise from a ten-thousandth of the largest length on.
    """
    root = _root(tastes)
    turns, sizes, _ = np.linalg.svd(root.T @ _root(items))
    kept = sizes > sizes[0] * 1e-14
    found = np.zeros_like(items)
    found[:, kept] = root @ (turns[:, kept] / np.sqrt(sizes[kept]))
    return found


def _root(moment: Floats2) -> Floats2:
    """Return A with ``A A^T`` the moment, which is brought to diagonal 1 first: small directions keep their digits."""
    lengths = np.sqrt(np.diag(moment))
    units = np.where(lengths > 0, lengths, 1.0)
    values, directions = np.linalg.eigh(moment / units[:, None] / units)
    root: Floats2 = lengths[:, None] * directions * np.sqrt(np.maximum(values, 0))
    return root
