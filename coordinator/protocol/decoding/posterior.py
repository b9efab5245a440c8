"""Mixtures by maximum likelihood, and posteriors of items' clusters, averaged over levels and shares; compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy

from coordinator.protocol.arrays import Bools, Floats, Floats2, Indices, Ints
from coordinator.protocol.compiled import borrowing, compiled
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.messages import Model

STEPS, TRIES = 100, 40
SETTLED = 1e-16  # The climb ends once a step gains less than this, as a share of one and the log-likelihood
TINY = 1e-200
FAR = 2.0  # Most that a step changes a logit


@compiled
def height(
    value: Floats, precision: Floats, point: Floats, prior: Floats, slope: Floats, curve: Floats2, information: Floats
) -> float:
    """Return the penalized log-likelihood at a point, up to what no parameter changes, and write how it changes."""
    # Shapes: ``value``, ``precision`` (N,); ``point`` (2 L,); ``prior`` (3,); ``information`` (2 L,).
    clusters = point.size // 2
    levels, logits = point[:clusters], point[clusters:]
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()
    log_shares = np.log(np.maximum(shares, 1e-300))
    part, pull = np.empty(clusters), np.empty(clusters)
    slope[:], curve[:], information[:] = 0.0, 0.0, 0.0
    likelihood = 0.0
    for item in range(value.size):
        best, total, mean = -np.inf, 0.0, 0.0
        for c in range(clusters):
            pull[c] = (value[item] - levels[c]) * precision[item]
            part[c] = log_shares[c] - (value[item] - levels[c]) * pull[c] / 2
            best = max(best, part[c])
        for c in range(clusters):
            part[c] = np.exp(part[c] - best)
            total += part[c]
        likelihood += best + np.log(total)
        for c in range(clusters):
            part[c] /= total
            mean = part[c] * pull[c]
            slope[c] += mean
            slope[clusters + c] += part[c]
            information[c] += part[c] * precision[item]
            curve[c, c] -= mean * pull[c]
            curve[c, clusters + c] -= mean
            curve[clusters + c, clusters + c] -= part[c]
        for c in range(clusters):
            for d in range(clusters):
                curve[c, d] += part[c] * pull[c] * part[d] * pull[d]
                curve[c, clusters + d] += part[c] * pull[c] * part[d]
                curve[clusters + c, clusters + d] += part[c] * part[d]
    items, shift = value.size + clusters * prior[2], logits.sum()
    for c in range(clusters):
        away = levels[c] - prior[0]
        likelihood += prior[2] * log_shares[c] - prior[1] * away**2 / 2
        information[c] += prior[1]
        slope[c] -= prior[1] * away
        curve[c, c] += information[c]
        slope[clusters + c] += prior[2] - items * shares[c] - shift
        curve[clusters + c, clusters + c] += items * shares[c]
        information[clusters + c] = items * shares[c] * (1 - shares[c]) + 1.0
        for d in range(clusters):
            curve[clusters + c, clusters + d] += 1.0 - items * shares[c] * shares[d]
            curve[clusters + d, c] = curve[c, clusters + d]
    return float(likelihood - shift**2 / 2)


@compiled
def factor(matrix: Floats2, lower: Floats2) -> bool:
    """Write the Cholesky factor of a matrix; return whether it is positive definite."""
    lower[:] = 0.0
    for i in range(len(matrix)):
        for j in range(i + 1):
            rest = matrix[i, j]
            for k in range(j):
                rest -= lower[i, k] * lower[j, k]
            if i > j:
                lower[i, j] = rest / lower[j, j]
            elif rest > 1e-13 * matrix[i, i]:
                lower[i, i] = np.sqrt(rest)
            else:
                return False
    return True


@compiled
def solve(lower: Floats2, right: Floats) -> Floats:
    """Return the solution of ``lower @ lower.T @ x = right``."""
    x = right.copy()
    for i in range(x.size):
        for k in range(i):
            x[i] -= lower[i, k] * x[k]
        x[i] /= lower[i, i]
    return back(lower, x)


@compiled
def back(lower: Floats2, right: Floats) -> Floats:
    """Return the solution of ``lower.T @ x = right``."""
    x = right.copy()
    for i in range(x.size - 1, -1, -1):
        for k in range(i + 1, x.size):
            x[i] -= lower[k, i] * x[k]
        x[i] /= lower[i, i]
    return x


def start_at(value: Floats, precision: Floats, labels: Ints, clusters: int) -> Floats:
    """Return the point of some labels, shape (N,): the mean of each cluster's estimates, and how many there are."""
    weights = np.bincount(labels, precision, clusters) + TINY
    logits = np.log(np.bincount(labels, minlength=clusters) + 1e-6)
    return np.concatenate((np.bincount(labels, precision * value, clusters) / weights, logits - logits.mean()))


@borrowing
def assign(target: Floats, source: Floats) -> None:
    """Copy elements one by one: for ``target[:] = source`` numba compiles an error message, too, in seconds."""
    for k in range(target.size):
        target[k] = source[k]


@compiled
def climb(value: Floats, precision: Floats, point: Floats, prior: Floats, curve: Floats2, inside: Floats) -> float:
    """Move a point to the next maximum of `height` and return its height."""
    # ``curve`` receives minus the matrix of second derivatives there, ``inside``, shape (L,), the precision of each
    # level if every item's cluster were known.
    size, clusters = point.size, point.size // 2
    there, slope, information, lower = 0.0, np.empty(size), np.empty(size), np.empty((size, size))
    ahead, ahead_slope, ahead_information = point.copy(), np.empty(size), np.empty(size)
    ahead_curve, bent = np.empty((size, size)), np.empty((size, size))
    here = height(value, precision, point, prior, slope, curve, information)
    # Newton's steps, shortened where they would not climb towards those of expectation and maximization, which are
    # safe and slow
    damp = 1.0
    for _ in range(STEPS):
        moved = False
        gain = 0.0
        for _ in range(TRIES):
            assign(bent.ravel(), curve.ravel())
            for k in range(size):
                bent[k, k] += damp * information[k] + 1e-12 * (information.max() + 1e-300)
            if factor(bent, lower):
                step = solve(lower, slope)
                gain = (step * slope).sum()
                longest = np.abs(step[clusters:]).max()
                if longest > FAR:
                    step *= FAR / longest
                assign(ahead, point + step)
                there = height(value, precision, ahead, prior, ahead_slope, ahead_curve, ahead_information)
                if there >= here - 1e-13 * (1 + abs(here)):
                    moved = True
                    break
            damp = max(4 * damp, 1e-6)
        if not moved:
            break
        damp /= 8
        assign(point, ahead)
        assign(slope, ahead_slope)
        assign(information, ahead_information)
        assign(curve.ravel(), ahead_curve.ravel())
        here = there
        if gain < SETTLED * (1 + abs(here)):
            break
    assign(inside, information[:clusters])
    return here


ENDS: dict[int, list[tuple[float, ...]]] = {2: [(0.1,), (0.9,)], 3: [(0.1, 0.9), (0.1, 0.4), (0.6, 0.9)]}
"""For two and three clusters: shares of the items above each cut, for starts with small clusters."""
NO_PRIOR = np.zeros(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Levels and shares of L clusters, the highest first."""

    levels: Floats  # shape (L,); The mean of a cluster's estimates, and the cluster's share of the items
    shares: Floats
    doubts: Floats  # shape (L,); Standard errors that the levels would have if it were known which items belong to each
    likelihood: float  # Log-likelihood of the estimates, up to a number that depends on their errors only


def joint(mixture: Mixture, value: Floats, error: Floats) -> Floats2:
    """Return log P(cluster, estimate) of every item at these levels and shares, shape (N, L)."""
    with np.errstate(divide="ignore"):
        prior = np.log(mixture.shares)
    return prior - ((value[:, None] - mixture.levels) / error[:, None]) ** 2 / 2 - np.log(error)[:, None]


def fits(value: Floats, error: Floats, clusters: int, *, further: Sequence[Ints] = ()) -> list[Mixture]:
    """Return the different mixtures that a few starts, and ``further`` labels (N,), lead to, the most likely first."""
    centre, unit = float(value.mean()), float(value.std()) or 1.0
    scaled, precision = (value - centre) / unit, (unit / error) ** 2
    mixtures = []
    for start in (*_starts(value, error, clusters), *further):
        point, inside = start_at(scaled, precision, start, clusters), np.empty(clusters)
        likelihood = climb(scaled, precision, point, NO_PRIOR, np.empty((2 * clusters, 2 * clusters)), inside)
        order = np.argsort(-point[:clusters], kind="stable")
        shares = np.exp(point[clusters:] - point[clusters:].max())[order]
        mixture = Mixture(
            levels=centre + unit * point[order],
            shares=shares / shares.sum(),
            doubts=unit / np.sqrt(np.maximum(inside[order], TINY)),
            likelihood=likelihood,
        )
        mixtures.append(mixture)
    mixtures.sort(key=lambda mixture: -mixture.likelihood)
    return [
        mixture
        for index, mixture in enumerate(mixtures)
        if not any(_same(mixture, other) for other in mixtures[:index])
    ]


def _starts(value: Floats, error: Floats, clusters: int) -> list[Ints]:
    """Return labels to start from; see `fits`."""
    # Clusters start with equal numbers of items, cut at the widest gaps, and as equal stretches between the extremes
    # of all items and of the better known half; two and three clusters also with few items at either end.
    order = np.argsort(-value, kind="stable")
    rank = np.argsort(order, kind="stable")
    starts: list[Ints] = [rank * clusters // value.size]
    if clusters == 1:
        return starts
    cuts = np.sort(np.argsort(np.diff(value[order]), kind="stable")[: clusters - 1])
    starts.append((rank[:, None] > cuts).sum(axis=1))
    for values in (value, value[error <= np.median(error)]):
        marks = np.linspace(values.max(), values.min(), clusters + 1)[1:-1]
        starts.append((value[:, None] < marks).sum(axis=1))
    if clusters in ENDS:
        starts += [(rank[:, None] >= np.array(ends) * value.size).sum(axis=1) for ends in ENDS[clusters]]
    return starts


def fit(value: Floats, error: Floats, clusters: int, *, further: Sequence[Ints] = ()) -> Mixture:
    """Return the most likely mixture that a few starts find; see `fits`."""
    return fits(value, error, clusters, further=further)[0]


def _same(mixture: Mixture, other: Mixture) -> bool:
    return bool((np.abs(mixture.levels - other.levels) <= 1e-3 * (mixture.doubts + other.doubts)).all())


POINTS, LEAST_POINTS, WORK = 512, 32, 1 << 16
"""Most and fewest points around a maximum; with more items fewer points do, since levels are known better."""
FREEDOM, WIDER = 8.0, 1.3
"""Degrees of freedom of Student's distribution, and how much wider it is than the curvature says."""
PRIOR = np.array([0.0, 1.0, 1.0])
"""The prior of `height`: mean and precision of levels in units of the estimates' range; uniform shares."""
CLOSE = 1e-4  # Squared distance below which two maxima count as one, in units of the posterior's spread
NEGLIGIBLE = 1e-12  # Smallest weight of a point, relative to the heaviest one, that is not left out
FAINT = 16.0  # Log-ratio of probabilities to the first maximum beyond which a maximum is left out


def integrated(value: Floats, error: Floats, near: Sequence[Mixture], sample: Indices) -> tuple[Floats2, Floats]:
    """Return P(cluster) of every item, shape (N, L), cluster 0 with the highest level, and every item's mean level."""
    # Shapes: ``value``, ``error`` (N,).
    # The prior is vague: levels are normal around the middle of the estimates, with the estimates' range as their
    # standard deviation, and all shares are equally probable. Every cluster has at least one item.
    # What is averaged over is x = (L levels, L logits of the shares). Its posterior has no closed form, so it is drawn
    # by importance sampling. The proposal is a mixture of Student's distributions, one around each maximum m of the
    # posterior that `climb` finds: with minus the second derivatives there, A = F F^T (F lower triangular),
    # x = m + F^-T z has the inverse covariance F F^T that a normal approximation has, and z is a Student vector, whose
    # tails are heavier than any that the posterior has near its maximum. Component m has as its weight the mass that
    # the normal approximation gives this maximum, e^height(m) (2 pi)^L / sqrt(det A), and sqrt(det A) = prod diag F.
    clusters = near[0].levels.size
    middle, unit = float(value.max() + value.min()) / 2, float(value.max() - value.min()) or 1.0
    scaled, precision = (value - middle) / unit, (unit / error) ** 2
    modes, factors, weights = list[Floats](), list[Floats2](), list[float]()
    for mixture in near:
        logits = np.log(np.maximum(mixture.shares, 1e-3 / value.size))
        mode = np.concatenate([(mixture.levels - middle) / unit, logits - logits.mean()])
        curve, lower = np.empty((2, 2 * clusters, 2 * clusters))
        inside = np.empty(clusters)
        reached = climb(scaled[sample], precision[sample], mode, PRIOR, curve, inside)
        if not factor(curve, lower):  # no maximum was reached, so use the curvature for known clusters
            lower = np.diag(np.sqrt(np.concatenate([inside, 1 + sample.size * scipy.special.softmax(mode[clusters:])])))
        if not any(_close(lower, mode - other) for other in modes):
            modes.append(mode)
            factors.append(lower)
            weights.append(reached - float(np.log(np.diag(lower)).sum()))
    relevant = np.array(weights) > max(weights) - FAINT
    shares = np.exp(np.array(weights)[relevant] - max(weights))
    counted, membership, means = np.zeros(value.size), np.zeros((value.size, clusters)), np.zeros(value.size)
    counted[sample] = 1.0
    points = _points(2 * clusters, max(LEAST_POINTS, min(POINTS, WORK // value.size)))
    around = (np.array(modes)[relevant], np.array(factors)[relevant], shares, points)
    _average(scaled, precision, counted, *around, membership, means)
    return membership, middle + unit * means


def _close(lower: Floats2, step: Floats) -> bool:
    return float(np.square(lower.T @ step).sum()) < CLOSE


@lru_cache(maxsize=64)
def _points(size: int, count: int) -> Floats2:
    """Return fixed, evenly spread points of Student's distribution around 0, shape (count, size)."""
    # The additive sequence of Roberts (2018) fills the unit cube; its first coordinate becomes the radius' share of the
    # points, all others are normal.
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (size + 2))
    cube = (0.5 + np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, size + 2))) % 1
    chi = 2 * scipy.special.gammaincinv(FREEDOM / 2, cube[:, :1])
    return np.asarray(scipy.special.ndtri(cube[:, 1:]) * WIDER * np.sqrt(FREEDOM / chi))


@compiled
def _average(
    value: Floats,
    precision: Floats,
    counted: Floats,
    modes: Floats2,
    factors: Floats2,
    shares: Floats,
    points: Floats2,
    membership: Floats2,
    means: Floats,
) -> None:
    """Average P(cluster) and levels over the points around all modes; see `integrated`."""
    clusters, heaviest = modes.shape[1] // 2, -np.inf
    local, level, log_shares = np.empty((value.size, clusters)), np.empty(clusters), np.empty(clusters)
    order = np.empty(clusters, np.int64)
    for m in range(len(modes)):
        for s in range(len(points)):
            # Points of component m are drawn from its density q_m alone, but weighed by the whole mixture's density
            # q = sum_m w_m q_m: since the integral of f p is sum_m w_m times the mean of f p / q under q_m, the point
            # has weight w_m p(x) / q(x), with p the posterior up to a factor. That never exceeds p / q_m, and two
            # maxima that lie close together are not counted twice.
            point = modes[m] + back(factors[m], points[s])
            logits = point[clusters:]
            for c in range(clusters):  # by insertion, as there are few
                rank = c
                while rank > 0 and point[order[rank - 1]] < point[c]:
                    order[rank] = order[rank - 1]
                    rank -= 1
                order[rank] = c
            total = np.log(np.exp(logits - logits.max()).sum()) + logits.max()
            # The L logits hold one number more than the shares. Their sum is given a normal law of its own, which
            # changes no share; and a uniform law of the shares is one of the logits with density prod shares, the
            # determinant of the softmax up to a factor (PRIOR[2] = 1).
            log_weight = -(logits.sum() ** 2) / 2 - np.log(_proposed(modes, factors, shares, point)) + np.log(shares[m])
            for c in range(clusters):
                # posterior and prior are the same in every order of the clusters: cluster 0 has the highest level
                level[c], log_shares[c] = point[order[c]], logits[order[c]] - total
                log_weight += PRIOR[2] * log_shares[c] - PRIOR[1] * (level[c] - PRIOR[0]) ** 2 / 2
            log_weight += _belongs(value, precision, counted, level, log_shares, local)
            # weights are known up to a factor only; sums are kept in units of the heaviest weight so far
            if log_weight > heaviest:
                membership *= np.exp(heaviest - log_weight)
                means *= np.exp(heaviest - log_weight)
                heaviest = log_weight
            if np.exp(log_weight - heaviest) > NEGLIGIBLE:
                _add(np.exp(log_weight - heaviest), local, level, membership, means)
    for item in range(value.size):
        mass = membership[item].sum()
        means[item] /= mass
        assign(membership[item], membership[item] / mass)


@compiled
def _proposed(modes: Floats2, factors: Floats2, shares: Floats, point: Floats) -> float:
    """Return a point's density up to a factor: Student's distributions around the modes, weighted by their shares."""
    # z = F^T (x - m) has det F as its Jacobian, and a Student vector of n degrees of freedom, dimension D and scale c
    # has a density proportional to (1 + |z|^2 / (c^2 n))^(-(n + D) / 2)
    size, density = point.size, 0.0
    for m in range(len(modes)):
        square, root = 0.0, 1.0
        for i in range(size):
            along = 0.0
            for k in range(i, size):
                along += factors[m, k, i] * (point[k] - modes[m, k])
            square += along**2
            root *= factors[m, i, i]
        density += shares[m] * root * (1 + square / WIDER**2 / FREEDOM) ** (-(FREEDOM + size) / 2)
    return density


@compiled
def _belongs(
    value: Floats, precision: Floats, counted: Floats, level: Floats, log_shares: Floats, local: Floats2
) -> float:
    """Write P(cluster) of every item where levels and shares are known; return the log-likelihood."""
    part, likelihood = np.empty(level.size), 0.0
    for item in range(value.size):
        best, mass = -np.inf, 0.0
        for c in range(level.size):
            part[c] = log_shares[c] - (value[item] - level[c]) ** 2 * precision[item] / 2
            best = max(best, part[c])
        for c in range(level.size):
            part[c] = np.exp(part[c] - best)
            mass += part[c]
        for c in range(level.size):
            local[item, c] = part[c] / mass
        likelihood += counted[item] * (best + np.log(mass))
    return likelihood


@compiled
def _add(weight: float, local: Floats2, level: Floats, membership: Floats2, means: Floats) -> None:
    """Add a point's P(item in cluster, no cluster is empty), neglecting that two clusters are empty at once."""
    # Given levels and shares, items belong to clusters independently. So cluster d is empty with probability
    # prod_j (1 - P(j in d)), and if item i is in cluster c it is with that over (1 - P(i in d)).
    empty = np.ones(level.size)
    for item in range(len(local)):
        for c in range(level.size):
            empty[c] *= 1 - local[item, c]
    for item in range(len(local)):
        for c in range(level.size):
            whole = 1.0
            for d in range(level.size):
                if d != c and empty[d] > 0:
                    whole -= empty[d] / (1 - local[item, d])
            mass = weight * local[item, c] * max(whole, 0.0)
            membership[item, c] += mass
            means[item] += mass * level[c]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """What the server believes after some rounds."""

    cluster: Indices  # shape (N,); The most probable cluster of every item; cluster 0 has the highest level
    doubt: Floats  # shape (N,); Probability that its true cluster is another one
    expected: Floats  # shape (N,); Posterior mean of every item's level
    mixture: Mixture | None  # The likeliest levels and shares; None if some item has been in no pool yet
    # Whether the clusters stand apart, which means that the estimates are much more likely with L clusters than with
    # fewer. If not, no item is decided, and every doubt is at least ``1 - 1/L``
    apart: bool

    def decided(self, failure: float) -> Bools:
        """Return which items are decided, so that all labels are right with probability ``1 - failure``."""
        # T is the largest threshold with ``sum_i min(doubt_i, T) <= failure``, and items with doubts up to T are
        # decided. The open items may later be decided at T as well, and the union bound over all items still holds. A
        # decided item with a smaller doubt than T leaves the difference to the others.
        doubts, items = np.sort(self.doubt), self.doubt.size
        below = np.concatenate([[0.0], np.cumsum(doubts)[:-1]])
        # T, if exactly the items before this one have smaller doubts
        room = (failure - below) / (items - np.arange(items))
        small = doubts <= room
        threshold = doubts[small].max() if small.any() else 0.0
        return self.apart & (self.doubt <= threshold)

    def withstanding(self, moved: Floats) -> Posterior:
        """Return the posterior with doubts that hold even if liars moved weighted estimates by so much, shape (N,)."""
        # ``moved`` is what liars added to each item's estimate times its information, at most, counted from any level.
        # The log-odds of an item's cluster against another one, a gap g away, are moved by ``g`` times that, most
        # against the farthest one. What is left of them, less this margin, is at most the honest answers' own log-odds,
        # so that whatever holds for honest answers with probability ``1 - failure`` (Ville's inequality) still holds.
        if self.mixture is None:
            return self
        doubt = np.clip(self.doubt, SMALLEST, 0.5)
        odds = np.log1p(-doubt) - np.log(doubt) - farthest_gaps(self.mixture)[self.cluster] * moved
        return replace(self, doubt=np.maximum(on_a_grid(scipy.special.expit(-odds)), self.doubt))

    def model(self, estimates: Estimates, clusters: int) -> Model:
        """Return the item model to hand to devices: every item's most probable cluster, its estimate as its score."""
        error = np.where(estimates.information > 0, estimates.error, 0.0)
        return Model(cluster=self.cluster, score=estimates.value, error=error, clusters=clusters)

    def threshold(self, failure: float) -> float:
        """Return the doubt T at which an open item would be decided; see `decided`."""
        decided = self.decided(failure)
        left = int((~decided).sum())
        return (failure - float(self.doubt[decided].sum())) / left if left else 1.0


def nearest_gaps(mixture: Mixture) -> Floats:
    """Return the gap between each level and the nearest other one, shape (L,); infinite for a single one."""
    gaps = np.append(-np.diff(mixture.levels), np.inf)
    return np.asarray(np.minimum(gaps, np.insert(gaps[:-1], 0, np.inf)))


def farthest_gaps(mixture: Mixture) -> Floats:
    """Return the gap between each level and the farthest other one, shape (L,); 0 for a single one."""
    return np.asarray(np.maximum(mixture.levels[0] - mixture.levels, mixture.levels - mixture.levels[-1]))


FITTED = 20_000  # Most items to which a mixture is fitted; more items would hardly improve levels and shares
SMALLEST, DOUBT_STEPS = 2.0**-900, 64  # The smallest doubt, and the number of grid steps of doubts in a factor of 2


def _sample_of(items: int) -> Indices:
    """Return the items to which a mixture is fitted: all, or a fixed random choice."""
    if items <= FITTED:
        return np.arange(items, dtype=np.int32)
    return np.random.default_rng(0).choice(items, FITTED, replace=False).astype(np.int32)


def on_a_grid(doubt: Floats) -> Floats:
    """Round doubts up to a grid of their logarithms, so that last bits hardly ever decide an item."""
    steps = np.ceil(np.log2(np.maximum(doubt, SMALLEST)) * DOUBT_STEPS - 1e-6)
    return np.minimum(np.exp2(steps / DOUBT_STEPS), 1.0)


def expected_levels(estimates: Estimates, *, clusters: int) -> Floats | None:
    """Return each item's expected level in the likeliest mixture; None if some item has been in no pool yet."""
    if not (estimates.information > 0).all():
        return None
    value, error = estimates.value, estimates.error
    sample = _sample_of(value.size)
    mixture = fit(value[sample], error[sample], clusters)
    return scipy.special.softmax(joint(mixture, value, error), axis=1) @ mixture.levels


def unsure(expected: Floats, clusters: int) -> Posterior:
    """Return the posterior of a server that can decide nothing; below 0 the second cluster is expected."""
    doubt = np.full(expected.size, 1 - 1 / clusters)
    cluster = (expected < 0).astype(np.int32)
    return Posterior(cluster=cluster, doubt=doubt, expected=expected, mixture=None, apart=False)


def believe(estimates: Estimates, *, clusters: int, failure: float) -> Posterior:
    """Return the posterior from mixtures that fit the estimates with their known noise."""
    observed = estimates.information > 0
    if not observed.all():
        return unsure(np.zeros(observed.size), clusters)
    value, error = estimates.value, estimates.error
    sample = _sample_of(observed.size)
    mixtures = fits(value[sample], error[sample], clusters)
    mixture = mixtures[0]
    labels = joint(mixture, value[sample], error[sample]).argmax(axis=1)
    merged = [labels - (labels > cluster) for cluster in range(clusters - 1)]
    fewer = fit(value[sample], error[sample], clusters - 1, further=merged)
    apart = mixture.likelihood - fewer.likelihood > math.log(observed.size / failure)
    # once clusters stand apart, doubts are averaged over all possible levels and shares
    if apart:
        belongs, expected = integrated(value, error, mixtures, sample)
    else:
        belongs = scipy.special.softmax(joint(mixture, value, error), axis=1)
        expected = belongs @ mixture.levels
    cluster = belongs.argmax(axis=1).astype(np.int32)
    others = belongs.copy()
    others[np.arange(cluster.size), cluster] = 0
    doubt = on_a_grid(others.sum(axis=1))
    if not apart:
        doubt = np.maximum(doubt, 1 - 1 / clusters)
    return Posterior(cluster=cluster, doubt=doubt, expected=expected, mixture=mixture, apart=apart)
