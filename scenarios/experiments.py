"""All experiments by the names of their commands."""

from __future__ import annotations

from typing import Any

from scenarios.app.experiment import Experiment
from scenarios.main_job import MainJob
from scenarios.online.online_experiment import Online
from scenarios.two_tier.two_tier_experiment import TwoTiers

MAIN_JOB = MainJob()
EXPERIMENTS: dict[str, Experiment[Any]] = {one.name: one for one in (MAIN_JOB, Online(), TwoTiers())}


def experiment_of(scenario: object) -> Experiment[Any]:
    """Return the experiment that a scenario is of."""
    return next(one for one in EXPERIMENTS.values() if isinstance(scenario, one.kind))
