"""All experiments by the names of their commands."""

from typing import Any

from coordinator.protocol.errors import InputError
from scenarios.config.files import brief
from scenarios.experiment.experiment import Experiment
from scenarios.families.main.main_job import MainJob
from scenarios.families.online.online_scenario import Online
from scenarios.families.two_tier.two_tier_scenario import TwoTiers

MAIN_JOB = MainJob()
EXPERIMENTS: dict[str, Experiment[Any]] = {
    experiment.name: experiment for experiment in (MAIN_JOB, Online(), TwoTiers())
}


def experiment_of(scenario: object) -> Experiment[Any]:
    """Return the experiment that a scenario is of."""
    for experiment in EXPERIMENTS.values():
        if isinstance(scenario, experiment.kind):
            return experiment
    raise InputError(f"scenario is {brief(scenario)}; give a Scenario, an OnlineScenario or a TwoTierScenario")
