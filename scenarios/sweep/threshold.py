"""Thresholds: the number of users from which one seed's run succeeds, by every decoder and criterion."""

from __future__ import annotations

import math
import time
from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from actors.device import Cohort
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model, Query
from coordinator.server.aggregation import aggregate, no_release
from coordinator.server.design import EmulatedDesign
from coordinator.server.fleet.layout import cut
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.rounds import Outcome, conduct
from coordinator.server.rounds.state import Ask, ServerState
from coordinator.server.server_half import ANCHOR, GROUPS
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.data.metrics import ClusteringScores, clustering_scores
from scenarios.data.populations import (
    Population,
    block_parameters,
    class_shares,
    liked_share,
    populate,
    settle,
    settled,
)
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.places.in_process import InProcess
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.planner.needs import Target
from scenarios.planner.needs import predicted_users as needed_users
from scenarios.run.experiment import run
from scenarios.run.job import Result
from scenarios.run.popularity import top_share
from scenarios.store.round_store import KeptRounds, Nowhere
from scenarios.sweep.grid import LABELS, TOP, Criterion
from scenarios.theory.anchor_prediction import users_of
from scenarios.theory.emulated_runs import query_users, world_key
from scenarios.theory.emulation import Emulated
from scenarios.theory.predictors import predictor
from scenarios.theory.separability import inseparable

BLOCK = 1 << 15
"""Devices that one call asks."""
APART = 2 ** (1 / 16)
"""Statistics on the way are kept at sizes this factor apart."""
KEEP_BYTES = 1 << 28
FEWEST_KEPT = 8


class Prefixes:
    """The first U devices of one scenario, for growing and shrinking U.

    Releases and public coins are keyed by device, so that the statistic of the first U devices is, bit for bit, that of
    a run with U users. A new U asks only the devices between the next smaller U that is kept and itself.
    """

    def __init__(self, scenario: Scenario) -> None:
        population = settled(populate(scenario))
        filled, self._population = population.scenario, population
        _ = RunSpec(filled).own  # one's own is checked and admitted before anybody is asked
        self.query = only_query(filled)
        secret, everybody = derive(filled.seed, "devices"), population.ratings.users
        self._cohort = Cohort(population.ratings, secret, 0, everybody, RunSpec(filled).budget)
        self._kept: dict[int, Statistic] = {0: aggregate(self.query, no_release(self.query))}
        self._sizes = [0]
        self._keep = max(FEWEST_KEPT, KEEP_BYTES // _bytes_of(self._kept[0]))
        self.scores, self.top = cache(self._scores), cache(self._top)
        self.simulated = 0

    def statistic(self, users: int) -> Statistic:
        """Return the statistic of devices 0 to ``users - 1``."""
        base = self._sizes[bisect_right(self._sizes, users) - 1]
        total, last = self._kept[base], base
        for first, stop in cut(base, users, BLOCK):
            stop_if_abandoned()
            total = merge(total, aggregate(self.query, self._cohort.answer(self.query, first, stop)))
            self.simulated += stop - first
            if stop >= math.ceil(last * APART):
                self._store(stop, total)
                last = stop
        self._store(users, total)
        return total

    def _store(self, users: int, statistic: Statistic) -> None:
        if users not in self._kept:
            self._kept[users] = statistic
            insort(self._sizes, users)
        while len(self._sizes) > self._keep:
            del self._kept[self._sizes.pop(1)]  # the smallest but nobody: the cheapest to ask again

    def _scores(self, users: int, decoder: str) -> ClusteringScores:
        """Return how right the labels are that a decoder finds from the first ``users`` devices."""
        if self._population.truth is None:
            raise ValueError("a ratings file has no truth to compare labels with")
        return clustering_scores(self._learned(users, decoder).cluster, self._population.truth)

    def _top(self, users: int, decoder: str) -> float:
        """Return the share of the list that a decoder finds which is right; see `popularity.top_share`."""
        return top_share(self._learned(users, decoder).score, liked_share(self._population, users))

    def _learned(self, users: int, decoder: str) -> Model:
        """Return the item model that a decoder finds from the first ``users`` devices."""
        stop_if_abandoned()
        learner = RunSpec(self._population.scenario.model_copy(update={"decoder": decoder})).learner
        return learned(learner, self.query, self.statistic(users), users=users)


def only_query(filled: Scenario) -> Query:
    """Return the one query of a filled-in scenario whose policy asks everybody at once."""
    start = ServerState(devices=filled.users or 0)
    ask = RunSpec(filled).policy.next_query(start)
    if ask is None or ask.stop < start.devices:
        raise ValueError(f"{filled.design} does not ask everybody at once; it has no prefixes")
    return ask.query


def learned(learner: Learner, query: Query, statistic: Statistic, *, users: int) -> Model:
    """Return the item model that a learner finds from one round with these ``users``."""
    state = learner.absorb(ServerState(devices=users), Ask(query=query, first=0, stop=users), statistic)
    return learner.learn(state)[0]


def _bytes_of(statistic: Statistic) -> int:
    names = getattr(statistic, "__dataclass_fields__", ())
    return sum(part.nbytes for name in names if isinstance(part := getattr(statistic, name), np.ndarray))


class Reruns:
    """What `scenarios.sweep.threshold.Prefixes` tells, by a run for each number of users; nothing is asked twice."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.scores, self.top = cache(self._scores), cache(self._top)
        self.simulated = 0

    def _scores(self, users: int, decoder: str) -> ClusteringScores:
        """Return how right the labels are that a decoder finds from so many users."""
        ran = self._ran(users, decoder)
        if ran.population.truth is None:
            raise ValueError("a ratings file has no truth to compare labels with")
        return clustering_scores(ran.outcome.model.cluster, ran.population.truth)

    def _top(self, users: int, decoder: str) -> float:
        """Return the share of the list that a decoder finds which is right; see `popularity.top_share`."""
        ran = self._ran(users, decoder)
        return top_share(ran.outcome.model.score, liked_share(ran.population))

    def _ran(self, users: int, decoder: str) -> Result:
        stop_if_abandoned()
        self.simulated += users
        return run(self._scenario.model_copy(update={"users": users, "decoder": decoder}), InProcess(1))


STEP = math.sqrt(2)
"""Factor between populations while a bracket is sought: overshooting costs devices, evaluations cost little."""
STOPPING = ("eliminate", "item-by-item", "until-learned", ANCHOR)
"""Policies that decide themselves how many users they ask."""


class ThresholdKey(NamedTuple):
    """A unit: place of the setting in the grid, and seed."""

    setting: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdUnit:
    """What is measured at one go, in one process."""

    scenario: Scenario  # The setting with its seed; ``users`` is the most that may be simulated
    decoders: tuple[str, ...]  # All read the same releases
    share: float  # As in `scenarios.sweep.grid.GridFile`
    resolution: float
    start: int  # Population to start from
    criteria: tuple[Criterion, ...] = LABELS  # Which successes are looked for
    probes: tuple[int, ...] = ()  # Users at which accuracy is looked at, one a decoder, 0 for none


@dataclass(frozen=True, slots=True)
class Threshold:
    """The users from which a decoder succeeds by a criterion; None where the most users did not do."""

    decoder: str
    criterion: str
    users: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdMeasurement:
    """What one unit found."""

    thresholds: tuple[Threshold, ...]  # One a decoder and criterion
    devices: int  # Devices simulated, those asked again included
    seconds: float  # Time taken
    accuracies: dict[str, float] = field(default_factory=dict)  # Share of items right at the probes, by decoder


def adapts(scenario: Scenario) -> bool:
    """Return whether a scenario's policy decides itself how many users it asks; one's own may."""
    return scenario.policy in STOPPING or ":" in scenario.policy


def crossing(success: Callable[[int], bool], *, start: int, most: int, resolution: float) -> int | None:
    """Find a number of users with success, just above one without.

    From ``start`` the population grows by `STEP` until there is success, or shrinks until there is none; bisection then
    halves the bracket in its logarithm.

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


def measure_threshold(unit: ThresholdUnit) -> ThresholdMeasurement:
    """Find the thresholds of one unit."""
    begin = time.perf_counter()
    if adapts(unit.scenario):
        thresholds, devices = _answered_at_stop(unit)
        return ThresholdMeasurement(thresholds=thresholds, devices=devices, seconds=time.perf_counter() - begin)
    prefixes = Reruns(unit.scenario) if unit.scenario.policy == GROUPS else Prefixes(unit.scenario)
    thresholds = _crossings(unit, prefixes)
    accuracies = {
        decoder: prefixes.scores(probe, decoder).accuracy
        for decoder, probe in zip(unit.decoders, unit.probes, strict=False)
        if probe
    }
    seconds = time.perf_counter() - begin
    return ThresholdMeasurement(
        thresholds=thresholds, devices=prefixes.simulated, seconds=seconds, accuracies=accuracies
    )


def _crossings(unit: ThresholdUnit, prefixes: Prefixes | Reruns) -> tuple[Threshold, ...]:
    most = unit.scenario.users or 0

    def threshold(decoder: str, criterion: str) -> int | None:
        def success(users: int) -> bool:
            if criterion == TOP:
                return prefixes.top(users, decoder) >= unit.share
            return succeeds(prefixes.scores(users, decoder), criterion, unit.share)

        return crossing(success, start=unit.start, most=most, resolution=unit.resolution)

    return tuple(Threshold(*pair, threshold(*pair)) for pair in product(unit.decoders, unit.criteria))


def _answered_at_stop(unit: ThresholdUnit) -> tuple[tuple[Threshold, ...], int]:
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
        return query_users(world_key(block_parameters(settled)), settled.value("answers_per_item"))
    if inseparable(settled) or (found := predictor(settled)) is None:
        return None
    users = needed_users(found, target or Target(success=0.5, accuracy=None))
    return None if users is None else float(users)


def guess(scenario: Scenario) -> int:
    """Return the population to start from: the predicted threshold, or ``4 N ln N``."""
    predicted = predicted_users(scenario)
    items = scenario.items or 0
    return round(4 * items * np.log(items)) if predicted is None else round(predicted)


def emulated_devices(population: Population) -> Emulated:
    """Return the transport that draws a population's statistics; its coins follow from the scenario's seed."""
    scenario = population.scenario
    assert population.truth is not None  # sweeps run on the block model
    design = RunSpec(scenario).design
    if not isinstance(design, EmulatedDesign):
        raise InputError(f"{scenario.design} has no statistic that can be drawn from exact moments; let devices answer")
    likes = np.array(scenario.like)[:, population.truth]
    coins = np.random.default_rng(int.from_bytes(derive(scenario.seed, "emulation")))
    return Emulated(
        design=design, likes=likes, class_shares=class_shares(scenario), rated=scenario.rated or 0, coins=coins
    )


def emulate(population: Population, rounds: KeptRounds | None = None) -> Outcome:
    """Run an adaptive scenario of sign sensing to its end, without devices; keep its rounds."""
    scenario = population.scenario
    spec = RunSpec(scenario)
    return conduct(
        spec.policy,
        spec.learner,
        emulated_devices(population),
        devices=scenario.users or 0,
        budget=spec.budget,
        most_rounds=scenario.most_rounds,
        keep=(rounds or Nowhere()).keep,
    )


class EmulatedPrefixes:
    """The first users of one round of sign sensing, in whole blocks, for growing and shrinking numbers of blocks.

    A block's statistic is drawn once, so that a larger population holds the smaller ones, as with devices.
    """

    def __init__(self, scenario: Scenario, *, block: int) -> None:
        population = populate(scenario)
        assert population.truth is not None  # sweeps run on the block model
        self._truth, self._block = population.truth, block
        self._learner, self._query = RunSpec(population.scenario).learner, only_query(population.scenario)
        self._devices = emulated_devices(population)
        self._totals: list[ScoreStatistic] = []

    def statistic(self, blocks: int) -> ScoreStatistic:
        """Return the statistic of the first blocks, at least one."""
        while (drawn := len(self._totals)) < blocks:
            ask = Ask(query=self._query, first=drawn * self._block, stop=(drawn + 1) * self._block)
            more, _ = self._devices.ask(ask)
            self._totals.append(self._totals[-1] + more if self._totals else more)
        return self._totals[blocks - 1]

    def scores(self, blocks: int) -> ClusteringScores:
        """Return how right the labels are that the first blocks tell."""
        stop_if_abandoned()
        users, statistic = blocks * self._block, self.statistic(blocks)
        return clustering_scores(learned(self._learner, self._query, statistic, users=users).cluster, self._truth)
