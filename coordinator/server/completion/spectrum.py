"""The largest singular values and right singular vectors of all public and released rows, without an (m, m) matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.server.completion.crowd import Crowd
from coordinator.server.completion.folding import ReleaseBook
from coordinator.server.completion.statistics import added
from coordinator.server.decoding.threads import one_thread

ROWS = 500
"""Up to so many public and released rows, and no more than items, the Gram matrix of the rows is used, k x k."""
MOMENT_ITEMS = 500
"""Otherwise, up to so many items, the second moment itself is added up, m x m."""
OVERSAMPLE = 10
"""Extra columns of subspace iteration beside the wanted ones."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spectrum:
    """Singular values, descending, and right singular vectors of the rows.

    Attributes
    ----------
    values : ndarray of float64, shape (q,)
    vectors : ndarray of float64, shape (m, q)
        Orthonormal columns.
    """

    values: Floats
    vectors: Floats2


def spectrum_of(
    crowd: Crowd, book: ReleaseBook, weight: float, rank: int, *, near: Floats2 | None = None, passes: int = 2
) -> Spectrum:
    """Return at least the ``rank`` largest singular values of ``[R_pub; sqrt(w) Z]``, and their vectors.

    Parameters
    ----------
    crowd : Crowd
        Public users, after an E-step.
    book : ReleaseBook
        Releases Z.
    weight : float
        w of a release, 0 or above.
    rank : int
        How many are wanted.
    near : ndarray of float64, shape (m, q), or None
        Where subspace iteration starts: the vectors that were found last.
    passes : int
        Passes of subspace iteration; each is a product with all rows.

    Returns
    -------
    Spectrum
        Exact where items or rows are few (`MOMENT_ITEMS`, `ROWS`); else by subspace iteration and a Nyström
        approximation from its last product (Tropp, Yurtsever, Udell and Cevher, 2017), which keeps improving from one
        EM iteration to the next as it starts where the last one ended.
    """
    with one_thread():
        rows = crowd.users + (book.rows() if weight else 0)
        if rows <= min(ROWS, crowd.items):
            return _of_rows(crowd, book, weight, rank)
        if crowd.items <= MOMENT_ITEMS:
            return _of_moment(crowd, book, weight, rank)
        return _of_subspace(crowd, book, weight, rank, near, passes)


def _of_moment(crowd: Crowd, book: ReleaseBook, weight: float, rank: int) -> Spectrum:
    moment = added(crowd.ask("moment"))
    for rows in book.blocks() if weight else ():
        moment += weight * (rows.T @ rows)
    values, vectors = linalg.eigh(moment, subset_by_index=(max(0, crowd.items - rank), crowd.items - 1))
    return Spectrum(values=np.sqrt(np.maximum(values[::-1], 0)), vectors=np.ascontiguousarray(vectors[:, ::-1]))


def _of_rows(crowd: Crowd, book: ReleaseBook, weight: float, rank: int) -> Spectrum:
    rows: Floats2 = np.concatenate(crowd.ask("rows"))
    blocks = list(book.blocks()) if weight else []
    root = float(np.sqrt(weight))
    across = root * np.concatenate([np.empty((len(rows), 0)), *(rows @ block.T for block in blocks)], axis=1)
    released = weight * book.gram() if blocks else np.empty((0, 0))
    gram = np.block([[rows @ rows.T, across], [across.T, released]])
    squares, left = linalg.eigh(gram, subset_by_index=(max(0, len(gram) - rank), len(gram) - 1))
    squares, left = squares[::-1], left[:, ::-1]
    real = squares > max(squares[0], 0.0) * 1e-14
    values, left = np.sqrt(squares[real]), left[:, real]
    vectors, at = rows.T @ left[: len(rows)], len(rows)
    for block in blocks:
        vectors += root * (block.T @ left[at : at + len(block)])
        at += len(block)
    return Spectrum(values=values, vectors=vectors / values)


def _of_subspace(
    crowd: Crowd, book: ReleaseBook, weight: float, rank: int, near: Floats2 | None, passes: int
) -> Spectrum:
    width = min(rank + OVERSAMPLE, crowd.items, crowd.users + (book.rows() if weight else 0))
    block = _start(crowd.items, width, near)
    for _ in range(passes - 1):
        block = _orthonormal(_product(crowd, book, weight, block))
    return _nystrom(block, _product(crowd, book, weight, block))


def _start(items: int, width: int, near: Floats2 | None) -> Floats2:
    """Return orthonormal columns to start from; columns that ``near`` lacks are the same in every run."""
    have: Floats2 = np.empty((items, 0)) if near is None else near[:, :width]
    more = np.random.default_rng(width).standard_normal((items, width - have.shape[1]))
    return _orthonormal(np.hstack([have, more]))


def _orthonormal(columns: Floats2) -> Floats2:
    basis: Floats2 = np.ascontiguousarray(linalg.qr(columns, mode="economic")[0], np.float64)
    return basis


def _product(crowd: Crowd, book: ReleaseBook, weight: float, block: Floats2) -> Floats2:
    total = added(crowd.ask("sweep", np.ascontiguousarray(block)))
    for rows in book.blocks() if weight else ():
        total += weight * (rows.T @ (rows @ block))
    return total


def _nystrom(block: Floats2, product: Floats2) -> Spectrum:
    """Return the spectrum of the Nyström approximation ``W (Q^T W)^-1 W^T`` of a second moment, W its product."""
    shift = np.finfo(float).eps * max(float(np.linalg.norm(product)), 1e-300)
    shifted = product + shift * block
    inner = block.T @ shifted
    root = linalg.cholesky((inner + inner.T) / 2, lower=True)
    left, values, _ = linalg.svd(linalg.solve_triangular(root, shifted.T, lower=True).T, full_matrices=False)
    return Spectrum(values=np.sqrt(np.maximum(np.square(values) - shift, 0)), vectors=left)
