"""What share of the items k-means puts right on the trusted curator's noisy totals, before anything is run."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.open_ratings import DiscreteLaplace, item_sensitivity
from coordinator.server.moments.blocks import BlockParameters
from scenarios.theory.prediction import LineLaw, kmeans_cuts, line_accuracy, line_exact, normal_density

LATTICE = 1 << 17  # noisy totals that spread over more whole numbers than this get a density
TAIL, DEVIATIONS = 45.0, 12.0  # Laplace scales and standard deviations that a lattice or a grid spans
CELLS = 4000  # of a density's grid, for each cluster


def curator_accuracy(parameters: BlockParameters, *, users: int, epsilon: Epsilon) -> float:
    """Predict the share of items right on the curator's totals ``T_i = sum_u (2 R_ui - 1)``, under the best matching.

    ``epsilon`` in nats.

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
    """
    return line_exact(*_cut_totals(parameters, users, epsilon))


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
    """Return ``P(X + Y > offset)`` for X normal and Y Laplace, both centred; relative precision in the tail too."""
    z = offset / deviation
    if scale == 0:
        return np.asarray(ndtr(-z))
    s = deviation / scale
    density = normal_density(z)
    heavy = np.where(
        z <= s, density * _mills(np.maximum(s - z, 0)), np.exp(np.minimum(s * s / 2 - s * z, 0) + log_ndtr(z - s))
    )
    return ndtr(-z) - density * _mills(s + z) / 2 + heavy / 2


def _mills(value: Floats) -> Floats:
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(value / math.sqrt(2)))
