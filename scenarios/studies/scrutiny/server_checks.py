"""Checks of the server's half: its settings' words, and whether runs and estimates are as good as it predicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.server.custom import CustomDesign
from coordinator.server.design import PoolDesign
from scenarios.backends.selection import InProcess
from scenarios.config.custom_halves import OwnSettings
from scenarios.config.mechanism_settings import designs as local_mechanisms
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.metrics import clustering_scores
from scenarios.families.main.run import MainResult, run
from scenarios.studies.scrutiny.mechanism import MechanismUnderTest, Size
from scenarios.studies.scrutiny.verdicts import Failed, Unchecked
from scenarios.theory.predictors import predictor

EPSILON = Fraction(2)
RUNS, ITEMS = 20, 40
FALSE_ALARM = 1e-5
"""Probability that `prediction`, or `estimates`, fails a mechanism that keeps what it says, by Student's law."""
SLACK = 0.01  # predictions are right to first order in 1/N: a hundredth of the items
WANTED = 0.85  # share of items right at which predictions are looked at, where users matter most
ENOUGH = 1 << 14  # users that are as good as any number of them, where a prediction does not depend on it
ESTIMATE_USERS = 1 << 12
ERROR_SLACK = 1.5  # standard errors need be right up to this factor: some leave out which items users happened to rate


def settings(subject: MechanismUnderTest) -> str:
    """Check that every setting has its words, which are its flag's help, and means the same in all mechanisms."""
    ours = OwnSettings.model_fields if issubclass(subject.server.settings, OwnSettings) else {}
    fields = {name: field for name, field in subject.server.settings.model_fields.items() if name not in ours}
    if not fields:
        raise Unchecked("it has no settings of its own")
    for name, field in fields.items():
        if not (field.description or "").strip():
            raise Failed(f"setting {name} has no description")
        for other in local_mechanisms().values():
            theirs = other.settings.model_fields.get(name)
            if theirs is not None and repr(theirs) != repr(field):
                raise Failed(f"{other.name} has a setting {name}, too, of another type or with other words")
    return ", ".join(fields)


def prediction(subject: MechanismUnderTest) -> str:
    """Check that runs put as many items right as is predicted, on average over seeds.

    The mean of `RUNS` runs lies within Student's interval of its own standard error and `SLACK` around the prediction;
    that fails a right prediction with probability `FALSE_ALARM`.
    """
    from scipy.stats import t  # noqa: PLC0415 (the table of checks needs none of it)

    if subject.scenario is None:
        raise Unchecked("only whole catalogues are predicted")
    users, share, faint = _prediction_of(subject.scenario)
    runs = (run(subject.scenario(_size(users), EPSILON, seed=seed), InProcess(1)) for seed in range(RUNS))
    right = np.array([_right(one) for one in runs])
    radius = float(t.isf(FALSE_ALARM / 2, RUNS - 1)) * float(right.std(ddof=1)) / math.sqrt(RUNS) + SLACK
    measured = float(right.mean())
    if faint and measured < WANTED:
        raise Unchecked(f"{users} users: {measured:.3f} right, {share:.3f} predicted; both are too few to compare")
    if abs(measured - share) > radius:
        raise Failed(f"{users} users: {measured:.3f} of the items are right, {share:.3f} predicted, +- {radius:.3f}")
    return f"{users} users: {measured:.3f} right, {share:.3f} predicted, +- {radius:.3f}"


def _right(result: MainResult) -> float:
    """Return the share of items that a run put right."""
    assert result.population.truth is not None  # a block model
    return clustering_scores(result.outcome.model.cluster, result.population.truth).accuracy


def _prediction_of(scenario: Callable[..., Scenario]) -> tuple[int, float, bool]:
    """Return users with whom most, but not all of the items should be right, their share, and whether it is too small.

    Where a custom design predicts that the fewest are as good as any, that is tested; where it predicts that
    the most are too few, its prediction for `ENOUGH` is tested.
    """
    own = isinstance(scenario(_size(1 << 6), EPSILON).settings, OwnSettings)
    reason = "its class has no precision that says what to predict" if own else "its moments tell nothing"
    for users in (1 << power for power in range(6, 20)):
        forecast = predictor(scenario(_size(users), EPSILON))
        if forecast is None:
            continue
        share = forecast.accuracy(users)
        if not own and not reason.startswith("it is") and share == forecast.accuracy(ENOUGH):  # for as many as it takes
            return ENOUGH, share, False
        if share >= WANTED:
            return users, share, False
        reason = f"it is predicted to need more than {users} users"
    if own and reason.startswith("it is") and (forecast := predictor(scenario(_size(ENOUGH), EPSILON))):
        return ENOUGH, forecast.accuracy(ENOUGH), True
    raise Unchecked(f"{reason}, in a catalogue of {ITEMS} items")


def _size(users: int) -> Size:
    return Size(items=ITEMS, rated=ITEMS // 4, users=users)


def estimates(subject: MechanismUnderTest) -> str:
    """Check over seeds that values rise with what users like, and spread as their standard errors say.

    Items that are liked alike have one mean; around it the squares of values over squares of standard errors average
    one; its mean over `RUNS` seeds lies in Student's interval of 1, but for a factor of `ERROR_SLACK` in the errors.
    """
    from scipy.stats import t  # noqa: PLC0415 (the table of checks needs none of it)

    if subject.scenario is None:
        raise Unchecked("only whole catalogues are estimated")
    if not isinstance(RunSpec(subject.scenario(_size(ESTIMATE_USERS), EPSILON)).design, CustomDesign | PoolDesign):
        raise Unchecked("it estimates no value and standard error of every item")
    runs = [_estimates_of(subject, seed) for seed in range(RUNS)]
    reach = float(t.isf(FALSE_ALARM / 4, RUNS - 1)) / math.sqrt(RUNS)
    rise = np.array([value[level > 0].mean() - value[level < 0].mean() for value, _, level in runs])
    around, radius = float(rise.mean()), reach * float(rise.std(ddof=1))
    rises = f"values rise by {around:.3g} +- {radius:.2g}"
    if around + radius < 0:
        raise Failed(f"items that are liked more have lower values: by {-around:.3g} +- {radius:.2g}")
    spread = np.array([_spread(*one) for one in runs])
    mean, wide = float(spread.mean()), reach * float(spread.std(ddof=1))
    if mean - wide > ERROR_SLACK**2 or mean + wide < 1 / ERROR_SLACK**2:
        share = f"{math.sqrt(mean):.3g} of the standard errors that it states"
        raise Failed(f"values of items that are liked alike lie {share} from their mean")
    if around - radius <= 0:
        raise Unchecked(f"{ESTIMATE_USERS} users tell nothing of what they like: {rises}")
    return f"{rises}, and spread by {math.sqrt(mean):.3f} of their standard errors"


def _estimates_of(subject: MechanismUnderTest, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return values and standard errors of one run, and of each item whether it is liked more than the mean."""
    assert subject.scenario is not None  # checked by who calls
    result = run(subject.scenario(_size(ESTIMATE_USERS), EPSILON, seed=seed), InProcess(1))
    query, design = result.outcome.state.asked[0].query, result.spec.design
    assert isinstance(design, CustomDesign | PoolDesign)  # checked by who calls
    sums = design.read(query, result.statistic)
    assert result.population.truth is not None  # a block model
    level = np.array(result.scenario.like).mean(axis=0)[result.population.truth]
    measured = sums.information > 0
    error = 1 / np.sqrt(sums.information[measured])
    return sums.weighted[measured] * error**2, error, level[measured] - level.mean()


def _spread(value: Floats, error: Floats, level: Floats) -> float:
    """Return the mean square of how far values lie from the mean of their cluster, in standard errors."""
    squares, degrees = 0.0, 0
    for one in np.unique(level):
        alike = level == one
        weight = 1 / error[alike] ** 2
        centre = float(np.average(value[alike], weights=weight))
        squares += float((weight * (value[alike] - centre) ** 2).sum())
        degrees += int(alike.sum()) - 1
    return squares / max(degrees, 1)
