"""Mixtures: the clusters' levels and shares behind noisy estimates, by maximum likelihood.

Every item's estimate is normal around the level of its cluster, with a known standard error; levels and shares are
unknown. The likelihood does not change if items leave the pool because of their estimates.

All sums are made in one order that no library chooses, so that fits hardly differ between processors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.server.decoding.climbing import climb, start_at

TINY = 1e-200
FEW = 3
ENDS: dict[int, list[tuple[float, ...]]] = {2: [(0.1,), (0.9,)], 3: [(0.1, 0.9), (0.1, 0.4), (0.6, 0.9)]}
"""For two and three clusters: shares of the items above each cut, for starts with small clusters."""
NO_PRIOR = np.zeros(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Levels and shares of L clusters, the highest first.

    Attributes
    ----------
    levels, shares : ndarray of float64, shape (L,)
        The mean of a cluster's estimates, and the cluster's share of the items.
    doubts : ndarray of float64, shape (L,)
        Standard errors that the levels would have if it were known which items belong to each.
    likelihood : float
        Log-likelihood of the estimates, up to a number that depends on their errors only.
    """

    levels: Floats
    shares: Floats
    doubts: Floats
    likelihood: float


def joint(mixture: Mixture, value: Floats, error: Floats) -> Floats2:
    """Return log P(cluster, estimate) of every item at these levels and shares, shape (N, L)."""
    with np.errstate(divide="ignore"):
        prior = np.log(mixture.shares)
    found: Floats2 = prior - ((value[:, None] - mixture.levels) / error[:, None]) ** 2 / 2 - np.log(error)[:, None]
    return found


def fits(value: Floats, error: Floats, clusters: int, *, further: Sequence[Ints] = ()) -> list[Mixture]:
    """Return the different mixtures that a few starts lead to, the most likely first.

    Clusters start with equal numbers of items, cut at the widest gaps, and as equal stretches between the extremes of
    all items and of the better known half; two and three clusters also start with few items at either end.

    Parameters
    ----------
    value, error : ndarray of float64, shape (N,)
        Estimates and their standard errors, finite and above 0.
    clusters : int
        Number of clusters L.
    further : sequence of ndarray of int64, shape (N,)
        More labels to start from.
    """
    centre, unit = float(value.mean()), float(value.std()) or 1.0
    scaled, precision = (value - centre) / unit, (unit / error) ** 2
    found = []
    for start in (*_starts(value, error, clusters), *further):
        point, inside = start_at(scaled, precision, start, clusters), np.empty(clusters)
        likelihood = climb(scaled, precision, point, NO_PRIOR, np.empty((2 * clusters, 2 * clusters)), inside)
        order = np.argsort(-point[:clusters], kind="stable")
        shares = np.exp(point[clusters:] - point[clusters:].max())[order]
        one = Mixture(
            levels=centre + unit * point[order],
            shares=shares / shares.sum(),
            doubts=unit / np.sqrt(np.maximum(inside[order], TINY)),
            likelihood=likelihood,
        )
        found.append(one)
    found.sort(key=lambda one: -one.likelihood)
    return [one for place, one in enumerate(found) if not any(_same(one, other) for other in found[:place])]


def _starts(value: Floats, error: Floats, clusters: int) -> list[Ints]:
    """Return labels to start from; see `fits`."""
    order = np.argsort(-value, kind="stable")
    rank = np.argsort(order, kind="stable")
    starts: list[Ints] = [rank * clusters // value.size]
    if clusters == 1:
        return starts
    cuts = np.sort(np.argsort(np.diff(value[order]), kind="stable")[: clusters - 1])
    starts.append((rank[:, None] > cuts).sum(axis=1))
    for some in (value, value[error <= np.median(error)]):
        marks = np.linspace(some.max(), some.min(), clusters + 1)[1:-1]
        starts.append((value[:, None] < marks).sum(axis=1))
    if clusters <= FEW:
        starts += [(rank[:, None] >= np.array(ends) * value.size).sum(axis=1) for ends in ENDS[clusters]]
    return starts


def fit(value: Floats, error: Floats, clusters: int, *, further: Sequence[Ints] = ()) -> Mixture:
    """Return the most likely mixture that a few starts find; see `fits`."""
    return fits(value, error, clusters, further=further)[0]


def _same(one: Mixture, other: Mixture) -> bool:
    return bool((np.abs(one.levels - other.levels) <= 1e-3 * (one.doubts + other.doubts)).all())
