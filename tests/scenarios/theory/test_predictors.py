"""Predictors by scenario: every design has one, and simulated populations meet it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from runs import here, small

from coordinator.server.mechanisms import server_halves
from coordinator.server.mechanisms.maxsense import MultiMaxSenseSettings
from coordinator.server.server_half import ServerHalf
from scenarios.config.scenario import Scenario
from scenarios.data.populations import known_world, settle
from scenarios.families.main.main_seed import record
from scenarios.theory.predictors import Predictor, predictor


def predicted(**settings: Any) -> Predictor:
    found = predictor(settle(Scenario.model_validate(settings).complete()))
    assert found is not None
    return found


WITH_MOMENTS = [name for name, half in server_halves().items() if type(half).moments is not ServerHalf.moments]


@pytest.mark.parametrize("design", [name for name in WITH_MOMENTS if name != "anchor"])  # whose rounds are played
def test_every_design_with_moments_is_predicted(design: str) -> None:
    found = predicted(design=design, items=40, rated=20, answers_per_item=3 if design == "item-query" else 1)
    few, many = 50, 500_000
    assert 0 <= found.exact(few) <= found.accuracy(few) <= 1
    assert found.accuracy(many) >= found.accuracy(few)
    if design != "item-query":
        assert found.accuracy(many) > 0.98
        assert found.exact(few) < 0.5 < found.exact(many)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "settings",
    [
        {"design": "maxsense", "users": 2500},
        {"design": "maxsense", "users": 4000, "decoder": "paper"},
        {"design": "multi-maxsense", "questions": 2, "epsilon": 4, "users": 1200},
        {"design": "curator-items", "users": 60},
        {"design": "full-reveal", "users": 60},
        {"design": "curator-pairs", "users": 300},
        {"design": "curator-pairs", "users": 300, "rated": 40},
        {"design": "pairwise", "users": 700, "rated_items": "public"},
    ],
)
def test_simulated_populations_meet_the_prediction(settings: dict[str, Any]) -> None:
    """30 seeds: mean within 5 standard errors and 0.005, false alarm below 1e-4 each by Student's law.

    The twin: half of the users would not have met it.
    """
    wanted = {"items": 40, "rated": 10, "epsilon": "inf" if settings["design"] == "full-reveal" else 2, **settings}
    found, users = predicted(**wanted), wanted["users"]
    shares = np.array([record(here(small(**wanted, seed=seed)), None)["accuracy"] for seed in range(30)])
    error = 5 * float(shares.std(ddof=1)) / math.sqrt(30) + 0.005
    assert abs(float(shares.mean()) - found.accuracy(users)) < error
    assert abs(float(shares.mean()) - found.accuracy(users // 2)) > error


def test_nothing_is_predicted_where_nothing_is_told() -> None:
    assert predictor(small(theta=5).complete()) is None
    assert predictor(settle(small(design="multi-maxsense", theta=5).complete())) is None
    assert predictor(small(clusters=3).complete()) is None


def best_questions(scenario: Scenario) -> int:
    assert isinstance(scenario.settings, MultiMaxSenseSettings)
    return scenario.settings.best_questions(known_world(scenario), scenario.decoder)


def test_questions_are_about_epsilon_over_2() -> None:
    """The signal Q tanh^2(epsilon / 2Q) is largest where epsilon / Q is about 2.2."""
    for epsilon in (8, 20):
        wanted = small(design="multi-maxsense", rated=40, items=400, questions="auto", epsilon=epsilon).complete()
        assert best_questions(wanted) == pytest.approx(epsilon / 2.2, abs=1)
        assert settle(wanted).value("questions") == best_questions(wanted)
    assert best_questions(small(design="multi-maxsense", questions="auto").complete()) == 1
    assert settle(small(design="multi-maxsense", epsilon="5/2").complete()).value("questions") == 3
    assert settle(small(design="maxsense").complete()).value("questions") == "ceil"
