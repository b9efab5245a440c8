"""What a simulation would cost, and a plan's own check: predicted beside measured at the planned number of users."""

import math
import time
from typing import Any

from rich.console import Console

from actors.device import Cohort
from coordinator.protocol.coins import derive
from coordinator.server.mechanisms import aggregate
from coordinator.server.rounds.state import ServerState
from scenarios.backends.session import Backend
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate
from scenarios.experiment.experiment import Running, run_seeds
from scenarios.families.main.main_job import MainJob
from scenarios.theory.predictors import predictor

_SECONDS, _FIRST, _MOST = 0.5, 64, 1 << 20


def measure_cost(scenario: Scenario, users: int) -> dict[str, float]:
    """Time a few devices of a scenario on one core here, and return what it costs to ask ``users`` of them once."""
    sample = scenario.model_copy(update={"users": _MOST})
    population = populate(sample)
    spec = RunSpec(sample)
    ask = spec.policy.next_query(ServerState(devices=_MOST))
    if ask is None:
        raise ValueError("a policy that asks nothing costs nothing")
    cohort = Cohort(population.ratings, derive(sample.seed, "devices"), 0, _MOST, spec.budget)
    aggregate(ask.query, cohort.answer(ask.query, 0, 1))  # compiles
    first, count = 1, _FIRST
    while True:
        stop = min(first + count, _MOST)
        start = time.perf_counter()
        aggregate(ask.query, cohort.answer(ask.query, first, stop))
        seconds = time.perf_counter() - start
        if seconds >= _SECONDS or stop == _MOST:
            rate = (stop - first) / seconds
            hours = users / rate / 3600
            return {
                "devices_per_second_and_core": rate,
                "core_seconds": users / rate,
                "cores_for_an_hour": max(1, math.ceil(hours)),
                "cores_for_a_day": max(1, math.ceil(hours / 24)),
            }
        first, count = stop, 2 * count


def check_plan(scenario: Scenario, session: Backend, *, repeat: int, console: Console) -> dict[str, Any]:
    """Run a scenario and return its result with what was predicted for it."""
    measurement = run_seeds(MainJob(), scenario, Running(session=session, console=console), repeat)
    as_run = Scenario.model_validate(measurement.scenario)
    prediction, answered = predictor(RunSpec(as_run).local_scenario), measurement.values["answered"]
    sides = (None, None) if prediction is None else (prediction.accuracy(answered), prediction.exact(answered))
    return {"intervals": {}, **measurement.values, "accuracy_predicted": sides[0], "exact_predicted": sides[1]}
