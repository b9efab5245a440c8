"""Whether what a server estimates rises with the truth, and is as uncertain as it says."""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.server.design import PoolDesign
from coordinator.server.own import OwnDesign
from scenarios.conformance.server_checks import EPSILON, ITEMS
from scenarios.conformance.subject import Size, Subject
from scenarios.conformance.verdicts import Failed, Unchecked
from scenarios.given.run_spec import RunSpec
from scenarios.places.in_process import InProcess
from scenarios.run.experiment import run

RUNS, USERS = 20, 1 << 12
FALSE_ALARM = 1e-5
"""Probability that `estimates` fails values whose standard errors are right, by Student's law, for order and spread."""
SLACK = 1.5
"""Standard errors need be right up to this factor: some leave out which items users happened to rate."""
SIZE = Size(items=ITEMS, rated=ITEMS // 4, users=USERS)


def estimates(subject: Subject) -> str:
    """Check over seeds that values rise with what users like, and spread as their standard errors say.

    Items that are liked alike have one mean; around it the squares of values over squares of standard errors average
    one. Its mean over `RUNS` seeds lies within Student's interval of 1, but for a factor of `SLACK` in the errors.
    """
    from scipy.stats import t  # noqa: PLC0415 (the table of checks needs none of it)

    if subject.scenario is None:
        raise Unchecked("only whole catalogues are estimated")
    if not isinstance(RunSpec(subject.scenario(SIZE, EPSILON)).design, OwnDesign | PoolDesign):
        raise Unchecked("it tells no value and standard error of every item")
    told = [_ran(subject, seed) for seed in range(RUNS)]
    reach = float(t.isf(FALSE_ALARM / 4, RUNS - 1)) / math.sqrt(RUNS)
    rise = np.array([value[level > 0].mean() - value[level < 0].mean() for value, _, level in told])
    around, radius = float(rise.mean()), reach * float(rise.std(ddof=1))
    if around + radius < 0:
        raise Failed(f"items that are liked more have lower values: by {-around:.3g} +- {radius:.2g}")
    spread = np.array([_spread(*one) for one in told])
    mean, wide = float(spread.mean()), reach * float(spread.std(ddof=1))
    if mean - wide > SLACK**2 or mean + wide < 1 / SLACK**2:
        told_so = f"{math.sqrt(mean):.3g} of the standard errors that it states"
        raise Failed(f"values of items that are liked alike lie {told_so} from their mean")
    if around - radius <= 0:
        raise Unchecked(f"{USERS} users tell nothing of what they like: values rise by {around:.3g} +- {radius:.2g}")
    return f"values rise by {around:.3g} +- {radius:.2g}, and spread by {math.sqrt(mean):.3f} of their standard errors"


def _ran(subject: Subject, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return values and standard errors of one run, and of each item whether it is liked more than the mean."""
    assert subject.scenario is not None  # checked by who calls
    ran = run(subject.scenario(SIZE, EPSILON, seed=seed), InProcess(1))
    query, design = ran.outcome.state.asked[0].query, RunSpec(ran.scenario).design
    assert isinstance(design, OwnDesign | PoolDesign)  # checked by who calls
    found = design.read(query, ran.statistic)
    assert ran.population.truth is not None  # a block model
    level = np.array(ran.scenario.like).mean(axis=0)[ran.population.truth]
    known = found.information > 0
    error = 1 / np.sqrt(found.information[known])
    return found.weighted[known] * error**2, error, level[known] - level.mean()


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
