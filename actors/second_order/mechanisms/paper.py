"""PMC and PMD, as a device does them: a sign vector or its opposite, and one of K candidate vectors; compiled."""

import numpy as np

from actors.second_order.mechanisms import SecondOrderDevice, packed
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits, Bits2, Floats, Floats2, Words, Words2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.compiled import compiled, inlined, int64, uint64
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.hashing import below
from coordinator.protocol.second_order import SecondOrderQuery

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


def signs(residuals: Floats2, coins: Coins) -> Bits2:
    """Return the bits that PMC releases: 1 for +h, 0 for -h.

    Shapes: ``residuals`` (devices, m).
    """
    return _signs(residuals, coins.whole(), coins.fair(residuals.shape[1]))


@compiled
def _signs(residuals: Floats2, flips: Words, fair: Words2) -> Bits2:
    bits = np.empty(residuals.shape, np.uint8)
    for k in range(residuals.shape[0]):
        flip = flips[k] >> uint64(63)
        for item in range(residuals.shape[1]):
            residual = residuals[k, item]
            coin = (fair[k, item >> 6] >> uint64(item & 63)) & uint64(1)
            bits[k, item] = flip ^ (coin if residual == 0.0 else uint64(residual > 0.0))
    return bits


def flipped_signs(residuals: Floats2, coins: Coins, epsilon: Epsilon) -> Bits2:
    """Return PMC's bits, each flipped with probability ``1 / (1 + e^epsilon)`` by a coin of its own (PMC-RR).

    ``epsilon`` in nats.
    """
    threshold = bit_channel(epsilon).threshold
    bits = signs(residuals, coins)
    bits ^= (coins.places(residuals.shape[1]) < threshold).astype(np.uint8)
    return bits


@compiled
def own_h(residuals: Floats2) -> Floats:
    """Return every device's own h, the mean absolute residual, float64, shape (devices,); it leaks a little."""
    sizes = np.zeros(residuals.shape[0])
    for k in range(residuals.shape[0]):
        for item in range(residuals.shape[1]):
            sizes[k] += abs(residuals[k, item])
        sizes[k] /= residuals.shape[1]
    return sizes


class Pmc(SecondOrderDevice):
    """Releases the sign vector or its opposite, flips bits if there is an epsilon, and adds h if the query asks."""

    names = ("pmc", "pmc-rr")

    def payloads(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> list[bytes]:
        releases = packed(flipped_signs(vectors, coins, query.epsilon))
        if not query.own_h:
            return releases
        return [signs + size.tobytes() for signs, size in zip(releases, own_h(vectors).astype("<f8"), strict=True)]


def candidate_values(features: ItemFeatures) -> Floats2:
    """Return the values that candidates may take at every item, shape (m, K): the ratings S less mu."""
    return np.ascontiguousarray(np.array(features.scale)[None, :] - features.mean[:, None])


def candidate(residuals: Floats2, values: Floats2, coins: Coins) -> Bits2:
    """Return the candidate that each device releases, as places in the scale S.

    Shapes: ``residuals`` (devices, m); ``values`` (m, K).
    """
    return choose_candidates(values, residuals, coins.shuffles(), coins.whole())


class Pmd(SecondOrderDevice):
    """Releases one of K candidate vectors."""

    names = ("pmd",)

    def payloads(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> list[bytes]:
        return [row.tobytes() for row in candidate(vectors, candidate_values(features), coins)]


DEVICE = (Pmc(), Pmd())
