"""Posteriors: how sure the server may be of every item's cluster, although it does not know what users like."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

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
        Probability that its true cluster is another one.
    expected : ndarray of float64, shape (N,)
        Posterior mean of every item's level.
    mixture : Mixture or None
        The likeliest levels and shares; None if some item has been in no pool yet.
    apart : bool
        Whether the clusters stand apart, which means that the estimates are much more likely with L clusters than with
        fewer. If not, no item is decided, and every doubt is at least ``1 - 1/L``.
    disputed : ndarray of bool, shape (N,), or None
        Items whose label fresh devices did not confirm, which are not decided; None if none were asked.
    """

    cluster: Indices
    doubt: Floats
    expected: Floats
    mixture: Mixture | None
    apart: bool
    disputed: Bools | None = None

    def decided(self, failure: float) -> Bools:
        """Return which items are decided, so that all labels are right with probability ``1 - failure``.

        T is the largest threshold with ``sum_i min(doubt_i, T) <= failure``, and items with doubts up to T are decided.
        The open items may later be decided at T as well, and the union bound over all items still holds. A decided item
        with a smaller doubt than T leaves the difference to the others.
        """
        doubts, many = np.sort(self.doubt), self.doubt.size
        below = np.concatenate([[0.0], np.cumsum(doubts)[:-1]])
        # T, if exactly the items before this one have smaller doubts
        room = (failure - below) / (many - np.arange(many))
        small = doubts <= room
        threshold = doubts[small].max() if small.any() else 0.0
        confirmed = True if self.disputed is None else ~self.disputed
        return self.apart & (self.doubt <= threshold) & confirmed

    def withstanding(self, moved: Floats) -> Posterior:
        """Return the posterior with doubts that hold even if liars moved weighted estimates by so much.

        The log-odds of an item's cluster against another one, a gap g away, are moved by ``g`` times that, most against
        the farthest one. What is left of them, less this margin, is at most the honest answers' own log-odds, so that
        whatever holds for honest answers with probability ``1 - failure`` (Ville's inequality) still holds. Source:
        ours.

        Parameters
        ----------
        moved : ndarray of float64, shape (N,)
            Largest sum of what liars added to each item's estimate times its information, counted from any level.
        """
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
    found: Floats = np.minimum(gaps, np.insert(gaps[:-1], 0, np.inf))
    return found


def farthest_gaps(mixture: Mixture) -> Floats:
    """Return the gap between each level and the farthest other one, shape (L,); 0 for a single one."""
    found: Floats = np.maximum(mixture.levels[0] - mixture.levels, mixture.levels - mixture.levels[-1])
    return found


FITTED = 20_000
"""Most items to which a mixture is fitted; more items would hardly improve levels and shares."""
SMALLEST, DOUBT_STEPS = 2.0**-900, 64
"""The smallest doubt, and the number of grid steps of doubts in a factor of 2."""


def _fitted(items: int) -> Indices:
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
    some = _fitted(value.size)
    mixture = fit(value[some], error[some], clusters)
    found: Floats = scipy.special.softmax(joint(mixture, value, error), axis=1) @ mixture.levels
    return found


def believe(estimates: Estimates, *, clusters: int, failure: float) -> Posterior:
    """Return the posterior from mixtures that fit the estimates with their known noise.

    Once clusters stand apart, doubts are averaged over all possible levels and shares; see `integral`.

    Parameters
    ----------
    estimates : Estimates
        Of all rounds so far.
    clusters : int
        Number of clusters L.
    failure : float
        Allowed probability that any label is wrong. L clusters stand apart if they are ``N / failure`` times as likely
        as L - 1 clusters, each at its best fit.
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
        belongs = scipy.special.softmax(joint(mixture, value, error), axis=1)
        expected = belongs @ mixture.levels
    cluster = belongs.argmax(axis=1).astype(np.int32)
    others = belongs.copy()
    others[np.arange(cluster.size), cluster] = 0
    doubt = on_a_grid(others.sum(axis=1))
    if not apart:
        doubt = np.maximum(doubt, 1 - 1 / clusters)
    return Posterior(cluster=cluster, doubt=doubt, expected=expected, mixture=mixture, apart=apart)
