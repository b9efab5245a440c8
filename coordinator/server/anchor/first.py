"""First anchors of K classes and L clusters: what pairs, or first-order signs, tell of a pool's items and of tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from coordinator.protocol.arrays import Floats, Floats2, Indices
from coordinator.protocol.mechanisms.anchor import SENSED
from coordinator.server.anchor.reading import read_turned
from coordinator.server.anchor.start import CLIP, ENOUGH, spectral_start
from coordinator.server.anchor.told import Course
from coordinator.server.decoding.mixture import fit, joint
from coordinator.server.decoding.threads import k_means, one_thread
from coordinator.server.moments.anchor import pair_contrast
from coordinator.server.rounds.readings import AnchorRound

LEAST_RATE = 0.04
"""Like rates of a start lie so far from 0 and 1 at least."""
STANDS_OUT, TELLS = 1.0, 2.5
"""First order goes on while its signal passes noise by so many sd, and suffices at so many times noise's variance."""
CROWD = 20_000
"""Synthetic devices that tell the tables of the first guess."""
STARTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """First anchors.

    Attributes
    ----------
    pool : ndarray of int32, shape (M,)
        The items that something is known of.
    clusters : ndarray of float64, shape (M, L)
        Probability of each one's cluster.
    likes : ndarray of float64, shape (K, L)
        How probably each class likes each cluster, roughly.
    stands : bool
        Whether this is worth building on.
    """

    pool: Indices
    clusters: Floats2
    likes: Floats2
    stands: bool

    def tables(self, *, items: int, rated: int) -> Floats2:
        """Return like rates given the guess, by synthetic devices that sense half of what they rated, shape (K, L)."""
        coins, (classes, _) = np.random.default_rng(0), self.likes.shape
        rates = self.likes @ self.clusters.T
        own = coins.integers(classes, size=CROWD)
        labels = (coins.random((CROWD, self.pool.size, 1)) > np.cumsum(self.clusters, axis=1)[:, :-1]).sum(axis=2)
        liked = coins.random(labels.shape) < self.likes[own[:, None], labels]
        serves = coins.random(labels.shape) < rated / items / 2
        scores = (serves & liked) @ np.log(rates).T + (serves & ~liked) @ np.log1p(-rates).T
        guesses = np.argmax(scores + 1e-9 * coins.random(scores.shape), axis=1)
        joint_counts = np.full((classes, classes), 0.5)
        np.add.at(joint_counts, (guesses, own), 1.0)
        found: Floats2 = joint_counts / joint_counts.sum(axis=1, keepdims=True) @ self.likes
        return found


def first_anchors(course: Course, *, rated: int, clusters: int, classes: int) -> First:
    """Return what first-order signs tell if they suffice, else what pairs tell."""
    if course.plain and not course.pairs:
        return of_signs(course.plain, rated=rated)
    if clusters == 2:
        start = spectral_start(course, rated=rated)
        one = scipy.special.expit(start.odds)
        known, moments = np.stack([one, 1 - one], axis=1), start.level**2 * np.array([[1.0, -1.0], [-1.0, 1.0]])
        return First(pool=start.pool, clusters=known, likes=_likes(moments, classes), stands=start.stands)
    return _of_many(course, rated=rated, clusters=clusters, classes=classes)


def _of_many(course: Course, *, rated: int, clusters: int, classes: int) -> First:
    """Return what the first L - 1 eigenvectors tell: k-means, then normal posteriors around its centres."""
    query, users = course.pairs[0].query, max(course.paired_users, 1)
    assert query.pool is not None  # pairs are those of a pool
    many = query.pool.size
    with one_thread():
        values, vectors = np.linalg.eigh(course.agreements)
    edges = np.maximum(values[:-clusters:-1] / (2 * math.sqrt(many * users)), 1.001)
    stands = bool(edges[-1] >= ENOUGH)
    strengths = edges + np.sqrt(edges**2 - 1)
    overlap = 1 - strengths**-2
    points = vectors[:, :-clusters:-1] * np.sqrt(many * overlap)
    centres = k_means(points, clusters, starts=STARTS).cluster_centers_
    centres = centres[np.lexsort(centres.T[::-1])]
    off = (points[:, None] - centres) ** 2 / (overlap * (1 - overlap))
    known = scipy.special.softmax(np.maximum(-off.sum(axis=2) / 2, -CLIP), axis=1)
    contrast = pair_contrast(many, items=query.items, rated=rated, epsilon=query.epsilon)
    scaled = centres / np.sqrt(np.maximum(overlap, 0.2))
    moments = scaled * strengths / (contrast * math.sqrt(many * users)) @ scaled.T
    return First(pool=query.pool, clusters=known, likes=_likes(moments, classes), stands=stands)


def _likes(moments: Floats2, classes: int) -> Floats2:
    """Return like probabilities of K classes, of equal shares, that have these second moments of mean ratings.

    Two classes are mirrored; more are the columns of a root, which leaves a rotation open that rounds settle.
    """
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, 0.0)
    if classes == 2:
        top = vectors[:, -1] * math.sqrt(max(values[-1], 0.01))
        rates = np.stack([top, -top])
    else:
        root = math.sqrt(classes) * (vectors * np.sqrt(values)) @ vectors.T
        rates = np.resize(root, (classes, len(moments)))
        rates = rates - rates.mean(axis=0)
    found: Floats2 = np.clip((1 + rates) / 2, LEAST_RATE, 1 - LEAST_RATE)
    return found


def signal_of(rounds: tuple[AnchorRound, ...], *, rated: int) -> tuple[Floats, Floats, float]:
    """Return means of ``H_i S`` of the pool's items in first-order rounds, their errors, and signal over noise.

    The last is the variance among items over that of noise, less 1.
    """
    users = np.stack([told.statistic.sensed for told in rounds]).sum(axis=0)
    pool = users > 0
    sums = np.stack([2 * told.statistic.scores - told.statistic.sensed for told in rounds]).sum(axis=0)[pool]
    one = read_turned(rounds[0], np.ones(1), rated=rated, control=0)
    gain = one.slopes[0][pool] / 2  # for each unit of a mean rating in [-1, 1]
    values, errors = sums / users[pool] / gain, 1 / (np.sqrt(users[pool]) * gain)
    return values, errors, float(((values - values.mean()) ** 2 / errors**2).sum() / (values.size - 1) - 1)


def of_signs(rounds: tuple[AnchorRound, ...], *, rated: int) -> First:
    """Return what first-order signs of the pool tell of two clusters; the other class is taken to be mirrored."""
    values, errors, signal = signal_of(rounds, rated=rated)
    pool = np.flatnonzero(rounds[0].query.arrays[SENSED]).astype(np.int32)
    mixture = fit(values, errors, 2)
    known = scipy.special.softmax(np.clip(joint(mixture, values, errors), -1e3, 1e3), axis=1)
    rates = np.stack([mixture.levels, -mixture.levels])
    likes = np.clip((1 + rates) / 2, LEAST_RATE, 1 - LEAST_RATE)
    return First(pool=pool, clusters=known, likes=likes, stands=signal >= TELLS)
