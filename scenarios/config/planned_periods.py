"""The rounds that a scenario's schedule asks over its periods."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.arrays import Indices
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.schedule import COUNTER, MEMOIZE, EvenSplit, Horizon, Schedule, schedule_of
from coordinator.protocol.trust_models import LOCAL
from scenarios.config.identity import import_object

if TYPE_CHECKING:
    from coordinator.server.rounds.scheduled import Asking
    from scenarios.config.scenario import Scenario


def asking_of(scenario: Scenario, arrivals: tuple[int, ...] | None = None) -> Asking:
    """Return the rounds of a filled-in scenario over periods, of devices that arrive in each; else as churn has it."""
    periods, users, churn = scenario.periods or 1, scenario.world.users, scenario.churn
    # As many come as leave of those who are there at a time
    later = math.floor(churn * math.floor(users / (1 + churn * (periods - 1))))
    every = arrivals or (users - (periods - 1) * later, *[later] * (periods - 1))
    alone = scenario.trust == LOCAL
    return _asking(scenario.schedule, periods, alone, scenario.ageing, scenario.item_arrivals, every, churn)


@lru_cache(maxsize=64)
def _asking(
    name: str, periods: int, alone: bool, ageing: float, new: float, arrivals: tuple[int, ...], churn: float
) -> Asking:
    from coordinator.server.rounds.scheduled import asking, renewal_share  # noqa: PLC0415 (numerical)

    horizon = Horizon(periods=periods, alone=alone, renewal=renewal_share(ageing, new))
    return asking(named_schedule(name), horizon, arrivals, churn)


def arriving_items(scenario: Scenario) -> tuple[Indices, ...]:
    """Return the items that come with the second period and each later one of a made world; public coins say which."""
    items, public = scenario.world.items, derive(scenario.seed, "public")
    count, later = round(scenario.item_arrivals * items), range(2, (scenario.periods or 1) + 1)
    if not count:
        return ()
    coins = (np.random.default_rng(int.from_bytes(derive(public, f"items of period {period}"))) for period in later)
    return tuple(np.sort(coin.permutation(items)[:count]).astype(np.int32) for coin in coins)


def named_schedule(name: str) -> Schedule:
    """Return a schedule by its name, or one of somebody's own by its import path."""
    if name in (MEMOIZE, COUNTER):  # everybody in every period; of what that is a share, their accounts say
        return EvenSplit()
    if ":" not in name or name.startswith("stay:"):
        return schedule_of(name)
    schedule = import_object(name, "schedule")()
    if not isinstance(schedule, Schedule):
        raise InputError(f"schedule {name} is no subclass of blindrec.Schedule; give it a method panels")
    return schedule
