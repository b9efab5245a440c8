"""The rounds that a scenario's schedule asks over its periods."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from coordinator.protocol.errors import InputError
from coordinator.protocol.schedule import Horizon, Schedule, schedule_of
from coordinator.protocol.trust_models import LOCAL
from scenarios.config.identity import import_object

if TYPE_CHECKING:
    from coordinator.server.rounds.scheduled import Asking
    from scenarios.config.scenario import Scenario


def asking_of(scenario: Scenario, arrivals: tuple[int, ...] | None = None) -> Asking:
    """Return the rounds of a scenario over periods, of devices that arrive in each, by default in the first."""
    periods = scenario.periods or 1
    every = arrivals or (scenario.world.users, *[0] * (periods - 1))
    return _asking(scenario.schedule, periods, scenario.trust == LOCAL, scenario.ageing, every)


@lru_cache(maxsize=64)
def _asking(name: str, periods: int, alone: bool, ageing: float, arrivals: tuple[int, ...]) -> Asking:
    from coordinator.server.rounds.scheduled import asking, renewal_share  # noqa: PLC0415 (numerical)

    horizon = Horizon(periods=periods, alone=alone, renewal=renewal_share(ageing))
    return asking(named_schedule(name), horizon, arrivals)


def named_schedule(name: str) -> Schedule:
    """Return a schedule by its name, or one of somebody's own by its import path."""
    if ":" not in name or name.startswith("stay:"):
        return schedule_of(name)
    schedule = import_object(name, "schedule")()
    if not isinstance(schedule, Schedule):
        raise InputError(f"schedule {name} is no subclass of blindrec.Schedule; give it a method panels")
    return schedule
