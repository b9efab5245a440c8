"""Whether the server's half says what it can be told, and whether a run puts right what its moments promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from scenarios.conformance.subject import Size, Subject
from scenarios.conformance.verdicts import Failed, Unchecked
from scenarios.data.metrics import clustering_scores
from scenarios.given.config import Scenario
from scenarios.given.mechanisms import designs
from scenarios.own.halves import OwnSettings
from scenarios.places.in_process import InProcess
from scenarios.run.experiment import run
from scenarios.run.job import Result
from scenarios.theory.predictors import predictor

EPSILON = Fraction(2)
RUNS, ITEMS = 20, 40
FALSE_ALARM = 1e-5
"""Probability that `prediction` fails a mechanism whose runs put right what was predicted, by Student's law."""
SLACK = 0.01
"""Predictions are right to first order in 1/N: a hundredth of the items."""
WANTED = 0.85
"""Share of items right at which predictions are looked at, where users matter most."""
ENOUGH = 1 << 14
"""Users that are as good as any number of them, where a prediction does not depend on it."""


def settings(subject: Subject) -> str:
    """Check that every setting has its words, which are its flag's help, and means the same in all mechanisms."""
    told = subject.server.settings.model_fields
    ours = OwnSettings.model_fields if issubclass(subject.server.settings, OwnSettings) else {}
    fields = {name: field for name, field in told.items() if name not in ours}
    if not fields:
        raise Unchecked("it has no settings of its own")
    for name, field in fields.items():
        if not (field.description or "").strip():
            raise Failed(f"setting {name} has no description")
        for other in designs().values():
            theirs = other.settings.model_fields.get(name)
            if theirs is not None and repr(theirs) != repr(field):
                raise Failed(f"{other.name} has a setting {name}, too, of another type or with other words")
    return ", ".join(fields)


def prediction(subject: Subject) -> str:
    """Check that runs put as many items right as is predicted, on average over seeds.

    The mean of `RUNS` runs lies within Student's interval of its own standard error and `SLACK` around the prediction;
    that fails a right prediction with probability `FALSE_ALARM`.
    """
    from scipy.stats import t  # noqa: PLC0415 (the table of checks needs none of it)

    if subject.scenario is None:
        raise Unchecked("only whole catalogues are predicted")
    users, share, faint = _predicted(subject.scenario)
    runs = (run(subject.scenario(_size(users), EPSILON, seed=seed), InProcess(1)) for seed in range(RUNS))
    right = np.array([_right(one) for one in runs])
    radius = float(t.isf(FALSE_ALARM / 2, RUNS - 1)) * float(right.std(ddof=1)) / math.sqrt(RUNS) + SLACK
    measured = float(right.mean())
    if faint and measured < WANTED:
        raise Unchecked(f"{users} users: {measured:.3f} right, {share:.3f} predicted; both are too few to compare")
    if abs(measured - share) > radius:
        raise Failed(f"{users} users: {measured:.3f} of the items are right, {share:.3f} predicted, +- {radius:.3f}")
    return f"{users} users: {measured:.3f} right, {share:.3f} predicted, +- {radius:.3f}"


def _right(ran: Result) -> float:
    """Return the share of items that a run put right."""
    assert ran.population.truth is not None  # a block model
    return clustering_scores(ran.outcome.model.cluster, ran.population.truth).accuracy


def _predicted(scenario: Callable[..., Scenario]) -> tuple[int, float, bool]:
    """Return users with whom most, but not all of the items should be right, their share, and whether it is too small.

    Where a design of one's own predicts that the fewest are as good as any, it is held to that; where it predicts that
    the most are too few, it is held to what it says of `ENOUGH`.
    """
    own = isinstance(scenario(_size(1 << 6), EPSILON).settings, OwnSettings)
    reason = "its class has no precision that says what to predict" if own else "its moments tell nothing"
    for users in (1 << power for power in range(6, 20)):
        found = predictor(scenario(_size(users), EPSILON))
        if found is None or (share := found.share(users)) is None:
            continue
        if not own and not reason.startswith("it is") and share == found.share(ENOUGH):  # for as many as it takes
            return ENOUGH, share, False
        if share >= WANTED:
            return users, share, False
        reason = f"it is predicted to need more than {users} users"
    if own and reason.startswith("it is") and (found := predictor(scenario(_size(ENOUGH), EPSILON))):
        return ENOUGH, found.share(ENOUGH) or 0.0, True
    raise Unchecked(f"{reason}, in a catalogue of {ITEMS} items")


def _size(users: int) -> Size:
    return Size(items=ITEMS, rated=ITEMS // 4, users=users)
