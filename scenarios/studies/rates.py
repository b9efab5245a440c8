"""How often guesses are right, as results and pages hold it: numbers with intervals, of each view of an attacker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from coordinator.protocol.arrays import Floats
from scenarios.show.intervals import CONFIDENCE, mean_interval, quantile_interval

DECILE = 0.9  # Of one person in ten an attack is right at least so often as this quantile of people says
ViewName = Literal["holds", "by law", "lies"]
"""What the attacker sees: what a rung lets out, by what it knows of all others or by their law; or if trust fails."""
How = Literal["exact", "simulated", "certified", "told", "about", "bound"]
"""Whether a number is exact; a mean over simulated messages of an exact test; from above, where others' messages are
taken as revealed or the attacker is told which likes were kept; about right; or nothing but the bound is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often guesses are right, with its interval of 95 % over people."""

    value: float
    low: float
    high: float

    def at_most(self, other: Rate) -> Rate:
        """Return the smaller one, of its value as of each end."""
        return Rate(value=min(self.value, other.value), low=min(self.low, other.low), high=min(self.high, other.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class GameRate:
    """How often guesses of a game are right: on average, and of one person in ten at least."""

    mean: Rate
    decile: Rate

    @classmethod
    def of(cls, right: Floats, worst: float) -> Self:
        """Return the mean and the last decile of people, from how often a guess about each is right."""
        return cls(
            mean=_rate(mean_interval(right.tolist(), CONFIDENCE), worst),
            decile=_rate(quantile_interval(right.tolist(), DECILE, CONFIDENCE), worst),
        )

    def at_most(self, other: GameRate | None) -> GameRate:
        """Return the smaller one, on average as in the decile."""
        if other is None:
            return self
        return GameRate(mean=self.mean.at_most(other.mean), decile=self.decile.at_most(other.decile))


def _rate(interval: Sequence[float | None], worst: float) -> Rate:
    """Return a rate whose interval lies between a coin and the worst case, which an end is that too few people have."""
    value, low, high = interval
    number = worst if value is None else value
    least, most = 0.5 if low is None else max(low, 0.5), worst if high is None else min(high, worst)
    return Rate(value=number, low=min(least, number), high=max(most, number))


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRisk:
    """What the best attack of a view reaches, beside the bound that epsilon gives."""

    view: ViewName
    how: How
    bound: float  # By epsilon and delta alone
    delta: float = 0.0
    worst: float | None = None  # Of the two histories that it tells apart best
    like: GameRate | None = None  # Whether a person likes an item: a history against itself without the item
    whose: GameRate | None = None  # Whose of two people's histories it is

    def at_most(self, other: ViewRisk) -> ViewRisk:
        """Return the view with rates that are no larger than those of a view that sees more."""
        return replace(
            self,
            like=self.like and self.like.at_most(other.like),
            whose=self.whose and self.whose.at_most(other.whose),
        )


MARKS: dict[str, str] = {"told": "*", "certified": "*", "about": "~"}
"""What stands behind a number in a table, by `How`: * from above, ~ about."""


def per_hundred(rate: Rate) -> str:
    """Return a rate in times of 100, with half its interval, rounded outwards to tenths.

    >>> per_hundred(Rate(value=0.58901, low=0.5851, high=0.5929))
    '58.9±.4'
    """
    value = round(100 * rate.value, 1)
    reach = math.ceil(10 * max(value - 100 * rate.low, 100 * rate.high - value) - 1e-9) / 10
    return f"{value:.1f}±{reach:.1f}".replace("±0.", "±.")
