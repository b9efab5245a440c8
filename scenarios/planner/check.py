"""A plan's own check: the simulation at the planned number of users, predicted beside measured."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from scenarios.app.experiment import Running
from scenarios.app.finishing import run_seeds
from scenarios.given.config import Scenario
from scenarios.places.session import Backend
from scenarios.run.main_job import MainJob
from scenarios.theory.predictors import predictor


def check_plan(scenario: Scenario, session: Backend, *, repeat: int, console: Console) -> dict[str, Any]:
    """Run a scenario and return its result with what was predicted for it."""
    measurement = run_seeds(MainJob(), scenario, Running(session=session, console=console), repeat)
    as_run = Scenario.model_validate(measurement.scenario)
    prediction, answered = predictor(as_run), measurement.values["answered"]
    predicted: dict[str, float | None] = {"accuracy_predicted": None, "exact_predicted": None}
    if prediction is not None:
        predicted = {"accuracy_predicted": prediction.accuracy(answered), "exact_predicted": prediction.exact(answered)}
    return {"intervals": {}, **measurement.values, **predicted}
