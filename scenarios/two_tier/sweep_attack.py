"""The attack as part of a two-tier sweep: one public model, the releases of the sweep's private devices, one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats
from scenarios.places.session import Session
from scenarios.two_tier.attack import ATTACKED, Asked, attack
from scenarios.two_tier.config import NONE, TwoTier, needs_scale
from scenarios.two_tier.course import follow
from scenarios.two_tier.experiment import plan_of, read_table, settle, world_of


def attack_sweep(base: TwoTier, session: Session) -> list[dict[str, Any]]:
    """Attack releases about the model that public users alone give at the base's seed; return rows as JSON values."""
    wanted = base.model_copy(update={"mechanism": NONE, "epsilon": None, "weight": None})
    world = world_of(wanted, read_table(wanted))
    fitting, _ = settle(world, session)
    plan = plan_of(world, fitting)
    course = follow(plan, session).outcome
    attacked = _attacked(world.scale.levels, plan.private.values)
    found = attack(course.features, plan.server.public, plan.private, wanted.seed, attacked=attacked)
    return [one.as_json() for one in found]


def _attacked(levels: tuple[float, ...] | None, ratings: Floats) -> Sequence[Asked]:
    """Return what can be attacked: some mechanisms need a scale with all ratings on it."""
    on_scale = levels is not None and len(levels) > 1 and bool(np.isin(ratings, levels).all())
    return [one for one in ATTACKED if on_scale or not needs_scale(one[0])]
