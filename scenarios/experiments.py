"""All experiments by the names of their commands."""

from __future__ import annotations

from typing import Any

from coordinator.protocol.errors import InputError
from scenarios.app.experiment import Experiment
from scenarios.given.parsing import brief
from scenarios.online.online_experiment import Online
from scenarios.run.main_job import MainJob
from scenarios.two_tier.two_tier_experiment import TwoTiers

MAIN_JOB = MainJob()
EXPERIMENTS: dict[str, Experiment[Any]] = {one.name: one for one in (MAIN_JOB, Online(), TwoTiers())}


def experiment_of(scenario: object) -> Experiment[Any]:
    """Return the experiment that a scenario is of."""
    for one in EXPERIMENTS.values():
        if isinstance(scenario, one.kind):
            return one
    raise InputError(f"scenario is {brief(scenario)}; give a Scenario, an OnlineScenario or a TwoTierScenario")
