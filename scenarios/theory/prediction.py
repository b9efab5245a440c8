"""What share of the items k-means should put right, from the exact moments of a design's scores."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.moments.blocks import SketchMoments
from scenarios.data.metrics import best_matching

ROOT = math.sqrt(2 * math.pi)


def normal_density(values: Floats) -> Floats:
    """Return the density at values of any shape."""
    return np.asarray(np.exp(-(values**2) / 2) / ROOT)


STEPS = 20_000  # Lloyd's iteration ends long before, when no centre moves
BINS = 300  # heaps by value, and as many by mass, stand for the law when the starting centres are sought


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLaw:
    """Law of an item's score on the line, cluster by cluster."""

    points: Floats  # shape (J,); Values, ascending
    mass: Floats  # shape (L, J); Probability of each value for an item of each cluster
    sizes: Ints  # shape (L,); Items in each cluster

    @property
    def shares(self) -> Floats:
        """Share of the items in each cluster."""
        return np.asarray(self.sizes / self.sizes.sum())


def line_accuracy(law: LineLaw, cuts: Floats) -> float:
    """Return the expected share of items in the interval that is matched to their cluster, under the best matching."""
    return float(law.shares @ matched(law, cuts)[1])


def line_exact(law: LineLaw, cuts: Floats) -> float:
    """Return the probability that every item is in the interval that is matched to its cluster, items independent."""
    with np.errstate(divide="ignore"):
        return math.exp(float(law.sizes @ np.log1p(-np.minimum(matched(law, cuts)[0], 1))))


def kmeans_cuts(law: LineLaw) -> Floats:
    """Return where k-means cuts a law of scores into L intervals; fewer where there are fewer distinct scores."""
    mass = np.concatenate(([0.0], np.cumsum(law.shares @ law.mass)))
    first = np.concatenate(([0.0], np.cumsum((law.shares @ law.mass) * law.points)))
    centres = _start(law.points, law.shares @ law.mass, law.sizes.size)
    for _ in range(STEPS):
        ends = np.concatenate(([0], np.searchsorted(law.points, half_way(centres), side="right"), [law.points.size]))
        inside = np.diff(mass[ends])
        moved = np.where(inside > 0, np.diff(first[ends]) / np.where(inside > 0, inside, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return half_way(centres)


def half_way(centres: Floats) -> Floats:
    """Return the cuts that send every point to the nearest centre: half way between neighbours."""
    return np.asarray((centres[1:] + centres[:-1]) / 2)


def matched(law: LineLaw, cuts: Floats) -> tuple[Floats, Floats]:
    """Probability, for each cluster, that an item falls outside or inside the interval matched to the cluster."""
    ends = np.searchsorted(law.points, cuts, side="right")
    nothing = np.zeros((law.sizes.size, 1))
    below = np.hstack((nothing, np.cumsum(law.mass, axis=1)))
    above = np.hstack((np.cumsum(law.mass[:, ::-1], axis=1)[:, ::-1], nothing))
    outside = np.hstack((nothing, below[:, ends])) + np.hstack((above[:, ends], nothing))
    rows, columns = best_matching(law.shares[:, None] * (1 - outside))
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
    return np.asarray(means[0] + _best_groups(heaps, means - means[0], min(clusters, heaps.size)))


def _best_groups(weights: Floats, points: Floats, clusters: int) -> Floats:
    """Centres of the contiguous groups of ascending points with the least sum of squares, by dynamic programming."""
    mass, first, second = (np.concatenate(([0.0], np.cumsum(weights * points**k))) for k in range(3))

    def cost(low: Ints, high: Ints) -> Floats:
        group = mass[high] - mass[low]
        group = np.where(group > 0, group, np.inf)  # points so light that their sum is lost in rounding
        squares = second[high] - second[low] - (first[high] - first[low]) ** 2 / group
        return np.asarray(np.where(low >= high, np.inf, squares))  # a group [low, high) holds at least one point

    places = np.arange(points.size + 1)
    best, choices = cost(np.array(0), places), []
    every = cost(places[:, None], places) if clusters > 2 else None
    for left in range(clusters - 1, 0, -1):  # the last group ends where all end
        total = best[:, None] + (every if left > 1 and every is not None else cost(places[:, None], places[-1:]))
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [points.size]
    for choice in reversed(choices):
        ends.append(int(choice[ends[-1] if choice.size > 1 else 0]))
    cuts = np.array([*ends, 0])[::-1]
    return np.asarray(np.diff(first[cuts]) / np.diff(mass[cuts]))


POINTS = 600  # about as many quantiles stand for the mixture when the starting centres are sought
FAR = 40.0  # standard deviations at which the normal density and tail are 0 in double precision


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreMixture:
    """Item scores as a Gaussian mixture, one component a cluster; all of shape (L,)."""

    means: Floats
    deviations: Floats
    sizes: Ints

    @property
    def shares(self) -> Floats:
        """Share of the items in each component, shape (L,)."""
        return np.asarray(self.sizes / self.sizes.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Where k-means on a sample of N items cuts the line into L intervals."""

    limit: Floats  # shape (L - 1,)
    shift: Floats  # shape (L, L - 1)
    variance: Floats  # shape (L - 1,)


def best_centres(mixture: ScoreMixture) -> Floats:
    """Give the ascending centres, shape (L,), of the best k-means clustering of the whole mixture with k = L."""
    centres = _limit_start(mixture)
    for _ in range(STEPS):
        mass, first, _ = _partial_moments(mixture, centres)
        total, moment = mixture.shares @ mass, mixture.shares @ first + centres * (mixture.shares @ mass)
        moved = np.where(total > 0, moment / np.where(total > 0, total, 1), centres)
        if np.abs(moved - centres).max() < 1e-10 * (1 + np.abs(centres).max()):
            return np.asarray(moved)
        centres = moved
    return centres


def sampled_cuts(mixture: ScoreMixture) -> Cuts:
    """Give the cuts of k-means on as many items as the mixture counts, to first order in 1/N.

    The centres solve ``sum_i psi(x_i, c) = 0`` with ``psi_a = 1[x nearest to c_a] (x - c_a)``, and Pollard (*A central
    limit theorem for k-means clustering*, Annals of Probability 10, 1982) gives their covariance
    ``V^-1 W V^-T / N``: V is minus the derivative of ``E psi``, W the covariance of psi, here within components.
    The shift of a cut for an item x of component l has three parts.

    - The centres' bias b: ``V b`` is half the second derivative of ``E psi`` applied to their covariance, plus
      ``sum_l share_l V_l V^-1 E_l psi / N`` and what the third part lets into the cells.
    - The other items lack one of component l: ``-V^-1 E_l psi / N`` on the centres.
    - The item belongs where the sum of squares is smaller after the centres have given way to it, which they do by
      ``(V^-1)_aa`` in cell a: ``gap ((V^-1)_aa - (V^-1)_bb) / (8 N)`` on the cut between a and b.
    """
    centres, items = best_centres(mixture), float(mixture.sizes.sum())
    mass, first, second = _partial_moments(mixture, centres)
    gaps, middle = np.diff(centres), _middle(centres.size)
    limit = middle @ centres
    scaled = (limit - mixture.means[:, None]) / mixture.deviations[:, None]
    density = normal_density(scaled) / mixture.deviations[:, None]  # of every component at the cuts, and its derivative
    slope = -scaled * density / mixture.deviations[:, None]
    sums = 2 * middle  # row c adds the two centres beside cut c
    curves = [
        np.diag(inside) - (sums.T * (gaps * heights / 4)) @ sums for inside, heights in zip(mass, density, strict=True)
    ]
    whole = np.tensordot(mixture.shares, np.array(curves), axes=1)
    inverse = np.linalg.inv(whole)
    within = np.diag(mixture.shares @ second) - (first.T * mixture.shares) @ first
    covariance = inverse @ within @ inverse.T / items
    given_way = gaps * -np.diff(np.diag(inverse)) / (8 * items)
    missing = first @ inverse.T / items
    total = mixture.shares @ density
    bend = _curvature(covariance, gaps, total, mixture.shares @ slope) / 2
    lacking = np.einsum("l,lab,lb->a", mixture.shares, np.array(curves), missing)
    bias = inverse @ (bend + lacking + (given_way * total * gaps / 2) @ sums)
    return Cuts(
        limit=limit,
        shift=(bias - missing) @ middle.T + given_way,
        variance=np.einsum("ca,ab,cb->c", middle, covariance, middle),
    )


def _curvature(covariance: Floats, gaps: Floats, density: Floats, slope: Floats) -> Floats:
    """Second derivative of ``E psi``, applied to the centres' covariance, shape (L,)."""
    middle = _middle(covariance.shape[0])
    difference = np.diff(np.eye(covariance.shape[0]), axis=0)
    with_middle = middle @ covariance
    widening = np.einsum("ca,ca->c", with_middle, difference)
    spread = np.einsum("ca,ca->c", with_middle, middle)
    entering = difference * with_middle * density[:, None]  # mass that a cut lets into the cells beside it, signed
    turning = (density * widening / 2 + gaps * slope * spread / 2) @ (2 * middle)
    return np.asarray(entering.sum(axis=0) + turning)


def _middle(count: int) -> Floats:
    """Matrix, shape (L - 1, L), that takes centres to the cuts half-way between neighbours."""
    return np.asarray((np.eye(count)[:-1] + np.eye(count)[1:]) / 2)


def _partial_moments(mixture: ScoreMixture, centres: Floats) -> tuple[Floats, Floats, Floats]:
    """Mass, and first and second moment around the cell's centre, of every component in every cell: shapes (L, L)."""
    edges = np.concatenate(([-np.inf], half_way(centres), [np.inf]))
    means, deviations = mixture.means[:, None], mixture.deviations[:, None]
    ends = np.clip((edges - means) / deviations, -FAR, FAR)
    density, offset = normal_density(ends), means - centres
    mass = np.diff(ndtr(ends), axis=1)
    lean = -deviations * np.diff(density, axis=1)
    square = deviations**2 * (mass - np.diff(ends * density, axis=1))
    return mass, lean + offset * mass, square + 2 * offset * lean + offset**2 * mass


def _limit_start(mixture: ScoreMixture) -> Floats:
    """Centres of least within-cluster variance for a fine discrete stand-in of the mixture."""
    count = mixture.means.size
    each = max(16, POINTS // count)
    quantiles = ndtri((np.arange(each) + 0.5) / each)
    points = (mixture.means[:, None] + mixture.deviations[:, None] * quantiles).ravel()
    order = np.argsort(points)
    return _best_groups(np.repeat(mixture.shares / each, each)[order], points[order], count)


NODES = 64  # Gauss-Hermite nodes for a cluster's mean: the logarithm of the integrand is smooth


def mixture_accuracy(mixture: ScoreMixture | None, sizes: Ints) -> float:
    """Predict the share of items that k-means on such scores puts right, under the best matching of labels.

    k-means is the best clustering, as the decoder finds it. Clusters with the same mean cannot be told apart: k-means
    then cuts elsewhere, through the bulk of the scores, and the value is what that gives by luck (1/2 for two equal
    clusters; a sample of N items has ``O(1/sqrt(N))`` more, because the matching is chosen after the fact). Where all
    scores are equal, None, it is the largest cluster's share.
    """
    if mixture is None:
        return float(sizes.max() / sizes.sum())
    rows, columns, inside = _matched(mixture, sampled_cuts(mixture))
    return float(mixture.shares[rows] @ inside[rows, columns])


def mixture_exact(mixture: ScoreMixture | None, sizes: Ints) -> float:
    """Predict the probability that all N labels are right, up to a permutation of labels; None: all scores are equal.

    When all is right, the centres are the true clusters' mean scores, which are independent of the scores' deviations
    from them. Given the means' gap G, an item of a cluster of n stays away from a neighbour of m items if its
    deviation from its own mean is below ``G k / (1 + k)``, ``k^2 = (1 - 1/n) / (1 + 1/m)`` (Hartigan's condition).
    The gaps are integrated out, cluster by cluster. Where the mixture's best cuts do not separate the clusters' means,
    as when clusters coincide, k-means cuts elsewhere and the value is 0.
    """
    if mixture is None:
        return float(sizes.size == 1)
    order = np.argsort(mixture.means)
    means, cuts = mixture.means[order], half_way(best_centres(mixture))
    if not bool(np.all((means[:-1] < cuts) & (cuts < means[1:]))):
        return 0.0
    return _chance_of_order(means, mixture.deviations[order], mixture.sizes[order])


def mixture_of(level: Floats, variance: Floats, sizes: Ints) -> ScoreMixture | None:
    """Return the mixture of independent estimates of such means and variances, one a cluster, in units of their noise.

    None where nothing is uncertain. A cluster's variance counts as at least a hundredth of the mean one.
    """
    noise = float(np.average(variance, weights=sizes))
    if noise == 0:
        return None
    centre = float(np.average(level, weights=sizes))
    deviations = np.sqrt(np.maximum(variance / noise, 0.01))
    return ScoreMixture(means=(level - centre) / math.sqrt(noise), deviations=deviations, sizes=sizes)


def mixture_of_scores(moments: SketchMoments, sizes: Ints, users: int, decoder: str) -> ScoreMixture | None:
    """Mixture of the scores in units of their mean noise, around their mean; None where all scores are equal.

    An item in a cluster with a larger effect is answered 1 more often, which changes its score's variance: the
    derivative of a design's noise, ``p (1 - p) q`` and ``p (1 - p) q (1 - q)`` for MaxSense, when the item's own rate
    moves by the effect, and so does that of the items sensed with it.
    """
    if sizes.shape != moments.effect.shape:
        raise InputError(f"cluster_sizes has shape {sizes.shape}; the moments have {moments.effect.size} clusters")
    deviation = moments.estimate_deviation(users, decoder)
    if deviation == 0:
        return None
    means, rate = moments.effect / deviation, moments.answer_rate
    if decoder == "paper":
        noise, spread, slope = moments.noise_paper, rate, 1.0
    else:
        noise, spread, slope = moments.noise_centred, rate * (1 - rate), 1 - 2 * rate
    change = moments.effect * slope * (2 / spread - moments.sensing / noise) if spread > 0 else np.zeros(sizes.size)
    return ScoreMixture(
        means=means - np.average(means, weights=sizes), deviations=np.sqrt(np.maximum(1 + change, 0.01)), sizes=sizes
    )


def _matched(mixture: ScoreMixture, cuts: Cuts) -> tuple[Ints, Ints, Floats]:
    """Match clusters (rows) with intervals (columns), and give the chance of each to hold an item of each cluster."""
    spread = np.sqrt(mixture.deviations[:, None] ** 2 + cuts.variance)
    below = ndtr((cuts.limit + cuts.shift - mixture.means[:, None]) / spread)
    inside = np.maximum(np.diff(below, axis=1, prepend=0, append=1), 0)
    rows, columns = best_matching(mixture.shares[:, None] * inside)
    return rows, columns, inside


def _chance_of_order(means: Floats, deviations: Floats, sizes: Ints) -> float:
    """Chance that Hartigan's condition holds at every item, for clusters in ascending order of their means.

    A chain: the sum over one cluster's mean, given the next one's, at a time.
    """
    points, logs = _nodes()
    total = logs
    for low in range(means.size - 1):
        high = low + 1
        lower, upper = (means[k] + points * deviations[k] / math.sqrt(sizes[k]) for k in (low, high))
        gap = upper[None, :] - lower[:, None]
        stay = _log_stay(gap, deviations[low], sizes[low], sizes[high])
        stay = stay + _log_stay(gap, deviations[high], sizes[high], sizes[low])
        total = logsumexp(total[:, None] + stay, axis=0) + logs
    return math.exp(min(0.0, float(logsumexp(total))))


@cache
def _nodes() -> tuple[Floats, Floats]:
    """Return the nodes of an integral over the normal law, and the logarithms of their weights, which sum to 1."""
    points, weights = hermegauss(NODES)
    return points, np.log(weights / weights.sum())


def _log_stay(gap: Floats, deviation: float, size: int, neighbour: int) -> Floats:
    """Logarithm of the chance that no item of a cluster is nearer to a neighbour at the given gap.

    Deviations from the cluster's own mean have variance ``1 - 1/n`` and correlation ``-1 / (n - 1)``, whose effect on
    the chance is counted to first order.
    """
    if size == 1:
        return np.zeros_like(gap)
    ratio = math.sqrt((1 - 1 / size) / (1 + 1 / neighbour))
    reach = gap * ratio / (1 + ratio) / (deviation * math.sqrt(1 - 1 / size))
    log_below, log_density = log_ndtr(reach), -(reach**2) / 2 - math.log(ROOT)
    return np.asarray(size * log_below - size / 2 * np.exp(2 * (log_density - log_below)))
