"""Thresholds: the number of users from which one seed's run succeeds, and exponents that are fitted to thresholds."""

import math
import time
from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from typing import Annotated, Any, Literal

import numpy as np
import scipy
from pydantic import BaseModel, ConfigDict, Field

from actors.device import Cohort
from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import as_float, parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.law import BlockPeople
from coordinator.protocol.mechanism import ANCHOR, GROUPS, InWorld
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.statistics.statistic import Statistic, merge
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.aggregation import aggregate, no_release
from coordinator.server.fleet.cohorts import cut
from coordinator.server.rounds.conductor import run_rounds
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.rounds import Outcome, QueryRounds
from coordinator.server.rounds.state import Ask, ServerState
from scenarios.backends.selection import InProcess
from scenarios.backends.session import NoStore, RoundStore, stop_if_abandoned
from scenarios.config.mechanism_settings import all_settings
from scenarios.config.resolve import ResolvedRun, resolve
from scenarios.config.scenario import Scenario
from scenarios.data.metrics import ClusteringScores, clustering_scores
from scenarios.data.populations import (
    Population,
    liked_share,
    populate,
)
from scenarios.families.main.run import MainResult, query_plan, run
from scenarios.families.main.run_scores import top_share
from scenarios.studies.planner.least_users import Target
from scenarios.studies.planner.least_users import predicted_users as needed_users
from scenarios.studies.study import Values
from scenarios.studies.sweep.grid import variant
from scenarios.theory.draws import Drawn
from scenarios.theory.emulated_runs import query_users
from scenarios.theory.predictors import predictor, users_of
from scenarios.theory.sufficient_users import inseparable

Criterion = Literal["exact", "share", "top"]
"""Success: all labels right (the paper's), a share of them, or that share of the 50 most popular items."""
LABELS: tuple[Criterion, ...] = ("exact", "share")
TOP: Criterion = "top"
BLOCK = 1 << 15  # Devices that one call asks
APART = 2 ** (1 / 16)  # Statistics on the way are stored at sizes this factor apart
KEEP_BYTES = 1 << 28
FEWEST_KEPT = 8
STEP = math.sqrt(2)
"""Factor between populations while a bracket is sought: overshooting costs devices, evaluations cost little."""
STOPPING = ("eliminate", "item-by-item", "until-learned", ANCHOR)
"""Policies that decide themselves how many users they ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionRange:
    """A search for a threshold."""

    start: int  # Population to start from
    most: int  # No population is larger
    resolution: float  # Relative width at which bisection stops

    def crossing(self, success: Callable[[int], bool]) -> int | None:
        """Find a number of users with success, just above one without."""
        # Success is not monotone: near the threshold one more user may spoil it. The result is the crossing that this
        # bisection meets, not the smallest of all; over seeds its median is the population that half of the runs
        # succeed at.
        high = min(max(self.start, 1), self.most)
        if success(high):
            while (low := int(high / STEP)) and success(low):
                high = low
        else:
            low = high
            while low < self.most and not success(high := min(math.ceil(low * STEP), self.most)):
                low = high
            if low >= self.most:
                return None
        while high - low > max(1.0, self.resolution * low):
            middle = min(max(round(math.sqrt(low * high)), low + 1), high - 1)
            low, high = (low, middle) if success(middle) else (middle, high)
        return high


class Successes(ABC):
    """One seed's worlds of growing and shrinking numbers of users: how right their labels and lists are."""

    def __init__(self) -> None:
        self.scores, self.top = cache(self._scores), cache(self._top)
        self.simulated = 0  # Devices, those asked again included

    @abstractmethod
    def learned(self, users: int, decoder: str) -> tuple[Model, Population]:
        """Return the item model that a decoder makes of so many users, and these."""

    def _scores(self, users: int, decoder: str) -> ClusteringScores:
        """Return how right the labels are that a decoder makes of so many users."""
        model, population = self.learned(users, decoder)
        if population.truth is None:
            raise ValueError("a ratings file has no truth to compare labels with")
        return clustering_scores(model.cluster, population.truth)

    def _top(self, users: int, decoder: str) -> float:
        """Return the share of the list that a decoder makes which is right; see `popularity.top_share`."""
        model, population = self.learned(users, decoder)
        return top_share(model.score, liked_share(population, users))

    def met(self, users: int, decoder: str, criterion: str, share: float) -> bool:
        """Return whether so many users succeed by a criterion."""
        if criterion == TOP:
            return self.top(users, decoder) >= share
        scores = self.scores(users, decoder)
        return scores.exact if criterion == "exact" else scores.accuracy >= share

    def threshold(self, decoder: str, criterion: str, share: float, search: BisectionRange) -> int | None:
        """Return the users from which it succeeds; None where the most users do not."""
        return search.crossing(lambda users: self.met(users, decoder, criterion, share))


class Prefixes(Successes):
    """The first U devices of one scenario."""

    # Releases and public coins are keyed by device, so that the statistic of the first U devices is, bit for bit, that
    # of a run with U users. A new U asks only the devices between the next smaller U that is stored and itself.

    def __init__(self, scenario: Scenario) -> None:
        super().__init__()
        population = populate(scenario)
        self._resolved = resolve(population.scenario)
        _ = self._resolved.custom  # a custom mechanism is checked and admitted before any device is asked
        self._population = replace(population, scenario=self._resolved.scenario)
        self.query = only_query(self._resolved)
        secret, ratings = derive(self._resolved.scenario.seed, "devices"), population.ratings
        self._cohort = Cohort(ratings, secret, 0, ratings.users, self._resolved.account.budget)
        self._stored: dict[int, Statistic] = {0: aggregate(self.query, no_release(self.query))}
        self._sizes = [0]
        self._most = max(FEWEST_KEPT, KEEP_BYTES // _bytes_of(self._stored[0]))

    def statistic(self, users: int) -> Statistic:
        """Return the statistic of devices 0 to ``users - 1``."""
        base = self._sizes[bisect_right(self._sizes, users) - 1]
        total, last = self._stored[base], base
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
        if users not in self._stored:
            self._stored[users] = statistic
            insort(self._sizes, users)
        while len(self._sizes) > self._most:
            del self._stored[self._sizes.pop(1)]  # the smallest but nobody: the cheapest to ask again

    def learned(self, users: int, decoder: str) -> tuple[Model, Population]:
        """Return the item model that a decoder makes of the first ``users`` devices, among all."""
        stop_if_abandoned()
        scenario = self._resolved.scenario.model_copy(update={"decoder": decoder})
        reading = replace(self._resolved, scenario=scenario)
        return one_round(reading.learner, self.query, self.statistic(users), users), self._population


def only_query(resolved: ResolvedRun) -> Query:
    """Return the one query of a policy that asks everybody at once."""
    start = ServerState(devices=resolved.world.users)
    ask = resolved.policy.next_query(start)
    if ask is None or ask.stop < start.devices:
        raise ValueError(f"{resolved.scenario.design} does not ask everybody at once; it has no prefixes")
    return ask.query


def one_round(learner: Learner, query: Query, statistic: Statistic, users: int) -> Model:
    """Return the item model that a learner makes of one round with these ``users``."""
    state = learner.absorb(ServerState(devices=users), Ask(query=query, first=0, stop=users), statistic)
    return learner.learn(state)[0]


def _bytes_of(statistic: Statistic) -> int:
    names = getattr(statistic, "__dataclass_fields__", ())
    return sum(part.nbytes for name in names if isinstance(part := getattr(statistic, name), np.ndarray))


class Reruns(Successes):
    """A run for each number of users, where prefixes are no runs."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__()
        self._scenario, self.result = scenario, lru_cache(maxsize=1)(self._result)

    def _result(self, users: int, decoder: str) -> MainResult:
        stop_if_abandoned()
        result = run(self._scenario.model_copy(update={"users": users, "decoder": decoder}), InProcess(1))
        self.simulated += result.statistic.devices
        return result

    def learned(self, users: int, decoder: str) -> tuple[Model, Population]:
        """Return the item model of a run that asks so many users at most, and these."""
        result = self.result(users, decoder)
        return result.outcome.model, result.population


class Stopped(Reruns):
    """A policy that stops by itself: the users that it asked are its threshold where the labels are right."""

    def threshold(self, decoder: str, criterion: str, share: float, search: BisectionRange) -> int | None:
        """Return the users that it asked of the most that it may ask; None where its result is not right."""
        enough = self.met(search.most, decoder, criterion, share)
        return self.result(search.most, decoder).statistic.answered if enough else None


class EmulatedPrefixes(Successes):
    """The first users of one round, in whole blocks, whose numbers grow and shrink."""

    # A block's statistic is drawn once, so that a larger population holds the smaller ones, as with devices.

    def __init__(self, scenario: Scenario, *, block: int) -> None:
        super().__init__()
        self._population, self._block = populate(scenario), block
        resolved = resolve(self._population.scenario)
        self._learner, self._query = resolved.learner, only_query(resolved)
        self._devices = emulated_devices(self._population, resolved)
        self._totals: list[Statistic] = []

    def statistic(self, blocks: int) -> Statistic:
        """Return the statistic of the first blocks, at least one."""
        while (count := len(self._totals)) < blocks:
            ask = Ask(query=self._query, first=count * self._block, stop=(count + 1) * self._block)
            more, _ = self._devices.ask(ask)
            self._totals.append(self._totals[-1] + more if self._totals else more)
        return self._totals[blocks - 1]

    def threshold(self, decoder: str, criterion: str, share: float, search: BisectionRange) -> int | None:
        """Return the users from which it succeeds, a multiple of a block."""
        start, most = round(search.start / self._block), search.most // self._block
        blocks = super().threshold(decoder, criterion, share, replace(search, start=start, most=most))
        return None if blocks is None else blocks * self._block

    def learned(self, users: int, decoder: str) -> tuple[Model, Population]:
        """Return the item model of the first blocks; ``users`` is their number, and the decoder the scenario's."""
        stop_if_abandoned()
        return one_round(self._learner, self._query, self.statistic(users), users * self._block), self._population


def emulated_devices(population: Population, resolved: ResolvedRun) -> Drawn:
    """Return the transport that draws a population's statistics; its coins follow from the scenario's seed."""
    scenario, design = resolved.scenario, resolved.design
    assert population.truth is not None  # sweeps run on the block model
    if not (isinstance(design, InWorld) and design.mechanism.has_law):
        raise InputError(f"{scenario.design} has no statistic that can be drawn from exact moments; let devices answer")
    coins = np.random.default_rng(int.from_bytes(derive(scenario.seed, "emulation")))
    return Drawn(BlockPeople.of(resolved.block, population.truth), coins)


def emulate(population: Population, rounds: RoundStore | None = None) -> Outcome:
    """Run an adaptive scenario of sign sensing to its end, without devices; store its rounds."""
    resolved = resolve(population.scenario)
    process = QueryRounds(query_plan(resolved), emulated_devices(population, resolved))
    return run_rounds(process, (rounds or NoStore()).keep)


def adapts(scenario: Scenario) -> bool:
    """Return whether a scenario's policy decides itself how many users it asks; a custom one may."""
    return scenario.policy in STOPPING or ":" in scenario.policy


def measure_threshold(
    scenario: Scenario,
    *,
    decoders: tuple[str, ...],
    criteria: tuple[Criterion, ...] = LABELS,
    share: float,
    resolution: float,
    start: int,
    probes: tuple[int, ...] = (),
) -> Values:
    """Find the thresholds of one seed, whose scenario says the most ``users``; all decoders read the same releases."""
    # A threshold's users are None where the most users did not do; devices count those asked again, too; accuracies are
    # shares of items right at the probes, by decoder
    begin = time.perf_counter()
    apart = scenario.policy == GROUPS or scenario.trust == TWO_SERVERS  # who publish sums of whole rounds alone
    kind = Stopped if adapts(scenario) else Reruns if apart else Prefixes
    worlds: Successes = kind(scenario)
    search = BisectionRange(start=start, most=scenario.world.users, resolution=resolution)
    thresholds = [
        {
            "decoder": decoder,
            "criterion": criterion,
            "users": worlds.threshold(decoder, criterion, share, search),
        }
        for decoder, criterion in product(decoders, criteria)
    ]
    probed = [(probe, decoder) for probe, decoder in zip(probes, decoders, strict=False) if probe]
    accuracies = {decoder: worlds.scores(probe, decoder).accuracy for probe, decoder in probed}
    seconds, devices = time.perf_counter() - begin, worlds.simulated
    return {"thresholds": thresholds, "devices": devices, "seconds": seconds, "accuracies": accuracies}


@lru_cache(maxsize=1024)
def predicted_users(scenario: Scenario, target: Target | None = None) -> float | None:
    """Return the users at which the planner sees a target reached; by default all labels right with probability 1/2."""
    if scenario.ratings is not None:
        return None
    run = resolve(scenario)
    if scenario.policy == ANCHOR:
        try:
            users = users_of(run, 1 - scenario.confidence)
        except InputError:
            return None
        return users if math.isfinite(users) else None
    if run.mechanism.learns_all:
        return query_users(run.block, scenario.value("answers_per_item"))
    if inseparable(run) or (prediction := predictor(run)) is None:
        return None
    needed = needed_users(prediction, target or Target(success=0.5, accuracy=None))
    return None if needed is None else float(needed)


def guess(scenario: Scenario) -> int:
    """Return the population to start from: the predicted threshold, or ``4 N ln N``."""
    predicted = predicted_users(scenario)
    items = scenario.world.items
    return round(4 * items * np.log(items)) if predicted is None else round(predicted)


FitAxis = Literal["items", "rated", "epsilon", "tanh2", "items/rated"]
Divisor = Literal["log items", "items", "items^2", "rated", "items/rated"]
RESAMPLES = 2000
SEED = 20_121
TAIL = 0.025


def axis_value(name: str, setting: Scenario) -> float:
    """Return an axis' or a divisor's value at a setting."""
    items, rated, epsilon = float(setting.world.items), float(setting.world.rated), as_float(setting.epsilon)
    return {
        "items": items,
        "items^2": items**2,
        "log items": math.log(items),
        "rated": rated,
        "items/rated": items / rated,
        "epsilon": epsilon,
        "tanh2": math.tanh(epsilon / 2) ** 2,
    }[name]


class ExponentFit(BaseModel):
    """An exponent to fit: the slope of ``ln(U* / per)`` on ``ln x``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    x: FitAxis  # one of "items", "rated", "epsilon", "tanh2", "items/rated"; ``tanh2`` is ``tanh(epsilon / 2)^2``
    # one of "log items", "items", "items^2", "rated", "items/rated"; What U* is divided by first, all of them
    per: tuple[Divisor, ...] = ()
    # Keys of a scenario: the fit is about settings that have these values; ``"default"`` stands for a key's default,
    # which may be none
    where: dict[str, Any] = {}
    # one of "exact", "share", "top"; Which successes the fit is about; default: the two that are about labels
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)] = LABELS
    expected: float | None = None  # The slope that theory says
    label: str = ""  # Name in tables; default: made of x and per

    @property
    def name(self) -> str:
        """The label, or what stands for it."""
        divided = "".join(f" / {axis}" for axis in self.per)
        where = "".join(f", {name} {value}" for name, value in self.where.items())
        return self.label or f"U*{divided} on {self.x}{where}"

    def divisor(self, setting: Scenario) -> float:
        """Return what U* is divided by at a setting."""
        return math.prod(axis_value(axis, setting) for axis in self.per)

    def concerns(self, setting: Scenario) -> bool:
        """Return whether it is about a setting."""
        return all(_normal(name, value) == setting.value(name) for name, value in self.where.items())

    def points(self, settings: Sequence[Scenario], users: Floats) -> tuple[Floats, Floats]:
        """Return the logarithms of x and of ``U* / per``; ``users`` has a row each setting, a column each seed."""
        x = np.log([axis_value(self.x, setting) for setting in settings])
        return x, np.log(users / np.array([self.divisor(setting) for setting in settings])[:, None])

    def check(self, settings: Sequence[Scenario]) -> None:
        """Refuse an exponent that the settings do not determine."""
        for name in self.where:
            if name not in set(Scenario.flat_names()):
                raise InputError(f"fit {self.name!r}: where names {name!r}, which is no key of a scenario")
        subset = [setting for setting in settings if self.concerns(setting)]
        designs = sorted({variant(setting) for setting in subset})
        if len(designs) > 1:
            raise InputError(f"fit {self.name!r} mixes {', '.join(designs)}; choose one with where")
        values = {axis_value(self.x, setting) for setting in subset}
        if not all(map(math.isfinite, values)):
            raise InputError(f"fit {self.name!r}: {self.x} is infinite at some setting; leave it out with where")
        if len(values) < 2:
            raise InputError(
                f"fit {self.name!r} has {len(values)} value of {self.x} in the grid; an exponent needs two"
            )


def _normal(name: str, value: Any) -> Any:
    if value == "default":
        return (Scenario.model_fields.get(name) or all_settings()[name]).default
    if name == "epsilon":
        return parse_epsilon(value)
    if name == "like" and isinstance(value, str):
        return tuple(tuple(float(part) for part in row.split(",")) for row in value.split(";"))
    return value


def slope(x: Floats, y: Floats) -> float:
    """Return the least-squares slope of the mean of ``y`` (settings, seeds) on ``x`` (settings,)."""
    return float(_slopes(x, y.mean(axis=1)[None, :])[0])


def _slopes(x: Floats, means: Floats) -> Floats:
    centred = x - x.mean()
    return np.asarray(means @ centred / (centred @ centred))


def bootstrap(x: Floats, y: Floats) -> tuple[float, float] | None:
    """Return the 95 % interval of `slope`, seeds drawn anew `RESAMPLES` times; None for a single seed."""
    # A seed is drawn for all settings together: thresholds of one seed need not be independent. The expanded percentile
    # interval (Hesterberg, *What Teachers Should Know About the Bootstrap*, 2015): plain percentiles are too narrow for
    # few seeds, by ``sqrt((n - 1) / n)`` and by the normal's quantile for Student's t.
    seeds = y.shape[1]
    if seeds < 2:
        return None
    samples = np.random.default_rng(SEED).multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
    tail = float(scipy.stats.norm.cdf(math.sqrt(seeds / (seeds - 1)) * scipy.stats.t.ppf(TAIL, seeds - 1)))
    low, high = np.quantile(_slopes(x, samples @ y.T), [tail, 1 - tail])
    return float(low), float(high)
