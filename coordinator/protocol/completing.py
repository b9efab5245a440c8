"""Compiled inner loops of completion: ridge regression of each user's ratings on the item vectors, and its rows."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.compiled import borrowing, compiled


@borrowing
def _solve(matrix: Floats2, right: Floats, size: int) -> None:
    """Overwrite ``right`` with the solution of ``matrix x = right``; the lower triangle is overwritten (Cholesky).

    Where a pivot is 0 or below, as rounding can make it, infinities or no numbers come out, and no error.
    """
    for row in range(size):
        for column in range(row):
            total = matrix[row, column]
            for k in range(column):
                total -= matrix[row, k] * matrix[column, k]
            matrix[row, column] = total / matrix[column, column]
        total = matrix[row, row]
        for k in range(row):
            total -= matrix[row, k] * matrix[row, k]
        matrix[row, row] = np.sqrt(total)
    for row in range(size):
        total = right[row]
        for k in range(row):
            total -= matrix[row, k] * right[k]
        right[row] = total / matrix[row, row]
    for row in range(size - 1, -1, -1):
        total = right[row]
        for k in range(row + 1, size):
            total -= matrix[k, row] * right[k]
        right[row] = total / matrix[row, row]


@borrowing
def _primal(vectors: Floats2, kappa: float, items: Indices, centred: Floats, gram: Floats2, taste: Floats) -> None:
    """Write ``(V_phi^T V_phi + kap I)^-1 V_phi^T y`` into ``taste``."""
    rank = vectors.shape[1]
    for a in range(rank):
        taste[a] = 0.0
        for b in range(a + 1):
            gram[a, b] = 0.0
        gram[a, a] = kappa
    for rated in range(items.size):
        vector, value = vectors[items[rated]], centred[rated]
        for a in range(rank):
            front = vector[a]
            taste[a] += value * front
            for b in range(a + 1):
                gram[a, b] += front * vector[b]
    _solve(gram, taste, rank)


@borrowing
def _dual(
    vectors: Floats2, kappa: float, items: Indices, centred: Floats, gram: Floats2, dual: Floats, taste: Floats
) -> None:
    """Write ``V_phi^T (V_phi V_phi^T + kap I)^-1 y``, the same numbers, into ``taste``; for fewer ratings than r."""
    rank = vectors.shape[1]
    for a in range(items.size):
        one = vectors[items[a]]
        for b in range(a + 1):
            other = vectors[items[b]]
            total = 0.0
            for k in range(rank):
                total += one[k] * other[k]
            gram[a, b] = total
        gram[a, a] += kappa
        dual[a] = centred[a]
    _solve(gram, dual, items.size)
    for k in range(rank):
        taste[k] = 0.0
    for a in range(items.size):
        one = vectors[items[a]]
        for k in range(rank):
            taste[k] += dual[a] * one[k]


@compiled
def tastes_of(
    vectors: Floats2, kappa: float, degree_share: float, starts: Ints, items: Indices, centred: Floats
) -> Floats2:
    """Return every user's u of equation 4, float64, shape (users, r).

    Parameters
    ----------
    vectors : ndarray of float64, shape (m, r)
        V.
    kappa : float
        Regularisation, above 0.
    degree_share : float
        0, or for the weighted trace norm 1 over the mean number of ratings: kappa times d times this of a user with d.
    starts, items, centred
        Users in compressed sparse rows; ratings less the items' means.
    """
    rank = vectors.shape[1]
    tastes = np.zeros((starts.size - 1, rank))
    _solve_all(vectors, kappa, degree_share, starts, items, centred, np.empty((rank, rank)), np.empty(rank), tastes)
    return tastes


@borrowing
def _solve_all(
    vectors: Floats2,
    kappa: float,
    degree_share: float,
    starts: Ints,
    items: Indices,
    centred: Floats,
    gram: Floats2,
    dual: Floats,
    tastes: Floats2,
) -> None:
    """Write every user's u; see `tastes_of`."""
    for user in range(len(tastes)):
        start, stop = starts[user], starts[user + 1]
        ridge = kappa if degree_share == 0.0 else kappa * degree_share * (stop - start)
        if stop - start >= vectors.shape[1]:
            _primal(vectors, ridge, items[start:stop], centred[start:stop], gram, tastes[user])
        elif stop > start:
            _dual(vectors, ridge, items[start:stop], centred[start:stop], gram, dual, tastes[user])


@compiled
def rows_of(vectors: Floats2, tastes: Floats2, starts: Ints, items: Indices, centred: Floats) -> Floats2:
    """Return completed residuals ``V u`` with the observed ones kept, float64, shape (users, m)."""
    users, (count, rank) = tastes.shape[0], vectors.shape
    rows, across = np.zeros((users, count)), np.ascontiguousarray(vectors.T)
    for user in range(users):
        row = rows[user]
        for k in range(rank):
            taste, column = tastes[user, k], across[k]
            for item in range(count):
                row[item] += taste * column[item]
        for rated in range(starts[user], starts[user + 1]):
            row[items[rated]] = centred[rated]
    return rows


@compiled
def predictions_of(
    vectors: Floats2, mean: Floats, tastes: Floats2, starts: Ints, items: Indices, lowest: float, highest: float
) -> Floats:
    """Return ``mu + V u`` for users' items in compressed sparse rows, clipped to the range of ratings."""
    predictions = np.empty(items.size)
    for user in range(tastes.shape[0]):
        taste = tastes[user]
        for place in range(starts[user], starts[user + 1]):
            item = items[place]
            total = mean[item]
            for k in range(vectors.shape[1]):
                total += vectors[item, k] * taste[k]
            predictions[place] = min(max(total, lowest), highest)
    return predictions
