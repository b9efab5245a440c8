"""k-means on a Gaussian mixture on the line: its centres for many items, and how those of N items scatter.

The items are N, a fixed number from each component (the clusters' sizes are given), so the scatter is that of a
stratified sample. Everything is to first order in 1/N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from coordinator.protocol.arrays import Floats, Ints
from scenarios.theory.normal import density as normal_density

STEPS = 20_000  # Lloyd's iteration ends long before, when no centre moves
POINTS = 600  # about as many quantiles stand for the mixture when the starting centres are sought
FAR = 40.0  # standard deviations at which the normal density and tail are 0 in double precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Item scores as a Gaussian mixture, one component a cluster.

    Parameters
    ----------
    means, deviations : array of float, shape (L,)
        Mean and standard deviation of each component.
    sizes : array of int, shape (L,)
        Items of each component.
    """

    means: Floats
    deviations: Floats
    sizes: Ints

    @property
    def shares(self) -> Floats:
        """Share of the items in each component, shape (L,)."""
        return np.asarray(self.sizes / self.sizes.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Where k-means on a sample of N items cuts the line into L intervals.

    Parameters
    ----------
    limit : array of float, shape (L - 1,)
        The cuts for infinitely many items, ascending.
    shift : array of float, shape (L, L - 1)
        Expected displacement, of order 1/N, of the value that decides on which side of a cut an item of a cluster
        falls.
    variance : array of float, shape (L - 1,)
        Variance of each cut, of order 1/N.
    """

    limit: Floats
    shift: Floats
    variance: Floats


def best_centres(mixture: Mixture) -> Floats:
    """Give the ascending centres, shape (L,), of the best k-means clustering of the whole mixture with k = L."""
    centres = _start(mixture)
    for _ in range(STEPS):
        mass, first, _ = _partial_moments(mixture, centres)
        total, moment = mixture.shares @ mass, mixture.shares @ first + centres * (mixture.shares @ mass)
        moved = np.where(total > 0, moment / np.where(total > 0, total, 1), centres)
        if np.abs(moved - centres).max() < 1e-10 * (1 + np.abs(centres).max()):
            return np.asarray(moved)
        centres = moved
    return centres


def sampled_cuts(mixture: Mixture) -> Cuts:
    """Give the cuts of k-means on as many items as the mixture counts, to first order in 1/N.

    Notes
    -----
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
    density, slope = _densities(mixture, limit)
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


def _partial_moments(mixture: Mixture, centres: Floats) -> tuple[Floats, Floats, Floats]:
    """Mass, and first and second moment around the cell's centre, of every component in every cell: shapes (L, L)."""
    edges = np.concatenate(([-np.inf], (centres[1:] + centres[:-1]) / 2, [np.inf]))
    means, deviations = mixture.means[:, None], mixture.deviations[:, None]
    ends = np.clip((edges - means) / deviations, -FAR, FAR)
    density, offset = normal_density(ends), means - centres
    mass = np.diff(ndtr(ends), axis=1)
    lean = -deviations * np.diff(density, axis=1)
    square = deviations**2 * (mass - np.diff(ends * density, axis=1))
    return mass, lean + offset * mass, square + 2 * offset * lean + offset**2 * mass


def _densities(mixture: Mixture, points: Floats) -> tuple[Floats, Floats]:
    """Density of every component at the points, and its derivative: shapes (L, points)."""
    scaled = (points - mixture.means[:, None]) / mixture.deviations[:, None]
    density = normal_density(scaled) / mixture.deviations[:, None]
    return density, -scaled * density / mixture.deviations[:, None]


def _start(mixture: Mixture) -> Floats:
    """Centres of least within-cluster variance for a fine discrete stand-in of the mixture.

    Dynamic programming over contiguous groups of the sorted points finds the best grouping of all.
    """
    count = mixture.means.size
    each = max(16, POINTS // count)
    quantiles = ndtri((np.arange(each) + 0.5) / each)
    points = (mixture.means[:, None] + mixture.deviations[:, None] * quantiles).ravel()
    order = np.argsort(points)
    points, weights = points[order], np.repeat(mixture.shares / each, each)[order]
    mass, first, second = (np.concatenate(([0.0], np.cumsum(weights * points**k))) for k in range(3))

    def cost(low: Ints, high: Ints) -> Floats:
        empty = low >= high  # a group [low, high) holds at least one point
        group = np.where(empty, 1, mass[high] - mass[low])
        squares = second[high] - second[low] - (first[high] - first[low]) ** 2 / group
        return np.asarray(np.where(empty, np.inf, squares))

    places = np.arange(points.size + 1)
    best, choices = cost(np.array(0), places), []
    every = cost(places[:, None], places) if count > 2 else None
    for left in range(count - 1, 0, -1):  # the last group ends where all end
        total = best[:, None] + (every if left > 1 and every is not None else cost(places[:, None], places[-1:]))
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [points.size]
    for choice in reversed(choices):
        ends.append(int(choice[ends[-1] if choice.size > 1 else 0]))
    cuts = np.array([*ends, 0])[::-1]
    return np.asarray(np.diff(first[cuts]) / np.diff(mass[cuts]))
