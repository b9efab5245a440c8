"""Estimates: what the rounds so far tell of every item, each round weighted by its precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.messages import CENTRE_UNIT, Query
from coordinator.server.moments.sign_moments import reach, sign_contrast
from coordinator.server.statistics.scores import ScoreStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """How well items are liked, as far as answers tell; sums of two rounds add up to that of both."""

    weighted: Floats  # shape (N,); Every item's estimate times its information
    information: Floats  # shape (N,); Inverse variance of the estimate; 0 where an item was in no pool yet

    def __add__(self, other: Estimates) -> Estimates:
        """Return the estimates of both rounds together."""
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
    """Return estimates of ``2 b - 1``, averaged over user classes, from a round of sign sensing.

    Unbiased whatever the block model: the other items' signs are fair coins, so that the contrast depends on the sizes
    of the pool and of a user's ratings alone. With centres it depends on how much users like the other items, too:
    ``likes``, shape (N,), or what the centres tell.
    """
    agreed, sensed = statistic.scores, statistic.sensed.astype(float)
    scale, offset = np.zeros(query.items), np.zeros(query.items)
    inside = likes if likes is None else likes[query.pool]
    scale[query.pool], offset[query.pool] = contrasts_of(query, rated=rated, likes=inside)
    return Estimates(weighted=scale * (2.0 * agreed - sensed - offset * sensed), information=scale**2 * sensed)


def contrasts_of(query: Query, *, rated: int, likes: Floats | None = None) -> tuple[Floats, Floats]:
    """Return contrast and offset of every item of a query's pool: ``E[H S] = contrast (2 b - 1) + offset``.

    Shapes: ``likes`` (M,).
    """
    assert query.pool is not None  # there are no signs without one
    vectors, best_count, epsilon = int(query.parameters["vectors"]), int(query.parameters["kept"]), query.epsilon
    if query.centres is None:
        contrast = sign_contrast(
            query.pool.size, items=query.items, rated=rated, vectors=vectors, best_count=best_count, epsilon=epsilon
        )
        return np.full(query.pool.size, contrast), np.zeros(query.pool.size)
    expected = (1 + query.centres / CENTRE_UNIT) / 2 if likes is None else likes
    effect = reach(query.centres, expected, items=query.items, rated=rated)
    gain = bit_channel(epsilon).contrast * rated / query.items
    return gain * effect.slope, gain * effect.offset


def others_share(pool: int, *, items: int, rated: int) -> float:
    """Return how many other ratings of a pool a user has that rated one of its items, for each that any user has."""
    return (pool - 1) / pool * (rated - 1) / rated * items / (items - 1) if items > 1 else 0.0


def read_sets(query: Query, statistic: ScoreStatistic, *, rated: int) -> Estimates:
    """Return estimates of b from a round of MaxSense.

    An item's contrast, ``P(S = 1 | sensed) - P(S = 1 | not sensed)``, is ``t (w/N) b`` times the probability that no
    other sensed item was liked. The share of 1 among the answers tells that of no sensed item at all, a power of it
    that of the others. With one user class the estimates are of
    b; with several of a mean of b that weighs the classes by that probability, and shifts a little with the pool.
    """
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
