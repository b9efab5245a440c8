"""Emulated pair statistics: the affinity matrix drawn from its law, decoded as `spectral` does, and scored.

Given a pair of items, devices answer independently, each with the probability that `pair_agreement` tells; a pair is
asked about Poisson with mean ``n = 2 U / (N (N - 1))`` times, so agreements and disagreements are independent Poisson
variables. That is the statistic's own law at any N, where the theory of `spectral_prediction` is one for many items.
Eigenvectors and k-means are those of the decoder in a faster form; a test holds them against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.linalg import LinAlgError, lapack

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.compiled import compiled
from scenarios.data.metrics import best_matching
from scenarios.theory.partition import STARTS, best_partition, trials

MANY = 10.0
"""Where every pair expects more answers of either kind than this, sums are drawn from the normal law."""


def emulated_shares(
    rates: Floats, sizes: Ints, *, users: float, decoder: str, generator: np.random.Generator
) -> Iterator[float]:
    """Draw affinity matrices without end, decode them, and tell the share of items right under the best matching.

    Shapes: ``rates`` (L, L); ``sizes`` (L,).
    """
    truth, count = np.repeat(np.arange(sizes.size), sizes), sizes.size
    upper = np.triu_indices(truth.size, 1)
    rate = rates[truth[upper[0]], truth[upper[1]]]
    even, none = np.ones(truth.size), np.empty((0, count, count))
    while True:
        entries = _entries(rate, users / rate.size, centred=decoder == "centred", generator=generator)
        if not entries.any():
            yield float(sizes.max() / truth.size)
            continue
        profiles = leading_vectors(_symmetric(entries, truth.size), count)
        found = np.zeros((count, count))
        labels, _ = best_partition(profiles, even, none, generator.random((STARTS, count, trials(count))))
        np.add.at(found, (truth, labels), 1)
        yield float(found[best_matching(found)].sum() / truth.size)


def _entries(rate: Floats, each: float, *, centred: bool, generator: np.random.Generator) -> Floats:
    """Draw ``sum_u (S_u - centre)`` for pairs with these rates that expect ``each`` answers."""
    if each * min(rate.min(), 1 - rate.max()) > MANY:
        centre = float(rate.mean()) if centred else 0.0
        variance = rate * (1 - centre) ** 2 + (1 - rate) * centre**2
        return np.asarray(each * (rate - centre) + np.sqrt(each * variance) * generator.standard_normal(rate.size))
    agreed, other = generator.poisson(each * rate), generator.poisson(each * (1 - rate))
    centre = agreed.sum() / max(1, agreed.sum() + other.sum()) if centred else 0.0
    return np.asarray((1 - centre) * agreed - centre * other)


@compiled
def _symmetric(entries: Floats, items: int) -> Floats:
    """Return the symmetric matrix with these entries above its diagonal, row by row, and 0 on it."""
    matrix, place = np.zeros((items, items)), 0
    for i in range(items):
        for j in range(i + 1, items):
            matrix[i, j] = matrix[j, i] = entries[place]
            place += 1
    return matrix


def leading_vectors(matrix: Floats, count: int) -> Floats:
    """Return the eigenvectors with eigenvalues largest in magnitude, shape (N, count), of a symmetric matrix.

    The matrix is made tridiagonal once for both ends of its spectrum, which is nearly all of the work.
    """
    size = len(matrix)
    reflectors, diagonal, beside, scales, _ = lapack.dsytrd(matrix, lower=1, lwork=_workspace(size))
    ends = ((1, count), (size - count + 1, size)) if 2 * count <= size else ((1, size),)
    found = [_end(diagonal, beside, *end) for end in ends]
    values, vectors = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
    leading = vectors[:, np.argsort(-np.abs(values), kind="stable")[:count]]
    leading[1:], _, _ = lapack.dormqr("L", "N", reflectors[1:, :-1], scales, leading[1:], lwork=_workspace(size))
    return np.ascontiguousarray(leading)


def _end(diagonal: Floats, beside: Floats, first: int, last: int) -> tuple[Floats, Floats]:
    """Return some eigenvalues of a tridiagonal matrix, the lowest is number 1, and their vectors.

    They are those of `scipy.linalg.eigh_tridiagonal`, whose checks take longer than a small matrix does.
    """
    found, values, blocks, splits, failed = lapack.dstebz(diagonal, beside, 2, 0.0, 1.0, first, last, 0.0, "B")
    vectors, astray = lapack.dstein(diagonal, beside, values[:found], blocks, splits)
    if failed or astray:
        raise LinAlgError(f"eigenvectors did not converge (LAPACK {failed}, {astray})")
    order = np.argsort(values[:found])
    return values[order], vectors[:, order]


@lru_cache
def _workspace(size: int) -> int:
    """Return how much room LAPACK works fastest with."""
    return int(lapack.dsytrd_lwork(size, lower=1)[0])
