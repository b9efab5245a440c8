"""How many questions Multi-MaxSense should ask: the number that needs the fewest users."""

from __future__ import annotations

import math

from coordinator.designs import MultiMaxSense
from coordinator.multi_moments import multi_maxsense_moments
from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import LARGEST_EPSILON
from scenarios.config import Scenario
from scenarios.kinds import design_of, multi_maxsense
from scenarios.populations import Population
from scenarios.separability import block_parameters

SPLITS = 64
"""More questions than epsilon / 2.2 or so cost users; none above this is looked at where epsilon is infinite."""


def settled(population: Population) -> Population:
    """Return the population with the scenario's questions made a number; see `settle`."""
    return population.with_scenario(settle(population.scenario))


def settle(scenario: Scenario) -> Scenario:
    """Return a filled-in scenario with Multi-MaxSense's ``questions``, where they are a name, made a number.

    "ceil" is the paper's ``ceil(epsilon)``, at most 1/p; "auto" the number that needs the fewest users. What decides is
    the answers' signal for its noise, ``(contrast between clusters)^2 / variance`` of a user, from exact moments; with
    a ratings file, whose clusters nobody knows, ``Q tanh^2(epsilon / 2Q)``.
    """
    if scenario.design != "multi-maxsense" or isinstance(scenario.questions, int):
        return scenario
    if scenario.questions == "auto":
        return scenario.model_copy(update={"questions": best_questions(scenario)})
    design = design_of(scenario)
    assert isinstance(design, MultiMaxSense)
    return scenario.model_copy(update={"questions": design.questions})


def best_questions(scenario: Scenario) -> int:
    """Return the number of questions Q, 1 to 1/p, that needs the fewest users."""
    most, epsilon = multi_maxsense(scenario, 1).most_questions, as_float(scenario.epsilon)
    least = 1 if math.isinf(epsilon) else max(1, math.ceil(epsilon / LARGEST_EPSILON))
    largest = min(most, SPLITS if math.isinf(epsilon) else max(least, math.ceil(epsilon)))
    return max(range(min(least, largest), largest + 1), key=lambda questions: _signal(scenario, questions, epsilon))


def _signal(scenario: Scenario, questions: int, epsilon: float) -> float:
    if scenario.ratings is not None:
        return questions * math.tanh(epsilon / questions / 2) ** 2
    moments = multi_maxsense_moments(
        block_parameters(scenario),
        set_size=multi_maxsense(scenario, questions).set_size,
        questions=questions,
        epsilon=epsilon,
    )
    noise = moments.noise_paper if scenario.decoder == "paper" else moments.noise_centred
    spread = float(moments.effect.max() - moments.effect.min()) * moments.sensing
    return spread**2 / noise if noise else spread
