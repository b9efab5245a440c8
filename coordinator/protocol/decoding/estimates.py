"""Estimates: what rounds of signs, of sets and of counts say of every item, each round weighted by its precision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.messages import CENTRE_UNIT, Model, Query
from coordinator.protocol.moments.count_moments import LIKED, item_share
from coordinator.protocol.moments.sign_moments import reach, sign_contrast
from coordinator.protocol.pools import pool_of, pool_size, sides
from coordinator.protocol.statistics.counts import CountStatistic, Rates
from coordinator.protocol.statistics.scores import ScoreStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """How well items are liked, as far as answers show it; sums of two rounds add up to that of both."""

    weighted: Floats  # shape (N,); Every item's estimate times its information
    information: Floats  # shape (N,); Inverse variance of the estimate; 0 where an item was in no pool yet

    def __add__(self, other: Estimates) -> Estimates:
        return Estimates(weighted=self.weighted + other.weighted, information=self.information + other.information)

    @property
    def value(self) -> Floats:
        """The estimates; 0 where nothing is known."""
        observed = self.information > 0
        return np.divide(self.weighted, self.information, out=np.zeros_like(self.weighted), where=observed)

    @property
    def error(self) -> Floats:
        """Their standard errors; infinite where nothing is known."""
        with np.errstate(divide="ignore"):
            error: Floats = 1 / np.sqrt(self.information)
        return error


def read_signs(query: Query, statistic: ScoreStatistic, *, rated: int, likes: Floats | None = None) -> Estimates:
    """Return estimates of ``2 b - 1``, averaged over user classes, from a round of sign sensing."""
    # Unbiased whatever the block model: the other items' signs are fair coins, so that the contrast depends on the
    # sizes of the pool and of a user's ratings alone. With centres it depends on how much users like the other items,
    # too: ``likes``, shape (N,), or what the centres say.
    agreed, sensed = statistic.scores, statistic.sensed.astype(float)
    scale, offset = np.zeros(query.items), np.zeros(query.items)
    inside = likes if likes is None else likes[query.pool]
    scale[query.pool], offset[query.pool] = contrasts_of(query, rated=rated, likes=inside)
    return Estimates(weighted=scale * (2.0 * agreed - sensed - offset * sensed), information=scale**2 * sensed)


def contrasts_of(query: Query, *, rated: int, likes: Floats | None = None) -> tuple[Floats, Floats]:
    """Return contrast and offset of every item of a query's pool: ``E[H S] = contrast (2 b - 1) + offset``."""
    # Shapes: ``likes`` (M,).
    assert query.pool is not None  # there are no signs without one
    vectors, best_count, epsilon = int(query.parameters["vectors"]), int(query.parameters["kept"]), query.epsilon
    if query.centres is None:
        contrast = sign_contrast(
            query.pool.size, items=query.items, rated=rated, vectors=vectors, best_count=best_count, epsilon=epsilon
        )
        return np.full(query.pool.size, contrast), np.zeros(query.pool.size)
    expected = (1 + query.centres / CENTRE_UNIT) / 2 if likes is None else likes
    liked, disliked = reach(query.centres, expected, items=query.items, rated=rated)
    # a like moves H S by the first, a dislike by minus the second: half of their sum goes with 2 b - 1
    gain = bit_channel(epsilon).contrast * rated / query.items / 2
    return gain * (liked + disliked), gain * (liked - disliked)


def others_share(pool: int, *, items: int, rated: int) -> float:
    """Return how many other ratings of a pool a user has that rated one of its items, for each that any user has."""
    return (pool - 1) / pool * (rated - 1) / rated * items / (items - 1) if items > 1 else 0.0


def read_sets(query: Query, statistic: ScoreStatistic, *, rated: int) -> Estimates:
    """Return estimates of b from a round of MaxSense."""
    # An item's contrast, ``P(S = 1 | sensed) - P(S = 1 | not sensed)``, is ``t (w/N) b`` times the probability that no
    # other sensed item was liked. The share of 1 among the answers gives that of no sensed item at all, a power of it
    # that of the others. With one user class the estimates are of b; with several of a mean of b that weighs the
    # classes by that probability, and shifts a little with the pool.
    everywhere = np.full(query.items, statistic.sensed.sum() > 0)
    in_pool = everywhere if query.pool is None else np.isin(np.arange(query.items), query.pool)
    answered, sensed = statistic.answered, statistic.sensed
    observed = in_pool & (sensed > 0) & (sensed < answered)
    channel, rate = bit_channel(query.epsilon), statistic.answer_rate
    flip = (1 - channel.contrast) / 2
    none = min(max(1 - (rate - flip) / channel.contrast, 0.0), 1.0)
    silent = none ** others_share(max(int(in_pool.sum()), 1), items=query.items, rated=rated)
    scale = channel.contrast * rated / query.items * silent
    spread = rate * (1 - rate)
    nothing = np.zeros(query.items)
    if not (scale and spread):
        return Estimates(weighted=nothing, information=nothing)
    # score - rate * sensed has mean contrast * sensed * (answered - sensed) / answered, and a variance of that without
    # the contrast, times the spread
    power = np.where(observed, sensed.astype(np.float64) * (answered - sensed) / max(answered, 1), 0.0)
    centred = np.where(observed, statistic.scores - rate * sensed, 0.0)
    return Estimates(weighted=scale * centred / spread, information=scale**2 * power / spread)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicCounts:
    """Likes of people whose ratings are public."""

    counts: Ints = field(repr=False)  # shape (N,); People who like each item
    sizes: Ints = field(repr=False)  # shape (P,); How many items each person likes

    def posterior(self, reports: Floats, error: Floats, most: int) -> tuple[Floats, Floats]:
        """Return popularity, weighted by inverse variances, and its standard error, float64, shape (N,) each."""
        # The variance of ``(c + 1) / P`` is taken for ``(c + 1) / P^2``. Devices report at most ``most`` likes each, so
        # that what they report is scaled by how many more likes public people have.
        # Shapes: ``reports``, ``error`` (N,).
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
    return (counts / max(devices, 1) - rates.others) / rates.contrast if devices else np.zeros(counts.size)


def _possible(rates: Rates, counts: Ints, devices: int) -> Floats:
    """Return shares for computing variances; one is added to each count, so that no variance is 0."""
    return np.clip(((counts + 1) / (devices + 2) - rates.others) / rates.contrast, 0, 1)


def popularity(query: Query, rates: Rates, statistic: CountStatistic) -> tuple[Floats, Floats]:
    """Return estimates of the pool's items and their standard errors, shape (M,) each."""
    pool_items, devices = pool_size(query), statistic.answered
    counts = statistic.sums if statistic.sums.size else np.zeros(sides(query) * pool_items + 1, np.int64)
    value, likely = shares(rates, counts, devices), _possible(rates, counts, devices)
    parts = [slice(side * pool_items, (side + 1) * pool_items) for side in range(sides(query))]
    estimate = value[parts[0]] if len(parts) == 1 else value[parts[0]] - value[parts[1]]  # likes less dislikes
    return estimate, np.sqrt(rates.spread(*(likely[part] for part in parts)) / max(devices, 1))


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
        means = (value[side * pool_items : (side + 1) * pool_items].mean() for side in range(sides(query)))
        typical = (np.full(pool_items, np.clip(mean, min(1 / devices, 0.5), 1)) for mean in means)
        estimate, _ = popularity(query, rates, statistic)
        information[pool] = slope**2 * devices / rates.spread(*typical)
        weighted[pool] = information[pool] * (estimate - offset) / slope
    return Estimates(weighted=weighted, information=information)


def repeated_variance(shares: Floats, named: float, *, rated: int) -> Floats:
    """Return the variance among people of how often a set holds an item that each period draws anew from their likes.

    ``shares`` are those of people whose set of so many values holds it, shape (N,). Of sets that hold all likes it is
    ``f (1 - f)``: no average over periods lowers it where the same people answer.
    """
    return np.maximum(shares * (min(1.0, named / max(LIKED * rated, 1.0)) - shares), 0.0)


def information_of(query: Query, rates: Rates, line: tuple[float, float], expected: Floats | None) -> Floats:
    """Return the information of one device's answer about how much users like each item of the pool, shape (M,)."""
    slope, _ = line
    liked = np.full(pool_size(query), 0.5) if expected is None else np.clip(expected, 0, 1)
    probabilities = [slope * liked] if sides(query) == 1 else [slope / 2 * liked, slope / 2 * (1 - liked)]
    return slope**2 / rates.spread(*probabilities)


PRIOR = 1.0
"""Devices that are thought to have said each range without noise: where hardly anybody answered, ranges are alike."""
STEPS = 1000  # Steps of expectation and maximisation


def range_shares(counts: Ints, rate: float, other: float) -> Floats:
    """Return the most probable share of devices in each range, float64, shape (K,), none of them 0.

    >>> range_shares(np.array([0, 997, 0]), 1.0, 0.0).tolist()
    [0.001, 0.998, 0.001]
    """
    # Shapes: ``counts`` (K,).
    shares = np.full(counts.size, 1 / counts.size)
    for _ in range(STEPS):
        weight = counts / (other + (rate - other) * shares)
        mass = shares * (other * weight.sum() + (rate - other) * weight)
        shares = (mass + PRIOR) / (counts.sum() + PRIOR * counts.size)
    return shares


def number_shares(shares: Floats, most: int) -> Floats:
    """Return the share of devices that like 0, 1, ... items, shape (numbers,); within a range l has the weight 1 / l.

    >>> number_shares(np.array([0.1, 0.2, 0.3, 0.4]), 5).round(3).tolist()
    [0.1, 0.2, 0.18, 0.12, 0.222, 0.178]
    """
    # Shapes: ``shares`` (K,).
    numbers = np.zeros(min(most, 2 ** (shares.size - 1) - 1) + 1)
    numbers[0] = shares[0]
    for bit, share in enumerate(shares[1:].tolist()):
        liked = np.arange(1 << bit, min(2 << bit, numbers.size))
        numbers[liked] = share / liked / (1 / liked).sum()
    return numbers
