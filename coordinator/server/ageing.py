"""Estimates that age: a Kalman filter an item over the statistics of periods, for shares that drift.

A share is taken for a random walk whose steps have the variance ``(s f10)^2`` in a period, f10 the tenth largest
estimate and s the drift. With s 0 the filter pools all periods, with s infinite it takes the latest alone. Too little
drift is the safe side: a gain of rho times the best has ``(rho + 1 / rho) / 2`` times the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from coordinator.protocol.arrays import Bools, Floats

TENTH = 10  # The place, by size, of the estimate that drift is relative to
DRIFT = 0.1  # Where nothing else is said; that of a plan's prior where drift is estimated
WATCHED = 50  # Items from whose changes drift is estimated
_LEAST = 1e-12  # A variance below this is none
_SMALLEST = 0.01  # Of the variance of the prior: an estimated one is never below


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a period's statistic says of every item's share, without bias."""

    values: Floats  # shape (..., N)
    variance: Callable[[Floats], Floats]  # Of the values, where shares are those


@dataclass(frozen=True, slots=True)
class DriftMoments:
    """What changes of items say of the drift's variance: each of the items that were best two periods before."""

    weight: Floats  # shape (..., 1), of all changes so far, and their weighted sum
    excess: Floats
    # Values of the last period with their variances, shape (..., N), and the best items then and the period before
    values: Floats | None = None
    variances: Floats | None = None
    watched: tuple[Bools, ...] = ()

    def after(self, values: Floats, variances: Floats, best: Bools, new: Bools) -> DriftMoments:
        """Return the moments with one more period; ``new`` items had no share before."""
        weight, excess = self.weight, self.excess
        if self.values is not None and self.variances is not None and len(self.watched) == 2:
            noise = variances + self.variances
            each = np.where(self.watched[0] & ~new, 1 / np.maximum(noise, _LEAST) ** 2, 0.0)
            weight = weight + each.sum(axis=-1, keepdims=True)
            excess = excess + (each * ((values - self.values) ** 2 - noise)).sum(axis=-1, keepdims=True)
        return DriftMoments(weight, excess, values, variances, (*self.watched[-1:], best))

    def variance(self, prior: Floats) -> Floats:
        """Return the drift's variance, shrunk towards a prior whose deviation equals its mean."""
        # An item's excess has a variance of 2 noise^2, so that the weighted mean of all has one of 2 / weight
        precision = 1 / np.maximum(prior, _LEAST) ** 2
        both = (self.excess / 2 + prior * precision) / (self.weight / 2 + precision)
        return np.maximum(both, _SMALLEST * prior)


@dataclass(frozen=True, slots=True)
class AgedShares:
    """Estimates of every item's share, and how sure they are.

    Attributes
    ----------
    mean : ndarray
        Shape (..., N): items of one world or, before them, of several.
    start : float
        Expected share of an item of which nothing is known.
    drift : float or None
        s; None to estimate it.
    """

    mean: Floats
    start: float
    drift: float | None
    variance: Floats | None = None  # shape (..., N); None before the first period
    spread: Floats | None = field(default=None, repr=False)  # Variance of an unknown item's share, shape (..., 1)
    moments: DriftMoments | None = field(default=None, repr=False)

    @classmethod
    def unknown(cls, shape: tuple[int, ...], *, start: float, drift: float | None) -> AgedShares:
        """Return estimates before anything was measured."""
        nothing = np.zeros((*shape[:-1], 1))
        moments = DriftMoments(nothing, nothing) if drift is None else None
        return cls(np.full(shape, start), start, drift, moments=moments)

    def after(self, measurements: Sequence[Measurement]) -> AgedShares:
        """Return the estimates after a period in which these were made; none at all only ages them."""
        if not measurements:
            return self if self.variance is None else replace(self, variance=self.variance + self._step())
        values, variances = _together(measurements, np.clip(self.mean, 0.0, 1.0))
        if self.variance is None or self.spread is None:
            spread = np.var(values, axis=-1, keepdims=True) - np.median(variances, axis=-1, keepdims=True)
            spread = np.maximum(spread, _LEAST)
            start = replace(self, variance=np.broadcast_to(spread, values.shape), spread=spread)
            return start._updated(values, variances, np.zeros(values.shape, np.bool_))
        aged = replace(self, variance=self.variance + self._step())
        return aged._updated(values, variances, self.variance >= self.spread)

    def renewed(self, new: Bools) -> AgedShares:
        """Return the estimates after new items replace some old ones; new items have no information."""
        if self.variance is None or self.spread is None:
            return self
        mean, variance = np.where(new, self.start, self.mean), np.where(new, self.spread, self.variance)
        return replace(self, mean=mean, variance=variance)

    def _step(self) -> Floats:
        tenth = np.maximum(-np.partition(-self.mean, TENTH - 1, axis=-1)[..., TENTH - 1 : TENTH], 0.0)
        if self.drift is not None:
            return np.asarray((min(self.drift, 1e6) * tenth) ** 2)
        assert self.moments is not None  # where it is to be estimated
        return self.moments.variance((DRIFT * tenth) ** 2)

    def _updated(self, values: Floats, variances: Floats, new: Bools) -> AgedShares:
        assert self.variance is not None  # once something was measured
        if self.drift == math.inf:  # exactly: a trace of earlier periods would order items whose counts are equal
            return replace(self, mean=values, variance=variances)
        gain = self.variance / np.maximum(self.variance + variances, _LEAST)
        mean, variance = self.mean + gain * (values - self.mean), self.variance * (1 - gain)
        moments = self.moments
        if moments is not None:
            least = -np.partition(-mean, WATCHED - 1, axis=-1)[..., WATCHED - 1 : WATCHED]
            moments = moments.after(values, variances, mean >= least, new)
        return replace(self, mean=mean, variance=variance, moments=moments)


def _together(measurements: Sequence[Measurement], shares: Floats) -> tuple[Floats, Floats]:
    """Return the measurements of a period as one, weighted by how sure each is, and its variance."""
    if len(measurements) == 1:
        return measurements[0].values, measurements[0].variance(shares)
    sure = [1 / np.maximum(measurement.variance(shares), _LEAST) for measurement in measurements]
    every = sum(sure[1:], sure[0])
    values = [measurement.values * weight for measurement, weight in zip(measurements, sure, strict=True)]
    return sum(values[1:], values[0]) / every, 1 / every


def renewal(drift: float, arrivals: float, noise: float) -> float:
    """Return the share x of knowledge that ages in a period.

    ``K = s^2 / (s^2 + r^2)`` of the drift s, with the relative noise r at which a list is just good enough; with items
    that arrive about twelve times their share, where that is more.
    """
    worn = 1.0 if math.isinf(drift) else drift**2 / (drift**2 + noise**2)
    return min(1.0, max(worn, 12 * arrivals))
