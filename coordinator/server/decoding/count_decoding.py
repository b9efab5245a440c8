"""Reading counts: of frequency oracles, of how many items devices like, and weighed with public people's counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.mechanisms.oracles import pool_of, pool_size, sides
from coordinator.protocol.messages import Model, Query
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.moments.count_moments import LIKED, item_share
from coordinator.server.statistics.counts import CountStatistic, Rates


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicCounts:
    """Likes of people whose ratings are public."""

    counts: Ints = field(repr=False)  # shape (N,); People who like each item
    sizes: Ints = field(repr=False)  # shape (P,); How many items each person likes

    def posterior(self, reports: Floats, error: Floats, most: int) -> tuple[Floats, Floats]:
        """Return popularity, weighted by inverse variances, and its standard error, float64, shape (N,) each.

        The variance of ``(c + 1) / P`` is taken for ``(c + 1) / P^2``. Devices tell of at most ``most`` likes each, so
        that what they tell is scaled by how many more likes public people have.

        Shapes: ``reports``, ``error`` (N,).
        """
        people, counts = self.sizes.size, self.counts + 1.0
        scale = float(self.sizes.sum() / max(np.minimum(self.sizes, most).sum(), 1))
        public, private = people**2 / counts, 1 / np.maximum(scale * error, 1e-12) ** 2
        combined = np.maximum((public * counts / people + private * scale * reports) / (public + private), 0)
        return combined, 1 / np.sqrt(public + private)

    def weighed(self, model: Model, most: int) -> Model:
        """Return a model of devices' estimates with popularity of both; clusters stay those of the devices' answers."""
        score, error = self.posterior(model.score, model.error, most)
        return replace(model, score=score, error=error)


def shares(rates: Rates, counts: Ints, devices: int) -> Floats:
    """Return the unbiased estimate of every value's share, ``(C / n - q) / (p - q)``; 0 where nobody answered."""
    estimate: Floats = (counts / max(devices, 1) - rates.others) / rates.contrast if devices else np.zeros(counts.size)
    return estimate


def _possible(rates: Rates, counts: Ints, devices: int) -> Floats:
    """Return shares for computing variances; one is added to each count, so that no variance is 0."""
    estimate: Floats = np.clip(((counts + 1) / (devices + 2) - rates.others) / rates.contrast, 0, 1)
    return estimate


def popularity(query: Query, rates: Rates, statistic: CountStatistic) -> tuple[Floats, Floats]:
    """Return estimates of the pool's items and their standard errors, shape (M,) each; likes less dislikes if told."""
    pool_items, devices = pool_size(query), statistic.answered
    counts = statistic.sums if statistic.sums.size else np.zeros(sides(query) * pool_items + 1, np.int64)
    value, likely = shares(rates, counts, devices), _possible(rates, counts, devices)
    parts = [slice(side * pool_items, (side + 1) * pool_items) for side in range(sides(query))]
    estimate = value[parts[0]] if len(parts) == 1 else value[parts[0]] - value[parts[1]]
    return estimate, np.sqrt(_spread_of(rates, [likely[part] for part in parts]) / max(devices, 1))


def line_of(query: Query, *, rated: int) -> tuple[float, float]:
    """Return slope and offset of an item's expected estimate, as a function of how much users like it."""
    # if devices report likes only, half of the ratings are assumed to be likes, which scales all items alike
    slope = item_share(pool_size(query), items=query.items, rated=rated, likes=LIKED if sides(query) == 1 else 1.0)
    return (slope, 0.0) if sides(query) == 1 else (2 * slope, -slope)


def read_items(query: Query, rates: Rates, statistic: CountStatistic, line: tuple[float, float]) -> Estimates:
    """Return estimates of how much users like every item, from a round of a frequency oracle; see `line_of`."""
    pool, (slope, offset), devices = pool_of(query), line, statistic.answered
    weighted, information = np.zeros(query.items), np.zeros(query.items)
    if devices:
        pool_items, value = pool_size(query), _possible(rates, statistic.sums, devices)
        # Information follows from the pool's mean. By an item's own count, rounds in which the item was rare would
        # weigh more, and sums over rounds would be biased.
        typical = [
            np.full(pool_items, value[side * pool_items : (side + 1) * pool_items].mean())
            for side in range(sides(query))
        ]
        estimate, _ = popularity(query, rates, statistic)
        information[pool] = slope**2 * devices / _spread_of(rates, [np.clip(one, 1 / devices, 1) for one in typical])
        weighted[pool] = information[pool] * (estimate - offset) / slope
    return Estimates(weighted=weighted, information=information)


def _spread_of(rates: Rates, probabilities: list[Floats]) -> Floats:
    """Return the variance of one device's estimate, if it reports likes only or dislikes, too."""
    return (
        rates.spread(probabilities[0])
        if len(probabilities) == 1
        else rates.spread_between(probabilities[0], probabilities[1])
    )


def information_of(query: Query, rates: Rates, line: tuple[float, float], expected: Floats | None) -> Floats:
    """Return the information of one device's answer about how much users like each item of the pool, shape (M,)."""
    slope, _ = line
    liked = np.full(pool_size(query), 0.5) if expected is None else np.clip(expected, 0, 1)
    probabilities = [slope * liked] if sides(query) == 1 else [slope / 2 * liked, slope / 2 * (1 - liked)]
    return slope**2 / _spread_of(rates, probabilities)


PRIOR = 1.0
"""Devices that are thought to have said each range without noise: where hardly anybody answered, ranges are alike."""
STEPS = 1000
"""Steps of expectation and maximisation."""


def range_shares(counts: Ints, own: float, other: float) -> Floats:
    """Return the most probable share of devices in each range, float64, shape (K,), none of them 0.

    Shapes: ``counts`` (K,).

    Examples
    --------
    >>> range_shares(np.array([0, 997, 0]), 1.0, 0.0).tolist()
    [0.001, 0.998, 0.001]
    """
    shares = np.full(counts.size, 1 / counts.size)
    for _ in range(STEPS):
        weight = counts / (other + (own - other) * shares)
        mass = shares * (other * weight.sum() + (own - other) * weight)
        shares = (mass + PRIOR) / (counts.sum() + PRIOR * counts.size)
    return shares


def number_shares(shares: Floats, most: int) -> Floats:
    """Return the share of devices that like 0, 1, ... items, shape (numbers,); within a range l has the weight 1 / l.

    Shapes: ``shares`` (K,).

    Examples
    --------
    >>> number_shares(np.array([0.1, 0.2, 0.3, 0.4]), 5).round(3).tolist()
    [0.1, 0.2, 0.18, 0.12, 0.222, 0.178]
    """
    numbers = np.zeros(min(most, 2 ** (shares.size - 1) - 1) + 1)
    numbers[0] = shares[0]
    for place, share in enumerate(shares[1:].tolist()):
        liked = np.arange(1 << place, min(2 << place, numbers.size))
        numbers[liked] = share / liked / (1 / liked).sum()
    return numbers
