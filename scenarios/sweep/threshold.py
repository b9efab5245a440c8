"""Thresholds: the number of users from which one seed's run succeeds, by every decoder and criterion."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from coordinator.protocol.errors import InputError
from coordinator.server.server_half import ANCHOR, GROUPS
from scenarios.data.block_world import block_parameters, settle
from scenarios.data.liked import liked_share
from scenarios.data.metrics import ClusteringScores, clustering_scores
from scenarios.given.config import Scenario
from scenarios.places.in_process import InProcess
from scenarios.planner.needs import Target
from scenarios.planner.needs import predicted_users as needed_users
from scenarios.run.experiment import run
from scenarios.run.job import Result
from scenarios.run.popularity import top_share
from scenarios.sweep.axes import LABELS, TOP, Criterion
from scenarios.sweep.prefixes import Prefixes
from scenarios.sweep.reruns import Reruns
from scenarios.theory.anchor_prediction import users_of
from scenarios.theory.predictors import predictor
from scenarios.theory.separability import inseparable
from scenarios.theory.toy_prediction import query_users

STEP = math.sqrt(2)
"""Factor between populations while a bracket is sought: overshooting costs devices, evaluations cost little."""
STOPPING = ("eliminate", "item-by-item", "until-learned", ANCHOR)
"""Policies that decide themselves how many users they ask."""


class Key(NamedTuple):
    """A unit: place of the setting in the grid, and seed."""

    setting: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is measured at one go, in one process.

    Attributes
    ----------
    scenario : Scenario
        The setting with its seed; ``users`` is the most that may be simulated.
    decoders : tuple of str
        All read the same releases.
    share, resolution : float
        As in `scenarios.sweep.grid.GridFile`.
    start : int
        Population to start from.
    criteria : tuple of str
        Which successes are looked for.
    probes : tuple of int
        Users at which accuracy is looked at, one a decoder, 0 for none.
    """

    scenario: Scenario
    decoders: tuple[str, ...]
    share: float
    resolution: float
    start: int
    criteria: tuple[Criterion, ...] = LABELS
    probes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Threshold:
    """The users from which a decoder succeeds by a criterion; None where the most users did not do."""

    decoder: str
    criterion: str
    users: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one unit found.

    Attributes
    ----------
    thresholds : tuple of Threshold
        One a decoder and criterion.
    accuracies : dict of str to float
        Share of items right at the probes, by decoder.
    devices : int
        Devices simulated, those asked again included.
    seconds : float
        Time taken.
    """

    thresholds: tuple[Threshold, ...]
    devices: int
    seconds: float
    accuracies: dict[str, float] = field(default_factory=dict)


def adapts(scenario: Scenario) -> bool:
    """Return whether a scenario's policy decides itself how many users it asks; one's own may."""
    return scenario.policy in STOPPING or ":" in scenario.policy


def crossing(success: Callable[[int], bool], *, start: int, most: int, resolution: float) -> int | None:
    """Find a number of users with success, just above one without.

    From ``start`` the population grows by `STEP` until there is success, or shrinks until there is none; bisection then
    halves the bracket in its logarithm.

    Parameters
    ----------
    success : callable
        Takes a number of users, 1 to ``most``.
    start : int
        Where to begin.
    most : int
        Largest number of users.
    resolution : float
        Relative width of the last bracket.

    Returns
    -------
    int or None
        The bracket's upper end, at which there was success; None where there is none up to ``most`` on the way.

    Notes
    -----
    Success is not monotone: near the threshold one more user may spoil it. What is found is the crossing that this
    bisection meets, not the smallest of all; over seeds its median is the population that half of the runs succeed at.
    """
    high = min(max(start, 1), most)
    if success(high):
        while (low := int(high / STEP)) and success(low):
            high = low
        return _bisect(success, low, high, resolution)
    while (low := high) < most:
        high = min(math.ceil(low * STEP), most)
        if success(high):
            return _bisect(success, low, high, resolution)
    return None


def _bisect(success: Callable[[int], bool], low: int, high: int, resolution: float) -> int:
    while high - low > max(1.0, resolution * low):
        middle = min(max(round(math.sqrt(low * high)), low + 1), high - 1)
        if success(middle):
            high = middle
        else:
            low = middle
    return high


def succeeds(scores: ClusteringScores, criterion: str, share: float) -> bool:
    """Return whether labels count as right by a criterion."""
    return scores.exact if criterion == "exact" else scores.accuracy >= share


def measure(unit: Unit) -> Measured:
    """Find the thresholds of one unit."""
    begin = time.perf_counter()
    if adapts(unit.scenario):
        thresholds, devices = _answered_at_stop(unit)
        return Measured(thresholds=thresholds, devices=devices, seconds=time.perf_counter() - begin)
    prefixes = Reruns(unit.scenario) if unit.scenario.policy == GROUPS else Prefixes(unit.scenario)
    thresholds = _crossings(unit, prefixes)
    accuracies = {
        decoder: prefixes.scores(probe, decoder).accuracy
        for decoder, probe in zip(unit.decoders, unit.probes, strict=False)
        if probe
    }
    seconds = time.perf_counter() - begin
    return Measured(thresholds=thresholds, devices=prefixes.simulated, seconds=seconds, accuracies=accuracies)


def _crossings(unit: Unit, prefixes: Prefixes | Reruns) -> tuple[Threshold, ...]:
    most = unit.scenario.users or 0

    def threshold(decoder: str, criterion: str) -> int | None:
        def success(users: int) -> bool:
            if criterion == TOP:
                return prefixes.top(users, decoder) >= unit.share
            return succeeds(prefixes.scores(users, decoder), criterion, unit.share)

        return crossing(success, start=unit.start, most=most, resolution=unit.resolution)

    return tuple(Threshold(*pair, threshold(*pair)) for pair in product(unit.decoders, unit.criteria))


def _answered_at_stop(unit: Unit) -> tuple[tuple[Threshold, ...], int]:
    """Run an adaptive policy to its end: the users that it asked are its threshold where the labels are right."""
    found, devices = list[Threshold](), 0
    for decoder in unit.decoders:
        finished = run(unit.scenario.model_copy(update={"decoder": decoder}), InProcess(1))
        devices += finished.statistic.asked
        for criterion in unit.criteria:
            enough = _enough(finished, criterion, unit.share)
            found.append(Threshold(decoder, criterion, finished.statistic.answered if enough else None))
    return tuple(found), devices


def _enough(finished: Result, criterion: str, share: float) -> bool:
    """Return whether a run's labels, or its list, count as right."""
    model, truth = finished.outcome.model, finished.population.truth
    if criterion == TOP:
        return top_share(model.score, liked_share(finished.population)) >= share
    assert truth is not None  # sweeps of labels run on the block model
    return succeeds(clustering_scores(model.cluster, truth), criterion, share)


@lru_cache(maxsize=1024)
def predicted_users(scenario: Scenario, target: Target | None = None) -> float | None:
    """Return the users at which the planner sees a target reached; by default all labels right with probability 1/2.

    None where nothing is predicted, or no number of users is enough. For item queries the expected number asked.
    """
    if scenario.ratings is not None:
        return None
    settled = settle(scenario.complete())
    if settled.policy == ANCHOR:
        try:
            asked = users_of(settled, 1 - settled.confidence)
        except InputError:
            return None
        return asked if math.isfinite(asked) else None
    if settled.half.learns_all:
        return query_users(block_parameters(settled), answers=settled.value("answers_per_item"))
    if inseparable(settled) or (found := predictor(settled)) is None:
        return None
    users = needed_users(found, target or Target(success=0.5, accuracy=None))
    return None if users is None else float(users)


def guess(scenario: Scenario) -> int:
    """Return the population to start from: the predicted threshold, or ``4 N ln N``."""
    predicted = predicted_users(scenario)
    items = scenario.items or 0
    return round(4 * items * np.log(items)) if predicted is None else round(predicted)
