"""What share of the items k-means puts right on the trusted curator's noisy totals, before anything is run.

`LineLaw` and the three functions beside it serve every design that clusters one score an item on the line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import erfcx, log_ndtr
from scipy.stats import norm

from coordinator.curator import DiscreteLaplace, item_sensitivity
from coordinator.moments import BlockParameters
from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError

STEPS = 20_000  # Lloyd's iteration ends long before, when no centre moves
BINS = 300  # heaps by value, and as many by mass, stand for the law when the starting centres are sought
LATTICE = 1 << 17  # noisy totals that spread over more whole numbers than this get a density
TAIL, DEVIATIONS = 45.0, 12.0  # Laplace scales and standard deviations that a lattice or a grid spans
CELLS = 4000  # of a density's grid, for each cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLaw:
    """Law of an item's score on the line, cluster by cluster.

    Attributes
    ----------
    points : ndarray of float64, shape (J,)
        Values, ascending.
    mass : ndarray of float64, shape (L, J)
        Probability of each value for an item of each cluster.
    sizes : ndarray of int64, shape (L,)
        Items in each cluster.
    """

    points: Floats
    mass: Floats
    sizes: Ints

    @property
    def shares(self) -> Floats:
        """Share of the items in each cluster."""
        return np.asarray(self.sizes / self.sizes.sum())


def curator_accuracy(parameters: BlockParameters, *, users: int, epsilon: Epsilon) -> float:
    """Predict the share of items right on the curator's totals ``T_i = sum_u (2 R_ui - 1)``, under the best matching.

    Parameters
    ----------
    parameters : BlockParameters
        The block model.
    users : int
        Users whose ratings the curator sees, U.
    epsilon : Fraction or None
        Privacy parameter of the totals [nats], one user added or removed; None for no noise.

    Returns
    -------
    float
        Expected share, in [0, 1].

    Raises
    ------
    InputError
        If there is no user, or epsilon is too small for `DiscreteLaplace`.

    Notes
    -----
    The exact law of one total given how many users each class has (their expected numbers), plus the noise's, found
    from characteristic functions; where it spreads over many whole numbers, the normal-Laplace law with variance
    ``U (w/N - w(w-1)/(N(N-1)) sum_k alpha_k (2 b_kl - 1)^2)`` of sampling: the variance of a total less the covariance
    of two of a cluster, which moves a whole cluster and its cuts. k-means cuts half way between the centres of what it
    cuts, in the limit of many items. Chance in the numbers of users in the classes is left out: where all users rate
    nearly all items and clusters nearly coincide, it sets them apart now and then.
    """
    return line_accuracy(*_cut_totals(parameters, users, epsilon))


def curator_exact(parameters: BlockParameters, *, users: int, epsilon: Epsilon) -> float:
    """Predict the probability that all items are right on the curator's totals, up to a permutation of labels.

    Arguments, errors and notes as `curator_accuracy`; items are taken as independent around their cluster's mean.

    Returns
    -------
    float
        In [0, 1].
    """
    return line_exact(*_cut_totals(parameters, users, epsilon))


def line_accuracy(law: LineLaw, cuts: Floats) -> float:
    """Return the expected share of items in the interval that is matched to their cluster, under the best matching."""
    return float(law.shares @ _matched(law, cuts)[1])


def line_exact(law: LineLaw, cuts: Floats) -> float:
    """Return the probability that every item is in the interval that is matched to its cluster, items independent."""
    with np.errstate(divide="ignore"):
        return math.exp(float(law.sizes @ np.log1p(-np.minimum(_matched(law, cuts)[0], 1))))


def kmeans_cuts(law: LineLaw) -> Floats:
    """Return where k-means cuts a law of scores into L intervals; fewer where there are fewer distinct scores.

    Parameters
    ----------
    law : LineLaw
        What many items' scores are drawn from.

    Returns
    -------
    ndarray of float64, shape (at most L - 1,)
        Ascending, half way between neighbouring centres: a fixed point of Lloyd's iteration, started from the
        grouping of least within-cluster variance of a coarser law.
    """
    mass = np.concatenate(([0.0], np.cumsum(law.shares @ law.mass)))
    first = np.concatenate(([0.0], np.cumsum((law.shares @ law.mass) * law.points)))
    centres = _start(law.points, law.shares @ law.mass, law.sizes.size)
    for _ in range(STEPS):
        ends = np.concatenate(([0], np.searchsorted(law.points, _half_way(centres), side="right"), [law.points.size]))
        inside = np.diff(mass[ends])
        moved = np.where(inside > 0, np.diff(first[ends]) / np.where(inside > 0, inside, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return _half_way(centres)


def _half_way(centres: Floats) -> Floats:
    return np.asarray((centres[1:] + centres[:-1]) / 2)


def _matched(law: LineLaw, cuts: Floats) -> tuple[Floats, Floats]:
    """Probability, for each cluster, that an item falls outside or inside the interval matched to the cluster."""
    ends = np.searchsorted(law.points, cuts, side="right")
    nothing = np.zeros((law.sizes.size, 1))
    below = np.hstack((nothing, np.cumsum(law.mass, axis=1)))
    above = np.hstack((np.cumsum(law.mass[:, ::-1], axis=1)[:, ::-1], nothing))
    outside = np.hstack((nothing, below[:, ends])) + np.hstack((above[:, ends], nothing))
    rows, columns = linear_sum_assignment(law.shares[:, None] * (1 - outside), maximize=True)
    misses = np.ones(law.sizes.size)
    misses[rows] = outside[rows, columns]
    return misses, 1 - np.minimum(misses, 1)


def _start(points: Floats, weights: Floats, clusters: int) -> Floats:
    """Centres of the best grouping of a coarser law into contiguous groups, by dynamic programming."""
    by_mass = np.searchsorted(np.cumsum(weights), np.linspace(0, weights.sum(), BINS)[1:-1])
    by_value = np.searchsorted(points, np.linspace(points[0], points[-1], BINS)[1:-1])
    starts = np.unique(np.concatenate(([0], by_mass, by_value)))
    starts = starts[starts < points.size]
    heaps = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * points, starts)[heaps > 0] / heaps[heaps > 0]
    heaps = heaps[heaps > 0]
    mass, first, second = (np.concatenate(([0.0], np.cumsum(heaps * (means - means[0]) ** k))) for k in range(3))
    empty = np.tri(heaps.size + 1, dtype=bool)  # a group [row, column) holds at least one heap
    group = np.where(empty, 1, mass[None, :] - mass[:, None])
    group[group <= 0] = np.inf  # heaps so light that their sum is lost in rounding
    cost = second[None, :] - second[:, None] - (first[None, :] - first[:, None]) ** 2 / group
    cost[empty] = np.inf
    best, choices = cost[0], []
    for _ in range(min(clusters, heaps.size) - 1):
        total = best[:, None] + cost
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [heaps.size]
    for choice in reversed(choices):
        ends.append(int(choice[ends[-1]]))
    cuts = np.array([*ends, 0])[::-1]
    return np.asarray(means[0] + np.diff(first[cuts]) / np.diff(mass[cuts]))


def _cut_totals(parameters: BlockParameters, users: int, epsilon: Epsilon) -> tuple[LineLaw, Floats]:
    """Law of the noisy totals, around the mean of the clusters, and where k-means cuts it."""
    if users < 1:
        raise InputError(f"users = {users}; give at least 1")
    noise = DiscreteLaplace(budget=epsilon, sensitivity=item_sensitivity(parameters.rated))
    rate = parameters.rated / parameters.items
    means = users * rate * (parameters.class_shares @ (2 * parameters.like - 1))
    deviations = np.sqrt(users * _variances(parameters))
    width = float(np.ptp(means) + 2 * (DEVIATIONS * deviations.max() + TAIL / noise.rate) + 40)
    if width <= LATTICE:
        law = _lattice_law(parameters, users, noise, means, width)
        return law, kmeans_cuts(law)
    means = means - means.mean()
    cuts = kmeans_cuts(_density_law(means, deviations, 1 / noise.rate, parameters.cluster_sizes, np.empty(0)))
    return _density_law(means, deviations, 1 / noise.rate, parameters.cluster_sizes, cuts), cuts


def _variances(parameters: BlockParameters) -> Floats:
    """Variance that one user adds to a total, less the covariance with the total of another item of the cluster."""
    items, rated = parameters.items, parameters.rated
    both = rated * (rated - 1) / (items * max(1, items - 1))
    return np.asarray(rated / items - both * (parameters.class_shares @ (2 * parameters.like - 1) ** 2))


def _lattice_law(
    parameters: BlockParameters, users: int, noise: DiscreteLaplace, means: Floats, width: float
) -> LineLaw:
    """Exact law of the noisy totals on whole numbers, classes at their expected sizes, by one Fourier transform."""
    length = 1 << math.ceil(math.log2(width))
    centre = round(float(means.max() + means.min()) / 2)
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    turn, rate = -2 * np.sin(angles / 2) ** 2, parameters.rated / parameters.items
    logs = np.tile(-1j * angles * centre, (means.size, 1))
    for share, like in zip(_class_users(parameters.class_shares, users), parameters.like, strict=True):
        real, imaginary = rate * turn, rate * np.outer(2 * like - 1, np.sin(angles))
        with np.errstate(divide="ignore"):
            size = 0.5 * np.log1p(np.maximum(2 * real + real**2 + imaginary**2, -1))
        logs += share * (np.maximum(size, -1e300) + 1j * np.arctan2(imaginary, 1 + real))
    if math.isfinite(noise.rate):
        stop = -math.expm1(-noise.rate)
        logs -= np.log1p(-2 * math.exp(-noise.rate) * turn / stop**2)
    mass = np.fft.irfft(np.exp(logs).conj(), length, axis=1)
    mass[mass < 1e-17] = 0  # the transform's rounding
    points = np.arange(length) - np.where(np.arange(length) >= length // 2, length, 0)
    order = np.argsort(points)
    return LineLaw(points=points[order].astype(float), mass=mass[:, order], sizes=parameters.cluster_sizes)


def _class_users(shares: Floats, users: int) -> Floats:
    """Whole numbers of users in the classes, nearest to their expectations."""
    ends = np.rint(np.cumsum(shares) * users)
    ends[-1] = users
    return np.diff(ends, prepend=0)


def _density_law(means: Floats, deviations: Floats, scale: float, sizes: Ints, cuts: Floats) -> LineLaw:
    """Normal-Laplace law on a grid of cells around each mean; cuts are ends of cells."""
    deviations = np.maximum(deviations, 1e-9 * max(scale, 1.0))
    reach = DEVIATIONS * deviations.max() + TAIL * scale
    around = np.sinh(np.linspace(-4, 4, CELLS)) / math.sinh(4)
    edges = np.unique(np.concatenate(((means[:, None] + reach * around).ravel(), cuts)))
    offsets = edges[None, :] - means[:, None]
    upper = normal_laplace_tail(np.abs(offsets), deviations[:, None], scale)
    lower_half = offsets < 0
    mass = np.where(
        lower_half[:, 1:],
        np.diff(upper, axis=1),
        np.where(lower_half[:, :-1], 1 - upper[:, 1:] - upper[:, :-1], -np.diff(upper, axis=1)),
    )
    return LineLaw(points=(edges[1:] + edges[:-1]) / 2, mass=np.maximum(mass, 0), sizes=sizes)


def normal_laplace_tail(offset: Floats, deviation: Floats, scale: float) -> Floats:
    """Return ``P(X + Y > offset)`` for X normal and Y Laplace, both centred; relative precision in the tail too.

    Parameters
    ----------
    offset : ndarray of float64
        At least 0.
    deviation : ndarray of float64
        Standard deviation of X, above 0; broadcast against ``offset``.
    scale : float
        Scale of Y, at least 0.

    Returns
    -------
    ndarray of float64
        ``Phi(-z) - phi(z) (R(s + z) - R(s - z)) / 2`` with ``z = offset / deviation``, ``s = deviation / scale`` and
        Mills' ratio ``R(t) = Phi(-t) / phi(t)`` (Reed 2006), in a form without large numbers.
    """
    z = offset / deviation
    if scale == 0:
        return norm.sf(z)
    s = deviation / scale
    density = norm.pdf(z)
    heavy = np.where(
        z <= s, density * _mills(np.maximum(s - z, 0)), np.exp(np.minimum(s * s / 2 - s * z, 0) + log_ndtr(z - s))
    )
    return norm.sf(z) - density * _mills(s + z) / 2 + heavy / 2


def _mills(value: Floats) -> Floats:
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(value / math.sqrt(2)))
