"""Mixtures: the clusters' levels and shares behind noisy estimates, by maximum likelihood; compiled."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.compiled import borrowing, compiled

STEPS, TRIES = 100, 40
SETTLED = 1e-16  # The climb ends once a step gains less than this, as a share of one and the log-likelihood
TINY = 1e-200
FAR = 2.0  # Most that a step changes a logit


@compiled
def height(
    value: Floats, precision: Floats, point: Floats, prior: Floats, slope: Floats, curve: Floats2, information: Floats
) -> float:
    """Return the penalized log-likelihood at a point, up to what no parameter changes, and write how it changes.

    Shapes: ``value``, ``precision`` (N,); ``point`` (2 L,); ``prior`` (3,); ``information`` (2 L,).
    """
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
    """Move a point to the next maximum of `height` and return its height.

    ``curve`` receives minus the matrix of second derivatives there, ``inside``, shape (L,), the precision of each level
    if every item's cluster were known.
    """
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
        one = Mixture(
            levels=centre + unit * point[order],
            shares=shares / shares.sum(),
            doubts=unit / np.sqrt(np.maximum(inside[order], TINY)),
            likelihood=likelihood,
        )
        mixtures.append(one)
    mixtures.sort(key=lambda one: -one.likelihood)
    return [one for place, one in enumerate(mixtures) if not any(_same(one, other) for other in mixtures[:place])]


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


def _same(one: Mixture, other: Mixture) -> bool:
    return bool((np.abs(one.levels - other.levels) <= 1e-3 * (one.doubts + other.doubts)).all())
