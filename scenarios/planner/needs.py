"""Inverse questions: the smallest number of users, or the smallest epsilon, that meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from scipy.special import logit

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import LARGEST_EPSILON
from coordinator.protocol.errors import InputError
from coordinator.server.moments.probabilities import root_between
from coordinator.server.moments.signs import AnchorMoments, SignMoments
from scenarios.data.populations import block_parameters, known_world
from scenarios.given.config import Scenario
from scenarios.planner.candidates import Candidate
from scenarios.planner.simulated import simulated
from scenarios.theory import toy_prediction
from scenarios.theory.anchor_prediction import users_of
from scenarios.theory.predictors import Predictor, from_moments, predictor

MOST_USERS = 10**15
"""Nobody has more users; beyond it a plan says so."""
_LEAST_EPSILON, _FINENESS, _STRIDE = 1e-6, 1e-4, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a plan must achieve; both where both are given."""

    success: float | None  # Probability that all items are right, in (0, 1)
    accuracy: float | None  # Share of items right, in (0, 1)

    def __post_init__(self) -> None:
        for name in ("success", "accuracy"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise InputError(f"{name} is {value}; it must lie above 0 and below 1")

    def margin(self, found: Predictor, users: int) -> float:
        """Return by how much that many answering users meet the target, in log-odds; negative where they do not."""
        margins = []
        if self.success is not None:
            margins.append(_log_odds(found.exact(users)) - _log_odds(self.success))
        if self.accuracy is not None:
            margins.append(_log_odds(found.accuracy(users)) - _log_odds(self.accuracy))
        return min(margins, default=0.0)

    def met(self, found: Predictor, users: int) -> bool:
        """Return whether that many answering users meet the target."""
        return self.margin(found, users) >= 0

    @property
    def words(self) -> str:
        """The target in words."""
        told = [] if self.success is None else [f"all items right with probability {self.success:g}"]
        told += [] if self.accuracy is None else [f"a share of {self.accuracy:g} of the items right"]
        return " and ".join(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a candidate needs for a target."""

    users: int | None  # Smallest number of users; None above `MOST_USERS`, or where no number is enough
    predictor: Predictor | None  # Its predictions
    answers: int | None = None  # Item query's yeses an item that the target asks for


def users_needed(candidate: Candidate, epsilon: Epsilon, target: Target) -> Need:
    """Return the smallest number of users with which a candidate meets the target, by prediction.

    For item queries, whose policy goes on until every item is learned, it is the expected number of users asked.
    """
    scenario = candidate.at(epsilon)
    if isinstance(candidate.half.moments(scenario.settings, known_world(scenario)), AnchorMoments):
        users = users_of(scenario, 1 - (target.success or scenario.confidence))
        return Need(users=math.ceil(users) if users <= MOST_USERS else None, predictor=None)
    if candidate.half.learns_all:
        return _item_query(candidate, target)
    found = predictor(scenario) or simulated_predictor(scenario)
    return Need(users=predicted_users(found, target) if found else None, predictor=found)


def simulated_predictor(scenario: Scenario) -> Predictor | None:
    """Return predictions from simulated answers of a design of one's own that brings no moments; None of others."""
    found = simulated(scenario)
    return from_moments(SignMoments(contrast=found.contrast), scenario) if found else None


def predicted_users(found: Predictor, target: Target) -> int | None:
    """Return the smallest number of users that meets a target; None above `MOST_USERS`, or where none does."""
    return _smallest(cache(lambda users: target.margin(found, users)), rises=found.rises)


def _item_query(candidate: Candidate, target: Target) -> Need:
    parameters = block_parameters(candidate.at(None))
    wanted = [
        toy_prediction.answers_for(parameters, **{name: value})
        for name, value in (("exact", target.success), ("accuracy", target.accuracy))
        if value is not None
    ]
    answers = max(wanted)
    users = math.ceil(toy_prediction.query_users(parameters, answers=answers))
    found = predictor(candidate.at(None, answers_per_item=answers))
    return Need(users=users if users <= MOST_USERS else None, predictor=found, answers=answers)


def _log_odds(probability: float) -> float:
    """Return the log-odds, finite for 0 and 1 too."""
    return float(logit(min(max(probability, 1e-300), 1 - 1e-16)))


def _smallest(margin: Callable[[int], float], *, rises: bool) -> int | None:
    """Return the smallest number of users with a margin of at least 0, to one part in 10,000; None above the most.

    A margin that rises with the users is looked at from the most users down, where predictions cost least.
    """
    steps = [2]
    while steps[-1] < MOST_USERS:
        steps.append(_STRIDE * steps[-1])
    if rises:
        above = next((k + 1 for k in reversed(range(len(steps))) if margin(steps[k]) < 0), 0)
    else:
        above = next((k for k, users in enumerate(steps) if margin(users) >= 0), len(steps))
    if above == len(steps):
        return None
    low, high = steps[above - 1], steps[above]
    if high == 2:
        return 1 if margin(1) >= 0 else 2
    found = root_between(lambda log: margin(round(math.exp(log))), math.log(low), math.log(high), width=_FINENESS)
    users = math.ceil(math.exp(found))
    while margin(users) < 0:  # the root lies within the tolerance, on either side
        users += max(1, users // 10_000)
    return users if users <= MOST_USERS else None


def epsilon_needed(candidate: Candidate, target: Target, users: int) -> Epsilon:
    """Return the smallest epsilon at which that many users meet the target, to one part in 10,000; None if none does.

    Where a mechanism asks ``ceil(epsilon)`` questions, its need of users jumps up behind each whole number: whole
    numbers are looked at first, then the stretch below the first one that is enough.
    """

    def enough(epsilon: Fraction) -> bool:
        found = predictor(candidate.at(epsilon))
        return found is not None and target.met(found, users)

    low, high = Fraction(_LEAST_EPSILON).limit_denominator(10**9), Fraction(LARGEST_EPSILON)
    if candidate.half.settings.jumps:
        high = next((Fraction(whole) for whole in range(1, LARGEST_EPSILON) if enough(Fraction(whole))), high)
        low = max(low, high - 1)
    if not enough(high):
        return None
    while high / low > 1 + _FINENESS:
        middle = Fraction(math.sqrt(low * high)).limit_denominator(10**9)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
