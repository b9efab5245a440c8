"""Estimates: what the rounds so far tell of every item, each round weighted by its precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.messages import Query
from coordinator.sign_moments import sign_contrast
from coordinator.statistics import ScoreStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """How well items are liked, as far as answers tell; sums of two rounds add up to that of both.

    Attributes
    ----------
    weighted : ndarray of float64, shape (N,)
        Every item's estimate times its information.
    information : ndarray of float64, shape (N,)
        Inverse variance of the estimate; 0 where an item was in no pool yet.
    """

    weighted: Floats
    information: Floats

    def __add__(self, other: Estimates) -> Estimates:
        """Return the estimates of both rounds together."""
        return Estimates(weighted=self.weighted + other.weighted, information=self.information + other.information)

    @property
    def value(self) -> Floats:
        """The estimates; 0 where nothing is known."""
        known = self.information > 0
        return np.divide(self.weighted, self.information, out=np.zeros_like(self.weighted), where=known)

    @property
    def error(self) -> Floats:
        """Their standard errors; infinite where nothing is known."""
        with np.errstate(divide="ignore"):
            error: Floats = 1 / np.sqrt(self.information)
        return error


def read_signs(query: Query, statistic: ScoreStatistic, *, rated: int) -> Estimates:
    """Return estimates of ``2 b - 1``, averaged over user classes, from a round of sign sensing.

    Unbiased whatever the block model: the other items' signs are fair coins, so that the contrast depends on the sizes
    of the pool and of a user's ratings alone.
    """
    scale, agreed, told = contrast_of(query, rated=rated), statistic.scores, statistic.sensed.astype(float)
    return Estimates(weighted=scale * (2.0 * agreed - told), information=scale**2 * told)


def contrast_of(query: Query, *, rated: int) -> float:
    """Return the contrast of a query of sign sensing; see `sign_moments.sign_contrast`."""
    assert query.pool is not None  # there are no signs without one
    vectors, kept = int(query.parameters["vectors"]), int(query.parameters["kept"])
    return sign_contrast(
        query.pool.size, items=query.items, rated=rated, vectors=vectors, kept=kept, epsilon=query.epsilon
    )


def read_sets(query: Query, statistic: ScoreStatistic, *, rated: int) -> Estimates:
    """Return estimates of b from a round of MaxSense.

    An item's contrast, ``P(S = 1 | sensed) - P(S = 1 | not sensed)``, is ``t (w/N) b`` times the probability that no
    other sensed item was liked, which the share of 1 among the answers tells. With one user class the estimates are of
    b; with several of a mean of b that weighs the classes by that probability, and shifts a little with the pool.
    """
    everywhere = np.full(query.items, statistic.sensed.sum() > 0)
    asked = everywhere if query.pool is None else np.isin(np.arange(query.items), query.pool)
    told, sensed = statistic.answered, statistic.sensed
    known = asked & (sensed > 0) & (sensed < told)
    channel, rate = bit_channel(query.epsilon), statistic.answer_rate
    flip = (1 - channel.contrast) / 2
    silent = min(max(1 - (rate - flip) / channel.contrast, 0.0), 1.0)
    scale = channel.contrast * rated / query.items * silent
    spread = rate * (1 - rate)
    nothing = np.zeros(query.items)
    if not (scale and spread):
        return Estimates(weighted=nothing, information=nothing)
    # score - rate * sensed has mean contrast * sensed * (told - sensed) / told, and that much variance times the spread
    power = np.where(known, sensed * (told - sensed) / max(told, 1), 0.0)
    centred = np.where(known, statistic.scores - rate * sensed, 0.0)
    return Estimates(weighted=scale * centred / spread, information=scale**2 * power / spread)
