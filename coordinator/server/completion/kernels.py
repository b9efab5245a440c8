"""Compiled inner loops of the server's side of completion: errors, and products with rows that are never formed.

A public user's row is ``V u`` with the observed residuals kept: low rank plus sparse. A product with it needs the
user's u and ``e = y - V_phi u`` only.
"""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.compiled import borrowing, compiled


@compiled
def errors_of(vectors: Floats2, tastes: Floats2, starts: Ints, items: Indices, centred: Floats) -> Floats:
    """Return ``y - V_phi u`` of every observed rating, float64."""
    errors = np.empty(items.size)
    for user in range(tastes.shape[0]):
        taste = tastes[user]
        for place in range(starts[user], starts[user + 1]):
            vector, total = vectors[items[place]], centred[place]
            for k in range(taste.size):
                total -= vector[k] * taste[k]
            errors[place] = total
    return errors


@compiled
def _product(left: Floats2, right: Floats2) -> Floats2:
    """Return ``left right`` in one order of summation, whatever library or thread."""
    product = np.zeros((left.shape[0], right.shape[1]))
    for row in range(left.shape[0]):
        for k in range(left.shape[1]):
            front = left[row, k]
            for column in range(right.shape[1]):
                product[row, column] += front * right[k, column]
    return product


@borrowing
def _see(taste: Floats, inner: Floats2, items: Indices, errors: Floats, block: Floats2, seen: Floats) -> None:
    """Write one user's ``r^T Q`` into ``seen``."""
    seen[:] = 0.0
    for k in range(taste.size):
        for column in range(seen.size):
            seen[column] += taste[k] * inner[k, column]
    for place in range(items.size):
        error, row = errors[place], block[items[place]]
        for column in range(seen.size):
            seen[column] += error * row[column]


@borrowing
def _spread(taste: Floats, outer: Floats2, items: Indices, errors: Floats, sums: Floats2, seen: Floats) -> None:
    """Add one user's ``r seen^T``: its dense part to ``outer``, in tastes, and its sparse part to ``sums``."""
    for k in range(taste.size):
        for column in range(seen.size):
            outer[k, column] += taste[k] * seen[column]
    for place in range(items.size):
        error, target = errors[place], sums[items[place]]
        for column in range(seen.size):
            target[column] += error * seen[column]


@borrowing
def _add_users(
    tastes: Floats2,
    inner: Floats2,
    outer: Floats2,
    starts: Ints,
    items: Indices,
    errors: Floats,
    block: Floats2,
    sums: Floats2,
    seen: Floats,
) -> None:
    """Add every user's ``r (r^T Q)``."""
    for user in range(tastes.shape[0]):
        start, stop = starts[user], starts[user + 1]
        _see(tastes[user], inner, items[start:stop], errors[start:stop], block, seen)
        _spread(tastes[user], outer, items[start:stop], errors[start:stop], sums, seen)


@compiled
def sweep_of(
    vectors: Floats2, tastes: Floats2, starts: Ints, items: Indices, errors: Floats, block: Floats2
) -> Floats2:
    """Return ``sum_i r_i (r_i^T Q)`` over users' rows, float64, shape (m, q).

    Shapes: ``vectors`` (m, r); ``tastes`` (users, r); ``block`` (m, q).
    """
    (count, rank), width = vectors.shape, block.shape[1]
    inner, outer = _product(np.ascontiguousarray(vectors.T), block), np.zeros((rank, width))
    sums, seen = np.zeros((count, width)), np.empty(width)
    _add_users(tastes, inner, outer, starts, items, errors, block, sums, seen)
    sums += _product(vectors, outer)
    return sums


@compiled
def crossed_of(tastes: Floats2, starts: Ints, items: Indices, errors: Floats, count: int) -> Floats2:
    """Return ``sum_i e_i u_i^T``, float64, shape (m, r): completed rows times tastes are V (sum u u^T) plus this."""
    rank = tastes.shape[1]
    sums = np.zeros((count, rank))
    for user in range(tastes.shape[0]):
        for place in range(starts[user], starts[user + 1]):
            error, target = errors[place], sums[items[place]]
            for k in range(rank):
                target[k] += error * tastes[user, k]
    return sums


@compiled
def moment_of(rows: Floats2) -> Floats2:
    """Return ``sum_i r_i r_i^T`` of dense rows, float64, shape (m, m); for few items only."""
    count = rows.shape[1]
    moment = np.zeros((count, count))
    for user in range(rows.shape[0]):
        row = rows[user]
        for a in range(count):
            front = row[a]
            for b in range(a + 1):
                moment[a, b] += front * row[b]
    for a in range(count):
        for b in range(a):
            moment[b, a] = moment[a, b]
    return moment
