"""PMD: one of K candidate vectors that together are uniform at every item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.arrays import Bits, Bits2, Floats, Floats2, Ints, Words
from coordinator.protocol.checked import require_range
from coordinator.protocol.compiled import compiled, inlined, int64, uint64
from coordinator.protocol.hashing import below
from coordinator.protocol.second_order import ELEMENT, HALF, Coins, SecondOrderMechanism, SecondOrderQuery

if TYPE_CHECKING:
    from coordinator.protocol.features import ItemFeatures

SWEEPS, PASSES = 3, 1  # Numbers of sweeps over all pairs of candidates at one item, and of passes over all items


@compiled
def shuffle(stream: np.uint64, order: Bits2) -> None:
    """Make every item's row of ``order``, uint8, shape (m, K), a uniformly random permutation of 0 to K - 1."""
    items, candidates = order.shape
    for item in range(items):
        for k in range(candidates):
            order[item, k] = k
        for k in range(candidates - 1, 0, -1):
            swap = below(stream, item * candidates + k, k + 1)
            order[item, k], order[item, swap] = order[item, swap], order[item, k]


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
    """Return half of the change of the objective (times K) if two candidates swap their values at one item."""
    return da * (norm_gap + da) - 2.0 * db * (product_gap + db)


@compiled
def _sweep(row: Bits, levels: Floats, residual: float, norms: Floats, products: Floats) -> bool:
    """Try all pairs of candidates at one item, swap where the objective falls; return whether any did.

    ``levels`` are the candidates' values at the item, ``row`` their numbers.
    """
    swapped = False
    for p in range(row.size - 1):
        first_value, norm, product = levels[p], norms[p], products[p]
        for q in range(p + 1, row.size):
            second_value = levels[q]
            da, db = second_value * second_value - first_value * first_value, (second_value - first_value) * residual
            if _gain(da, db, norm - norms[q], product - products[q]) < 0.0:
                row[p], row[q] = row[q], row[p]
                levels[q], first_value, swapped = first_value, second_value, True
                norm += da
                norms[q] -= da
                product += db
                products[q] -= db
        levels[p], norms[p], products[p] = first_value, norm, product
    return swapped


@compiled
def greedy_swaps(
    values: Floats2, residual: Floats, order: Bits2, norms: Floats, products: Floats, sweeps: int, passes: int
) -> None:
    """Lower objective (8) by swaps at one item after the other.

    Shapes: ``values`` (m, K); ``residual`` (m,); ``order`` (m, K); ``norms``, ``products`` (K,).
    """
    running_sums(values, residual, order, norms, products)
    levels = np.empty(order.shape[1])
    for _ in range(passes):
        for item in range(order.shape[0]):
            for k in range(levels.size):
                levels[k] = values[item, order[item, k]]
            for _ in range(sweeps):
                if not _sweep(order[item], levels, residual[item], norms, products):
                    break


@compiled
def choose_candidates(values: Floats2, residuals: Floats2, streams: Words, coins: Words) -> Bits2:
    """Return which of the K values every device releases at every item: those of one of K equally probable candidates.

    Shapes: ``values`` (m, K); ``residuals`` (devices, m); ``streams``, ``coins`` (devices,).
    """
    (items, candidates), places = values.shape, np.empty(residuals.shape, np.uint8)
    order, norms, products = np.empty((items, candidates), np.uint8), np.empty(candidates), np.empty(candidates)
    for k in range(streams.size):
        shuffle(streams[k], order)
        greedy_swaps(values, residuals[k], order, norms, products, SWEEPS, PASSES)
        winner = int64(below(uint64(coins[k]), int64(0), candidates))
        for item in range(items):
            places[k, item] = order[item, winner]
    return places


def candidate_values(features: ItemFeatures) -> Floats2:
    """Return the values that candidates may take at every item, shape (m, K): the ratings S less mu."""
    return np.ascontiguousarray(np.array(features.scale)[None, :] - features.mean[:, None])


def candidate(residuals: Floats2, values: Floats2, coins: Coins) -> Bits2:
    """Return the candidate that each device releases, as places in the scale S.

    Shapes: ``residuals`` (devices, m); ``values`` (m, K).
    """
    return choose_candidates(values, residuals, coins.shuffles(), coins.whole())


class Pmd(SecondOrderMechanism):
    """Releases one of K candidate vectors, a place in the scale S an item."""

    name, order = "pmd", 10
    guarantee = ELEMENT
    needs_scale = True
    weight, sided = HALF, True
    swept, attacked = ("",), ("",)

    def size(self, query: SecondOrderQuery, features: ItemFeatures) -> int:
        return features.items

    def randomize(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> Bits2:
        return candidate(vectors, candidate_values(features), coins)

    def check(self, payloads: Bits2, query: SecondOrderQuery, features: ItemFeatures) -> None:
        require_range("places in the scale", payloads, 0, len(features.scale or ()) - 1)

    def rows(self, payloads: Bits2, devices: Ints, query: SecondOrderQuery, features: ItemFeatures) -> Floats2:
        """Return the ratings less the items' means, the paper's x - mu, brought to public users' energy."""
        rows: Floats2 = np.array(features.scale, np.float64)[payloads] - features.mean
        return rows * pmd_factors(features)


def pmd_factors(features: ItemFeatures) -> Floats:
    """Return what brings PMD's coordinates to public energy: common h over ``(E (x - mu)^2)^(1/2)``, x uniform on S."""
    scale = np.array(features.scale, np.float64)
    energy = scale.var() + np.square(scale.mean() - features.mean)
    factors: Floats = features.common_h / np.sqrt(energy)
    return factors


MECHANISMS = (Pmd(),)
