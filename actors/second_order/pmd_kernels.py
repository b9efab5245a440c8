"""PMD's inner loops, compiled: K candidate vectors by greedy swaps, at O(1) a swap.

Objective (8) is the expectation of a squared norm. With ``a_k = |x^k - mu|^2`` and ``b_k = (x^k - mu) . r'`` it is
``(1/K) sum_k (a_k^2 - 2 b_k^2) + |r'|^4``, and a swap at one item changes two of the a and b only.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from coordinator.protocol.arrays import Bits, Bits2, Floats, Floats2, Words
from coordinator.protocol.compiled import compiled, inlined
from coordinator.protocol.uniform import below


@compiled
def shuffle(stream: np.uint64, order: Bits2) -> None:
    """Make every item's row of ``order``, uint8, shape (m, K), a permutation of 0 to K - 1, each one as probable."""
    items, many = order.shape
    for item in range(items):
        for k in range(many):
            order[item, k] = k
        for k in range(many - 1, 0, -1):
            other = below(stream, item * many + k, k + 1)
            order[item, k], order[item, other] = order[item, other], order[item, k]


@compiled
def running_sums(values: Floats2, residual: Floats, order: Bits2, norms: Floats, products: Floats) -> None:
    """Write a_k into ``norms`` and b_k into ``products``, float64, shape (K,)."""
    norms[:], products[:] = 0.0, 0.0
    for item in range(order.shape[0]):
        for k in range(order.shape[1]):
            value = values[item, order[item, k]]
            norms[k] += value * value
            products[k] += value * residual[item]


@inlined
def _gain(da: float, db: float, norm_gap: float, product_gap: float) -> float:
    """Return half of what the objective (times K) changes by if two candidates swap their values at one item."""
    return da * (norm_gap + da) - 2.0 * db * (product_gap + db)


@compiled
def _sweep(row: Bits, held: Floats, residual: float, norms: Floats, products: Floats) -> bool:
    """Try all pairs of candidates at one item, swap where the objective falls; return whether any did.

    ``held`` are the candidates' values at the item, ``row`` their numbers.
    """
    swapped = False
    for p in range(row.size - 1):
        mine, norm, product = held[p], norms[p], products[p]
        for q in range(p + 1, row.size):
            theirs = held[q]
            da, db = theirs * theirs - mine * mine, (theirs - mine) * residual
            if _gain(da, db, norm - norms[q], product - products[q]) < 0.0:
                row[p], row[q] = row[q], row[p]
                held[q], mine, swapped = mine, theirs, True
                norm += da
                norms[q] -= da
                product += db
                products[q] -= db
        held[p], norms[p], products[p] = mine, norm, product
    return swapped


@compiled
def greedy_swaps(
    values: Floats2, residual: Floats, order: Bits2, norms: Floats, products: Floats, sweeps: int, passes: int
) -> None:
    """Lower objective (8) by swaps at one item after the other.

    Parameters
    ----------
    values : ndarray of float64, shape (m, K)
        The ratings that there are less mu, at every item, in C order.
    residual : ndarray of float64, shape (m,)
        r'.
    order : ndarray of uint8, shape (m, K)
        Candidate k takes ``values[j, order[j, k]]`` at item j; rows are permutations before and after.
    norms, products : ndarray of float64, shape (K,)
        Receive a_k and b_k.
    sweeps : int
        Most sweeps over all pairs at one item.
    passes : int
        How often to go through all items.
    """
    running_sums(values, residual, order, norms, products)
    held = np.empty(order.shape[1])
    for _ in range(passes):
        for item in range(order.shape[0]):
            for k in range(held.size):
                held[k] = values[item, order[item, k]]
            for _ in range(sweeps):
                if not _sweep(order[item], held, residual[item], norms, products):
                    break


@compiled
def choose_candidates(
    values: Floats2,
    residuals: Floats2,
    streams: Words,
    coins: Words,
    sweeps: int,
    passes: int,
    told: Bits2,
) -> None:
    """Write which of the K values every device tells at every item: one candidate of K, each one as probable.

    Parameters
    ----------
    values : ndarray of float64, shape (m, K)
        As for `greedy_swaps`, the same for all devices.
    residuals : ndarray of float64, shape (devices, m)
        Private: r'.
    streams, coins : ndarray of uint64, shape (devices,)
        Private coins: of the shuffle before the swaps, and of the choice.
    sweeps, passes : int
        As for `greedy_swaps`.
    told : ndarray of uint8, shape (devices, m)
        Receives numbers of values, 0 to K - 1.
    """
    items, many = values.shape
    order, norms, products = np.empty((items, many), np.uint8), np.empty(many), np.empty(many)
    for k in range(streams.size):
        shuffle(streams[k], order)
        greedy_swaps(values, residuals[k], order, norms, products, sweeps, passes)
        chosen = int64(below(uint64(coins[k]), 0, many))
        for item in range(items):
            told[k, item] = order[item, chosen]
