"""The units of a two-tier sweep: one mechanism or one set of public users, one seed, each a process' own work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from coordinator.server.completion.course import Course
from coordinator.server.completion.predicting import baseline_errors, rmse
from scenarios.data.datasets import RatingTable
from scenarios.places.in_process import InProcess
from scenarios.two_tier.config import NONE, TwoTier, needs_scale
from scenarios.two_tier.course import CoursePlan, follow, points_of
from scenarios.two_tier.experiment import World, plan_of, read_table, score_of, settle, world_of

LEFT, RIGHT, SECOND, ATTACK, SETTINGS = "1-left", "1-right", "2", "attack", "settings"
FIGURES = (LEFT, RIGHT, SECOND, ATTACK)


class Key(NamedTuple):
    """A unit; its place on the horizontal axis is 0 where it is a whole curve."""

    figure: str
    curve: str
    place: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One course.

    Attributes
    ----------
    wanted : TwoTier
    every : int
        Private devices between two points.
    budget : int or None
        Public users join in their order until they have so many training ratings; None: ``wanted.public``.
    settings_only : bool
        Stop when rank and kappa are chosen.
    attacks : bool
        Attack the releases of the private devices about the model that public users alone give.
    """

    wanted: TwoTier
    every: int = 0
    budget: int | None = None
    settings_only: bool = False
    attacks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a unit found.

    Attributes
    ----------
    points : tuple of (int, float)
        Private devices so far, and the root mean squared error.
    baseline : float
        That of the items' means.
    public, ratings : int
        Public users, and their training ratings.
    rank, kappa, weight
        As given or chosen.
    attack : tuple of dict
        What was guessed: rows of `Guessed.as_json`.
    """

    points: tuple[tuple[int, float], ...]
    baseline: float
    public: int
    ratings: int
    rank: int
    kappa: float
    weight: float | None
    attack: tuple[dict[str, Any], ...] = ()


def measure(unit: Unit) -> Measured:
    """Measure one unit in this process, on one thread."""
    session, wanted = InProcess(1), unit.wanted
    table = _table(wanted.model_copy(update=_ANY if wanted.ratings is None else {**_ANY, "seed": 0}))
    if unit.budget is not None:
        wanted = wanted.model_copy(update={"public": _users_for(wanted, table, unit.budget)})
    world = world_of(wanted, table)
    fitting, _ = settle(world, session)
    public = world.split.public_rows
    points: list[tuple[int, float]] = []
    baseline, weight, attack = 0.0, None, list[dict[str, Any]]()
    if not unit.settings_only:
        plan = plan_of(world, fitting, every=unit.every)
        course, _ = follow(plan, session)
        points, weight = points_of(course, partial(score_of, world, session)), course.weight
        baseline = rmse(baseline_errors(course.features, world.split.test))
        attack = _guessed(wanted.seed, world, plan, course) if unit.attacks else []
    return Measured(
        points=tuple(points),
        baseline=baseline,
        public=public.users,
        ratings=public.items.size,
        rank=fitting.rank,
        kappa=fitting.kappa,
        weight=weight,
        attack=tuple(attack),
    )


def _guessed(seed: int, world: World, plan: CoursePlan, course: Course) -> list[dict[str, Any]]:
    """Attack what can be attacked: some mechanisms need a scale with all ratings on it."""
    from scenarios.two_tier.attack import ATTACKED, attack  # noqa: PLC0415 (trees, only where they grow)

    levels = world.scale.levels
    on_scale = levels is not None and len(levels) > 1 and bool(np.isin(plan.private.values, levels).all())
    attacked = [one for one in ATTACKED if on_scale or not needs_scale(one[0])]
    found = attack(course.features, plan.server.public, plan.private, seed, attacked=attacked)
    return [one.as_json() for one in found]


_ANY: dict[str, Any] = {
    "mechanism": NONE,
    "epsilon": None,
    "rank": None,
    "regularisation": None,
    "public": 1,
    "private": 0,
    "public_by": "most",
    "norm": "uniform",
    "weight": None,
}
"""What a table does not depend on."""


@lru_cache(maxsize=1)
def _table(wanted: TwoTier) -> RatingTable:
    return read_table(wanted)


def _users_for(wanted: TwoTier, table: RatingTable, budget: int) -> int:
    """Return how many public users have about ``budget`` training ratings: the nearest number, at least 2."""
    most = world_of(wanted.model_copy(update={"public": table.users, "private": 0, "rank": None}), table)
    sums = np.cumsum(most.split.train.degrees[most.split.public])
    return max(2, int(np.argmin(np.abs(sums - budget))) + 1)
