"""Schedules: who answers in which period, under which share of a budget that holds for all periods together.

A schedule is a pure plan. Everybody who arrives in one period is divided into panels by a public coin, and a panel has
a share of its budget in each period, a rational: shares of one person add up to at most 1. Who is asked follows from
when a device arrived, which is public, and from its coin, never from what it likes.

The trust model decides what is shared. Devices that trust nobody share epsilon, because epsilons of local answers add
up. Otherwise they share the squared distance of two normal laws, which adds up for Gaussian noise; a shuffler's rounds
are sized by it, then certified as one plan (`coordinator.protocol.shuffled_plan`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from coordinator.protocol.checked import require_whole
from coordinator.protocol.errors import InputError, name_choices

MOST_PERIODS = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """What a schedule may depend on.

    Attributes
    ----------
    periods : int
        Periods T for which one budget holds; they count from 1.
    alone : bool
        Whether devices trust nobody: then it is better that few devices spend much than that all split their epsilon.
    renewal : Fraction
        Share of knowledge that ages in a period.
    """

    periods: int
    alone: bool
    renewal: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """People who arrive in one period and answer in the same periods.

    Attributes
    ----------
    weight : Fraction
        Share of the people who arrive; a public coin says who.
    shares : tuple of Fraction
        Share of the budget in each period of the horizon, the first one first.
    """

    weight: Fraction
    shares: tuple[Fraction, ...]


class Schedule(ABC):
    """Who answers when; a schedule of your own is a subclass with `panels`.

    Examples
    --------
    >>> EvenSplit().panels(1, Horizon(periods=3, alone=True))[0].shares
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))
    """

    name: ClassVar[str] = ""

    @abstractmethod
    def panels(self, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
        """Return the panels of those who arrive in a period, from 1 on; weights add up to at most 1.

        It depends on its arguments alone: no randomness, no memory.
        """


def _at(period: int, periods: int, share: Fraction = Fraction(1)) -> tuple[Fraction, ...]:
    return tuple(share if number == period else Fraction(0) for number in range(1, periods + 1))


@dataclass(frozen=True, slots=True)
class Once(Schedule):
    """Everybody answers once, on arrival, under the whole budget."""

    name: ClassVar[str] = "once"

    def panels(self, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
        """Return one panel."""
        return (Panel(weight=Fraction(1), shares=_at(arrival, horizon.periods)),)


@dataclass(frozen=True, slots=True)
class EvenSplit(Schedule):
    """Everybody answers in every period, under equal shares."""

    name: ClassVar[str] = "split"

    def panels(self, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
        """Return one panel."""
        share = Fraction(1, horizon.periods)
        shares = tuple(share if period >= arrival else Fraction(0) for period in range(1, horizon.periods + 1))
        return (Panel(weight=Fraction(1), shares=shares),)


@dataclass(frozen=True, slots=True)
class Rotate(Schedule):
    """Everybody answers once under the whole budget, in one of the periods from arrival on."""

    name: ClassVar[str] = "rotate"

    def panels(self, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
        """Return a panel for each period that is left."""
        left = range(arrival, horizon.periods + 1)
        return tuple(Panel(weight=Fraction(1, len(left)), shares=_at(period, horizon.periods)) for period in left)


@dataclass(frozen=True, slots=True)
class Front(Schedule):
    """Much in the first period, then enough to renew what ages.

    If devices trust nobody, everybody answers once: of the first arrivals some at once, and x times as many in each
    later period; newcomers on arrival. Otherwise everybody answers in every period, with shares in the proportions 1,
    x, x and so on. x is the horizon's renewal: with 1 this is `Rotate` or `EvenSplit`, with 0 `Once`.
    """

    name: ClassVar[str] = "front"

    def panels(self, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
        """Return the panels."""
        left = horizon.periods - arrival + 1
        whole = 1 + (left - 1) * horizon.renewal
        parts = [Fraction(1) / whole, *([horizon.renewal / whole] * (left - 1))]
        if horizon.alone and arrival > 1:
            return Once().panels(arrival, horizon)
        if horizon.alone:
            return tuple(
                Panel(weight=part, shares=_at(number, horizon.periods)) for number, part in enumerate(parts, 1) if part
            )
        return (Panel(weight=Fraction(1), shares=(Fraction(0),) * (arrival - 1) + tuple(parts)),)


@dataclass(frozen=True, slots=True)
class Stay(Schedule):
    """Everybody answers in a fixed number of periods from arrival on, with equal shares, and is silent afterwards."""

    length: int
    name: ClassVar[str] = "stay"

    def panels(self, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
        """Return one panel."""
        stays = range(arrival, arrival + self.length)
        shares = tuple(Fraction(period in stays, self.length) for period in range(1, horizon.periods + 1))
        return (Panel(weight=Fraction(1), shares=shares),)


MEMOIZE, COUNTER = "memoize", "counter"
"""Ways to keep asking that give nobody a share of each period.

Memoized answers are repeated, and new where what somebody likes changed: no epsilon holds for histories. Counters add
up what came in each period under noise that is correlated over periods; see `coordinator.protocol.counters`.
"""
NO_EPSILON = "none for histories: an answer that differs from the last one shows that its value changed"
SCHEDULES = {schedule.name: schedule for schedule in (Once(), EvenSplit(), Rotate(), Front())}
NAMES = (*SCHEDULES, "stay:L")


def schedule_of(name: str) -> Schedule:
    """Return a schedule by its name: ``once``, ``split``, ``rotate``, ``front``, or ``stay:L`` with L periods."""
    if name in SCHEDULES:
        return SCHEDULES[name]
    kind, _, length = name.partition(":")
    if kind == Stay.name and length.isdigit() and 1 <= int(length) <= MOST_PERIODS:
        return Stay(int(length))
    raise InputError(f"schedule {name!r} is unknown; {name_choices(name, (*NAMES, COUNTER, MEMOIZE))}")


def panels_of(schedule: Schedule, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
    """Return a schedule's panels, after checking that nobody's shares add up to more than the budget.

    Raises
    ------
    InputError
        If weights or shares are no fractions from 0 on, add up to more than 1, or begin before arrival.

    >>> [float(panel.weight) for panel in panels_of(Rotate(), 2, Horizon(periods=3, alone=True))]
    [0.5, 0.5]
    """
    require_whole("periods", horizon.periods, 1, MOST_PERIODS)
    require_whole("arrival", arrival, 1, horizon.periods)
    # Whatever the code of somebody else returns
    made: Any = schedule.panels(arrival, horizon)
    name = type(schedule).__name__
    if not isinstance(made, tuple) or not all(type(panel) is Panel for panel in made):
        raise InputError(f"schedule {name} returns a {type(made).__name__}; return a tuple of panels")
    panels: tuple[Panel, ...] = made
    for panel in panels:
        if len(panel.shares) != horizon.periods:
            raise InputError(f"a panel of schedule {name} has no share for each of {horizon.periods} periods")
        if not all(type(part) is Fraction and part >= 0 for part in (panel.weight, *panel.shares)):
            raise InputError(f"schedule {name} has a share that is no fraction from 0 on; floats do not add up exactly")
        if (spent := sum(panel.shares)) > 1:
            raise InputError(f"shares of one person add up to {spent} under schedule {name}; they must be at most 1")
        if any(panel.shares[: arrival - 1]):
            raise InputError(f"schedule {name} asks people before they arrive, in period {arrival}")
    if (everybody := sum(panel.weight for panel in panels)) > 1:
        raise InputError(f"weights of panels add up to {everybody} under schedule {name}; they must be at most 1")
    return panels


def staying(devices: int, churn: float, periods: int) -> int:
    """Return how many devices remain some periods after their arrival if a share leaves in each.

    >>> [staying(1000, 0.05, periods) for periods in (0, 1, 2)]
    [1000, 950, 902]
    """
    return math.floor(devices * (1 - Fraction(str(churn))) ** periods)
