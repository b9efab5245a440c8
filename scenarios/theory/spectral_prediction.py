"""How well spectral clustering of pair statistics should do, from exact moments, before anything is run.

Off the diagonal, the decoder's matrix is a block matrix of means plus independent noise, zero on the diagonal. Its
eigenvalues outside the noise's bulk, with their eigenvectors' means and noise by item, solve the equations of spiked
matrices with a variance profile (Ajanki, Erdős, Krüger, *Universality for general Wigner-type matrices*, 2017;
Benaych-Georges, Nadakuditi, *The eigenvalues and eigenvectors of finite, low rank perturbations of large random
matrices*, 2011). With two equal clusters, one spike and equal variances s^2 that is ``z^2 = theta^2 - 1`` with
``theta = |eigenvalue of the signal| / (s sqrt N)``. No constant is fitted; one is set, to 1: that of
the finite-size order in `predict_signal`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr

from coordinator.protocol.arrays import Floats
from coordinator.protocol.compiled import compiled
from coordinator.server.moments.pairs import BlockSignal, nearest_root
from coordinator.server.moments.probabilities import root_between
from scenarios.data.metrics import best_matching
from scenarios.theory.normal_points import normal_points
from scenarios.theory.partition import STARTS, best_partition, decoder_coins

DRAWS, POINTS = 8, 200  # with noise eigenvectors: samples of the items; in each at most so many points a cluster
POPULATION = 512  # without: points that stand for a cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spike:
    """An eigenvector ``u_i = reply (drive + own noise . u + row noise . sums)`` of an eigenvalue outside the bulk."""

    value: float
    reply: Floats
    drive: Floats
    sums: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bulk:
    """An end of the bulk; ``tilt`` is a root of the covariance of its eigenvectors' means over the clusters."""

    value: float
    energy: Floats
    tilt: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _Profiles:
    """Items' profiles, in units of 1/sqrt(N): Gaussian, by cluster; noise eigenvectors come last."""

    told: int
    means: Floats
    covariances: Floats
    replies: Floats
    tilt: Floats


@dataclass(frozen=True, slots=True)
class Right:
    """What should be right under the best matching of labels."""

    share: float  # Expected share of items right, in [0, 1]
    all_right: float  # Probability that all items are right


def predict_signal(signal: BlockSignal) -> Right:
    """Predict what k-means on the L eigenvectors largest in magnitude puts right of N items.

    The zero diagonal shifts the noise's bulk by minus the mean of the own cluster's entries. With two equal clusters
    whose rates differ by less than about ``4 a_ll / N`` the shifted bulk hides the signal from the paper's decoder,
    however many users there are. An eigenvector that tells nothing is Gaussian noise of variance about 1/N: it
    distracts k-means, more so when its cluster means differ by chance. These are drawn (`DRAWS` samples of the items,
    fixed seed), with the eigenvector's overlap near the threshold bounded at its finite-size order, ``N^(-1/3)``.
    """
    sizes, misses = signal.sizes, _misses(signal)
    with np.errstate(divide="ignore"):
        chances = [math.exp(float(sizes @ np.log1p(-np.minimum(bound, 1)))) for _, bound in misses]
    shares = [sizes @ (1 - wrong) / sizes.sum() for wrong, _ in misses]
    return Right(float(np.mean(shares)), float(np.mean(chances)))


def _reply(noise: Floats, shift: Floats, value: float) -> Floats | None:
    """Solve ``1 / g = value + shift - noise g`` for the least positive g, None inside the bulk."""
    reply = _newton(noise, shift, value)
    return reply if reply.size else None


@compiled
def _newton(noise: Floats, shift: Floats, value: float) -> Floats:
    """Newton's iteration from 0 rises monotonically to the least solution where there is one; empty where not."""
    reply, nothing = np.zeros(shift.size), np.zeros(0)
    if (value + shift).min() <= 0:
        return nothing
    for _ in range(80):
        inverse = np.linalg.inv(np.diag(value + shift - noise @ reply) - reply.reshape(-1, 1) * noise)
        if inverse.min() < -1e-9 * np.abs(inverse).max():
            return nothing
        step = inverse @ (1 - (value + shift - noise @ reply) * reply)
        reply = reply + step
        if reply.min() <= 0:
            return nothing
        if np.abs(step).max() <= 1e-12 * reply.max():
            break
    return reply


@compiled
def _bulk_end(noise: Floats, shift: Floats, unit: float) -> float:
    """Return the bulk's upper end, from above: the least value that `_newton` has a solution for, by bisection."""
    low, high = -shift.min(), -shift.min() + 2 * unit
    for _ in range(50):
        middle = (low + high) / 2
        if _newton(noise, shift, middle).size == 0:
            low = middle
        else:
            high = middle
    return float(high)


def _side(signal: BlockSignal, sign: int) -> tuple[list[_Spike], _Bulk]:
    """Eigenvalues above the bulk of ``sign A``, and the bulk's upper end."""
    sizes, count, own = signal.sizes.astype(np.float64), signal.sizes.size, np.eye(signal.sizes.size)
    means, noise = sign * signal.means, signal.independent * (sizes - own)
    shift = np.diag(means).copy()
    unit = math.sqrt(float(noise.sum(axis=1).max())) + 1e-9 * float(np.abs(means).max())
    high = _bulk_end(noise, shift, unit)
    end = high + 1e-9 * (abs(high) + unit)
    # rows' shared noise completes the square: a sample's mean is independent of its scatter
    links = np.block([[means, sign * own], [sign * own, np.linalg.pinv(means, rcond=1e-9, hermitian=True)]])

    def spikes(value: float) -> tuple[Floats, Floats, Floats, Floats]:
        reply = _reply(noise, shift, value)
        assert reply is not None, "beyond the bulk there is a solution"
        weights, inner = sizes * reply, np.zeros((2 * count, 2 * count))
        inner[:count, :count], inner[count:, count:] = np.diag(weights), np.tensordot(weights, signal.shared, 1)
        root = nearest_root(inner)
        return (*np.linalg.eigh(root @ links @ root), root, reply)

    def excess(place: int, value: float) -> float:
        return float(spikes(value)[0][place]) - 1

    found = []
    strengths, _, _, reply = spikes(end)
    top = 2 * abs(end) + 4 * unit + float(np.abs(means).sum() * sizes.max())
    for k in np.flatnonzero(strengths > 1).tolist():
        while spikes(top)[0][k] > 1:
            top *= 2
        value = root_between(partial(excess, k), end, top)
        _, vectors, root, answer = spikes(value)
        push = sign * (links @ (root @ vectors[:, k]))
        found.append(_Spike(value=sign * value, reply=sign * answer, drive=push[:count], sums=push[count:]))
    return found, _bulk(signal, sign, end, reply)


def _bulk(signal: BlockSignal, sign: int, end: float, reply: Floats) -> _Bulk:
    """Describe the eigenvectors at an end of the bulk; they lean towards signals that just miss being told."""
    sizes = signal.sizes.astype(np.float64)
    spread = (sizes * reply**2)[:, None] * signal.independent * (1 - np.eye(sizes.size) / sizes)
    values, vectors = np.linalg.eig(spread)
    energy = np.abs(vectors[:, values.real.argmax()].real) if spread.any() else sizes
    energy = energy / energy.sum()
    weights = np.sqrt(sizes * reply)
    strengths, modes = np.linalg.eigh(weights[:, None] * sign * signal.means * weights)
    gain = modes / np.sqrt((1 - strengths) ** 2 + sizes.sum() ** (-2 / 3)) @ modes.T
    lean = (weights / sizes)[:, None] * gain * (np.sqrt(energy) / weights)
    return _Bulk(value=sign * end, energy=energy, tilt=lean)


def _profiles(signal: BlockSignal) -> _Profiles:
    """Give the items' profiles in the L eigenvectors with eigenvalues largest in magnitude."""
    sizes, count = signal.sizes.astype(np.float64), signal.sizes.size
    (above, upper), (below, lower) = _side(signal, 1), _side(signal, -1)
    bulk = max(upper, lower, key=lambda end: abs(end.value))
    spikes = sorted(above + below, key=lambda spike: -abs(spike.value))
    spikes = [spike for spike in spikes if abs(spike.value) > abs(bulk.value)][:count]
    told = len(spikes)
    means, covariances = np.zeros((count, count)), np.zeros((count, count, count))
    replies, lengths = np.zeros((count, count)), np.ones(count)
    spread = signal.independent * (1 - np.eye(count) / sizes)
    for r, one in enumerate(spikes):
        replies[r], means[:, r] = one.reply, one.reply * one.drive
        for s, other in enumerate(spikes[: r + 1]):
            product = one.reply * other.reply
            common = np.einsum("j,ijk,k->i", one.sums, signal.shared, other.sums)
            source = sizes * (means[:, r] * means[:, s] + product * common)
            energy = np.linalg.solve(np.eye(count) - (sizes * product)[:, None] * spread, source)
            covariances[:, r, s] = covariances[:, s, r] = product * (common + spread @ energy)
            lengths[r] = energy.sum() / sizes.sum()  # that of r with itself comes last
    lengths = np.sqrt(lengths)
    means, covariances = means / lengths, covariances / np.outer(lengths, lengths)
    for r in range(told, count):
        covariances[:, r, r] = bulk.energy / sizes * sizes.sum()
    tilt = bulk.tilt * math.sqrt(sizes.sum())
    return _Profiles(told=told, means=means, covariances=covariances, replies=replies, tilt=tilt)


def _misses(signal: BlockSignal) -> list[tuple[Floats, Floats]]:
    """Share of each cluster's items that go wrong, and a bound on it that is sharp where small; one pair a draw."""
    count = signal.sizes.size
    if count == 1 or not (signal.means.any() or signal.variances.any()):
        wrong = (np.arange(count) != signal.sizes.argmax()).astype(np.float64)
        return [(wrong, wrong)]
    profiles = _profiles(signal)
    silent = count - profiles.told
    if not silent:
        return [_draw(signal, profiles, profiles.means, [normal_points(count, POPULATION, 0)] * count)]
    generator, draws = np.random.default_rng(0), []
    for lean in normal_points(count * silent, DRAWS, 1).reshape(DRAWS, count, silent):
        means = profiles.means.copy()
        means[:, profiles.told :] = profiles.tilt @ lean
        noise = [generator.standard_normal((min(size, POINTS), count)) for size in signal.sizes.tolist()]
        for part in noise:
            part[:, profiles.told :] -= part[:, profiles.told :].mean(axis=0)
        draws.append(_draw(signal, profiles, means, noise))
    return draws


def _draw(signal: BlockSignal, profiles: _Profiles, means: Floats, noise: list[Floats]) -> tuple[Floats, Floats]:
    """Run k-means on profiles with the given cluster means and standard normal noise."""
    count, shares = signal.sizes.size, signal.sizes / signal.sizes.sum()
    parts = [
        mean + part @ nearest_root(cov) for mean, part, cov in zip(means, noise, profiles.covariances, strict=True)
    ]
    for silent in range(profiles.told, count):  # an eigenvector has unit length, however few its items
        squares = [size * (part[:, silent] ** 2).mean() for size, part in zip(signal.sizes, parts, strict=True)]
        for part in parts:
            part[:, silent] *= math.sqrt(signal.sizes.sum() / sum(squares))
    owners = np.repeat(np.arange(count), [len(part) for part in parts])
    points, weights = np.concatenate(parts), (shares / np.bincount(owners))[owners]
    coins = decoder_coins(1 if profiles.told < count else STARTS, count)
    labels, centres = best_partition(points, weights, means[None], coins)
    inside = np.zeros((count, count))
    np.add.at(inside, (owners, labels), 1 / np.bincount(owners)[owners])
    _, columns = best_matching(shares[:, None] * inside)
    bound = _bound(signal, profiles, means, centres[columns])
    sampled = 1 - inside[np.arange(count), columns]
    sharp = (bound < 0.1) | (count == 2)
    return np.where(sharp, np.minimum(bound, 1), sampled), bound


def _bound(signal: BlockSignal, profiles: _Profiles, means: Floats, centres: Floats) -> Floats:
    """Sum over the other centres of the probability that an item lies nearer to them than to its own, shape (L,)."""
    count = signal.sizes.size
    bound = np.zeros(count)
    for own in range(count):
        for other in set(range(count)) - {own}:
            way = centres[other] - centres[own]
            gap = float((centres[other] + centres[own]) @ way / 2 - means[own] @ way)
            spread = math.sqrt(max(float(way @ profiles.covariances[own] @ way), 0))
            if spread == 0:
                bound[own] += float(gap <= 0)
                continue
            pull = profiles.replies[:, own] * way
            middle, width = profiles.means @ pull, np.einsum("r,mrs,s->m", pull, profiles.covariances, pull)
            third = float(signal.sizes * signal.thirds[own] @ (middle**3 + 3 * middle * width))
            score = gap / spread
            bound[own] += float(ndtr(third / spread**3 / 6 * (score**2 - 1) - score))
    return bound
