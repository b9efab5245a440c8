"""Posteriors: how sure the server may be of every item's cluster, without knowing what users like."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from coordinator.protocol.arrays import Bools, Floats, Indices
from coordinator.protocol.messages import Model
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.integral import integrated
from coordinator.server.decoding.mixture import Mixture, fit, fits, joint


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """What the server believes after some rounds.

    Attributes
    ----------
    cluster : ndarray of int32, shape (N,)
        The most probable cluster of every item; cluster 0 has the highest level.
    doubt : ndarray of float64, shape (N,)
        Probability that it is another one.
    expected : ndarray of float64, shape (N,)
        Posterior mean of every item's level.
    mixture : Mixture or None
        The likeliest levels and shares; None where some item was in no pool yet.
    apart : bool
        Whether the clusters stand apart: whether the estimates are much more likely from L clusters than from fewer.
        Where they do not, no item is decided, and every doubt is at least ``1 - 1/L``.
    """

    cluster: Indices
    doubt: Floats
    expected: Floats
    mixture: Mixture | None
    apart: bool

    def decided(self, failure: float) -> Bools:
        """Return which items are decided, so that all labels are right with probability ``1 - failure``.

        The largest threshold T with ``sum_i min(doubt_i, T) <= failure`` is found: items with doubts up to T are
        decided. Those still open may then be decided at T, too, and the union bound over all items holds. Where
        decided items have smaller doubts than T, what they save is left to the others.
        """
        doubts, many = np.sort(self.doubt), self.doubt.size
        below = np.concatenate([[0.0], np.cumsum(doubts)[:-1]])
        room = (failure - below) / (many - np.arange(many))  # T if exactly the items before this one lie below it
        small = doubts <= room
        threshold = doubts[small].max() if small.any() else 0.0
        return self.apart & (self.doubt <= threshold)

    def model(self, estimates: Estimates, clusters: int) -> Model:
        """Return the item model to hand to devices: every item's most probable cluster, its estimate as its score."""
        error = np.where(estimates.information > 0, estimates.error, 0.0)
        return Model(cluster=self.cluster, score=estimates.value, error=error, clusters=clusters)

    def threshold(self, failure: float) -> float:
        """Return the doubt T at which an open item would be decided; see `decided`."""
        decided = self.decided(failure)
        left = int((~decided).sum())
        return (failure - float(self.doubt[decided].sum())) / left if left else 1.0


FITTED = 20_000
"""Items that a mixture is fitted to at most: more would hardly tell more about levels and shares."""
SMALLEST, DOUBT_STEPS = 2.0**-900, 64
"""The smallest doubt, and steps of the grid of doubts to a factor of 2."""


def _fitted(items: int) -> Indices:
    """Return which items a mixture is fitted to, always the same ones: all, or some at random."""
    if items <= FITTED:
        return np.arange(items, dtype=np.int32)
    return np.random.default_rng(0).choice(items, FITTED, replace=False).astype(np.int32)


def _on_a_grid(doubt: Floats) -> Floats:
    """Return doubts rounded up to a grid of their logarithms, so that last bits hardly ever decide an item."""
    steps = np.ceil(np.log2(np.maximum(doubt, SMALLEST)) * DOUBT_STEPS - 1e-6)
    return np.minimum(np.exp2(steps / DOUBT_STEPS), 1.0)


def expected_levels(estimates: Estimates, *, clusters: int) -> Floats | None:
    """Return the level that the likeliest mixture expects of each item; None where some item was in no pool yet."""
    if not (estimates.information > 0).all():
        return None
    value, error = estimates.value, estimates.error
    some = _fitted(value.size)
    mixture = fit(value[some], error[some], clusters)
    found: Floats = softmax(joint(mixture, value, error), axis=1) @ mixture.levels
    return found


def believe(estimates: Estimates, *, clusters: int, failure: float) -> Posterior:
    """Return posteriors from mixtures that fit the estimates with their known noise.

    Once clusters stand apart, doubts count all that levels and shares could be; see `integral`.

    Parameters
    ----------
    estimates : Estimates
        Of all rounds so far.
    clusters : int
        Number of clusters L.
    failure : float
        Probability of a wrong label that is allowed, in all. L clusters count as standing apart where they are
        ``N / failure`` times as likely as L - 1 at the best fit of either.
    """
    known = estimates.information > 0
    if not known.all():
        unsure = np.full(known.size, 1 - 1 / clusters)
        nothing = np.zeros(known.size)
        return Posterior(cluster=nothing.astype(np.int32), doubt=unsure, expected=nothing, mixture=None, apart=False)
    value, error = estimates.value, estimates.error
    some = _fitted(known.size)
    found = fits(value[some], error[some], clusters)
    mixture = found[0]
    labels = joint(mixture, value[some], error[some]).argmax(axis=1)
    merged = [labels - (labels > cluster) for cluster in range(clusters - 1)]
    fewer = fit(value[some], error[some], clusters - 1, further=merged)
    apart = mixture.likelihood - fewer.likelihood > math.log(known.size / failure)
    if apart:
        belongs, expected = integrated(value, error, found, some)
    else:
        belongs = softmax(joint(mixture, value, error), axis=1)
        expected = belongs @ mixture.levels
    cluster = belongs.argmax(axis=1).astype(np.int32)
    others = belongs.copy()
    others[np.arange(cluster.size), cluster] = 0
    doubt = _on_a_grid(others.sum(axis=1))
    if not apart:
        doubt = np.maximum(doubt, 1 - 1 / clusters)
    return Posterior(cluster=cluster, doubt=doubt, expected=expected, mixture=mixture, apart=apart)
