"""Inverse questions: the smallest number of users, or the smallest epsilon, that meets a target, for all candidates."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import scipy
from scipy.special import logit

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import LARGEST_EPSILON
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import KMEANS, POSTERIOR
from coordinator.protocol.moments.probabilities import root_between
from coordinator.protocol.moments.sign_moments import AnchorMoments, SignMoments
from coordinator.protocol.trust_models import LOCAL
from scenarios.backends.selection import InProcess
from scenarios.config.custom_kinds import MechanismKind
from scenarios.config.mechanism_settings import designs, mechanism_kind, variants
from scenarios.config.resolve import ResolvedRun, resolve
from scenarios.config.scenario import Scenario
from scenarios.config.settings import validated
from scenarios.data.metrics import clustering_scores
from scenarios.families.main.run import run
from scenarios.show.intervals import mean_interval
from scenarios.theory import emulated_runs as emulated
from scenarios.theory.predictors import Predictor, from_moments, predictor, users_of
from scenarios.theory.sufficient_users import inseparable

FEW = 10  # users of a scenario under a central epsilon, where nobody says how many
_WORLD = ("items", "rated", "clusters", "like", "class_shares", "cluster_shares", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One design with one decoder in a given world."""

    world: Scenario  # A block model; its design does not matter
    settings: dict[str, Any]  # Design, decoder and the design's own settings
    trust: Mapping[str, Any] = field(default_factory=dict)  # Whom devices trust, as scenarios say it; nobody by default
    _runs: dict[Any, ResolvedRun] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def design(self) -> str:
        """Name of the design."""
        return str(self.settings["design"])

    @property
    def mechanism(self) -> MechanismKind:
        """The server's half of the design."""
        return mechanism_kind(self.design)

    @property
    def protects_all(self) -> bool:
        """Whether all that a device holds is protected from everybody but who is trusted: a plan recommends these."""
        settings = {name: self.settings[name] for name in self.mechanism.settings.model_fields if name in self.settings}
        public = self.mechanism.settings.model_validate(settings).rated_public
        return self.mechanism.private and self.mechanism.trust in (LOCAL, self.trust.get("trust")) and not public

    def at(self, epsilon: Epsilon, **changes: Any) -> ResolvedRun:
        """Return the run at an epsilon."""
        if (cache_key := (epsilon, *changes.items())) in self._runs:
            return self._runs[cache_key]
        world = {name: getattr(self.world, name) for name in _WORLD if getattr(self.world, name) is not None}
        shared = type(self.world.settings).model_fields.keys() & self.mechanism.settings.model_fields.keys()
        world |= {name: getattr(self.world.settings, name) for name in shared}
        nats = "inf" if epsilon is None or not self.mechanism.private else epsilon
        few = {"users": FEW} if self.trust else {}  # what a shuffler may promise depends on how many there are
        flags = {**world, **few, **self.settings, **self.trust, "epsilon": nats, **changes}
        return self._runs.setdefault(cache_key, resolve(validated(Scenario, None, flags)))

    def blind(self, epsilon: Epsilon) -> str:
        """Return in words which clusters the design cannot tell apart, whatever the number of users; empty: none."""
        pairs = ", ".join(f"{first} and {other}" for first, other in inseparable(self.at(epsilon)))
        return f"blind to clusters {pairs}" if pairs else ""


def any_design() -> dict[str, Any]:
    """Return what a world is checked as: of all mechanisms the one that takes the most epsilons."""
    split = next(
        (mechanism for mechanism in designs().values() if mechanism.settings.splits), next(iter(designs().values()))
    )
    return {"design": split.name, **variants(split)[-1]}


def candidates(
    world: Scenario,
    custom: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    trust: Mapping[str, Any] | None = None,
) -> list[Candidate]:
    """Return a custom design with its settings, if any, and every mechanism's variants with each of their decoders."""
    # Where a mechanism has others, the posterior decoder is left out: in one round it finds the same clusters.
    by_name = {
        mechanism.name: {
            name: (settings or {})[name] for name in mechanism.settings.model_fields if name in (settings or {})
        }
        for mechanism in designs().values()
    }
    make = partial(Candidate, world=world, trust=trust or {})
    customs = []
    if custom is not None:
        decoders = mechanism_kind(custom["design"]).decoders
        customs = [make(settings={**custom, "decoder": KMEANS if KMEANS in decoders else decoders[0]})]
    return customs + [
        make(settings={"design": mechanism.name, **by_name[mechanism.name], **variant, "decoder": decoder})
        for mechanism in designs().values()
        for variant in ([{}] if mechanism.trust == (trust or {}).get("trust") else variants(mechanism))
        for decoder in mechanism.decoders
        if decoder != POSTERIOR or mechanism.decoders == (POSTERIOR,)
    ]


FEWEST, MOST = 3, 20  # fewest and most seeds of a simulation
USERS = 20_000  # devices of one seed
MOST_SIMULATED = 1_000_000_000  # devices times items that are simulated at most: no clock, which makes other plans


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The measured information of one answer about an item."""

    contrast: float  # Square root of the information that one answer brings about an item's ``2 b - 1``
    low: float  # Its 95 % interval over seeds, Student's t
    high: float
    seeds: int  # How many

    def users(self, needed: int) -> tuple[int | None, int | None]:
        """Return the interval of a number of users, which falls with the contrast's square; None for no end."""
        ends = [math.ceil(needed * (self.contrast / end) ** 2) if end > 0 else None for end in (self.high, self.low)]
        return ends[0], ends[1]


def simulated(planned: ResolvedRun) -> Simulated | None:
    """Return the measured information in a block model; None if moments give it, or nothing can be measured."""
    return _simulated(planned, min(max(MOST_SIMULATED // (USERS * planned.world.items), FEWEST), MOST))


@lru_cache(maxsize=64)
def _simulated(planned: ResolvedRun, seeds: int) -> Simulated | None:
    # Values are regressed on what users like; the contrast is the slope over the scatter around it, for one user.
    if planned.moments is not None:
        return None
    contrasts, scenario = list[float](), planned.scenario
    level = 2 * (planned.block.class_shares @ planned.block.like) - 1
    if np.allclose(level, level[0]):  # clusters are liked alike: there is nothing to regress on
        return None
    for seed in range(seeds):
        sample = {"users": USERS, "seed": scenario.seed + seed}
        once = {"policy": "one-round", "answers_per_device": 1}
        ran = run(scenario.model_copy(update={**sample, **once}), InProcess(1))
        assert ran.population.truth is not None  # a block model
        truth = level[ran.population.truth]
        regression = scipy.stats.linregress(truth, ran.outcome.model.score)
        scatter = float(np.std(ran.outcome.model.score - regression.intercept - regression.slope * truth, ddof=2))
        contrasts.append(float(regression.slope) / scatter / math.sqrt(USERS))
    mean, low, high = mean_interval(contrasts)
    if not mean or mean < 0 or low is None or high is None:  # of several seeds both ends are known
        return None
    return Simulated(contrast=mean, low=low, high=high, seeds=len(contrasts))


_LEAST_EPSILON, _FINENESS, _STRIDE, _KNOTS = 1e-6, 1e-4, 32, 60


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

    def margin(self, prediction: Predictor, users: int) -> float:
        """Return by how much that many answering users meet the target, in log-odds; negative where they do not."""
        sides = ((self.success, prediction.exact), (self.accuracy, prediction.accuracy))
        margins = (_log_odds(curve(users)) - _log_odds(goal) for goal, curve in sides if goal is not None)
        return min(margins, default=0.0)

    def met(self, prediction: Predictor, users: int) -> bool:
        """Return whether that many answering users meet the target."""
        return self.margin(prediction, users) >= 0

    @property
    def description(self) -> str:
        """The target in words."""
        goals_in_words = [] if self.success is None else [f"all items right with probability {self.success:g}"]
        goals_in_words += [] if self.accuracy is None else [f"a share of {self.accuracy:g} of the items right"]
        return " and ".join(goals_in_words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a candidate needs for a target."""

    users: int | None  # Smallest number of users; None above `MOST_USERS`, or where no number is enough
    predictor: Predictor | None  # Its predictions
    answers: int | None = None  # Item query's yeses an item that the target asks for
    # Where the number was estimated from draws; of item queries, that of the yeses
    estimate: emulated.Estimate | None = None
    interval: tuple[int, int | None] | None = None  # 95 % interval of the users, where they were estimated


def users_needed(candidate: Candidate, epsilon: Epsilon, target: Target) -> Need:
    """Return the fewest users with which a candidate meets the target; of item queries how many are expected."""
    planned = candidate.at(epsilon)
    if isinstance(planned.moments, AnchorMoments):
        users = users_of(planned, 1 - (target.success or planned.scenario.confidence))
        return Need(users=math.ceil(users) if users <= emulated.MOST_USERS else None, predictor=None)
    if candidate.mechanism.learns_all:
        return _item_query(candidate, target)
    prediction = predictor(planned)
    if prediction is None and (simulation := simulated(planned)):  # a custom design that brings no moments
        prediction = from_moments(SignMoments(contrast=simulation.contrast), planned)
    if prediction and prediction.emulation:
        return _emulated(prediction, target)
    return Need(users=predicted_users(prediction, target) if prediction else None, predictor=prediction)


TRIED_ITEMS = 200  # Items of all seeds of one size, at least
FALSE_ALARM = 1e-6  # Probability that runs of a size refuse a class whose items err no more often than is allowed


def shortfall(scenario: Scenario, prediction: Predictor, users: int) -> str:
    """Return in words by how much runs of a custom design miss what is predicted for so many users; empty: they do not.

    Runs of ten times as many users each, of as many seeds as make 200 items together, go up to the planned number, or
    to `MOST_SIMULATED` devices times items. An item may err half as often again as is predicted, and 0.01 more. A class
    whose N items of all seeds err independently, none more often than that, has no more wrong ones than the upper
    `FALSE_ALARM` quantile of ``Bin(N, 1.5 (1 - a) + 0.01)``, a the predicted share of right ones, but with that
    probability a size (Hoeffding, 1956, of unequal chances).
    """
    # A prediction believes the class: its precision, or what 20,000 users tell, where a bias drowns in noise
    number, items = min(USERS, users), scenario.items or 1
    seeds = math.ceil(TRIED_ITEMS / items)
    while True:
        shares = list[float]()
        for seed in range(MOST, MOST + seeds):
            once = {"policy": "one-round", "answers_per_device": 1, "users": number, "seed": scenario.seed + seed}
            ran = run(scenario.model_copy(update=once), InProcess(1))
            assert ran.population.truth is not None  # a block model
            shares.append(clustering_scores(ran.outcome.model.cluster, ran.population.truth).accuracy)
        right, expected = float(np.mean(shares)), prediction.accuracy(number)
        allowed = scipy.stats.binom.isf(FALSE_ALARM, seeds * items, min(1.5 * (1 - expected) + 0.01, 1.0))
        if round((1 - right) * seeds * items) > allowed:
            return (
                f"runs with {number:,} users put {right:.3g} of the items right, where {expected:.3g} is predicted: "
                "estimates are biased, or precision is less than is said; see blindrec check"
            )
        more = min(10 * number, users)
        if more == number or seeds * more * items > MOST_SIMULATED:
            return ""
        number = more


def try_custom(candidate: Candidate, epsilon: Epsilon, need: Need) -> None:
    """Refuse a custom design whose runs fall short of its plan."""
    if ":" not in candidate.design or need.predictor is None or need.users is None:
        return
    if shortage := shortfall(candidate.at(epsilon).scenario, need.predictor, need.users):
        raise InputError(shortage)


def predicted_users(prediction: Predictor, target: Target) -> int | None:
    """Return the smallest number of users that meets a target; None above `MOST_USERS`, or where none does."""
    if prediction.emulation:
        return _emulated(prediction, target).users
    return _smallest(cache(lambda users: target.margin(prediction, users)))


def _emulated(prediction: Predictor, target: Target) -> Need:
    assert prediction.emulation is not None
    estimate = prediction.emulation.needed(accuracy=target.accuracy, success=target.success)
    if estimate is None:
        return Need(users=None, predictor=prediction)
    interval = max(1, math.floor(estimate.low)), None if estimate.high is None else math.ceil(estimate.high)
    return Need(users=math.ceil(estimate.value), predictor=prediction, estimate=estimate, interval=interval)


def _item_query(candidate: Candidate, target: Target) -> Need:
    world = candidate.at(None).block
    emulation = emulated.query_emulation(world)
    too_long = emulated.takes_too_long(emulation.seconds)
    if too_long or (yeses := emulation.needed(accuracy=target.accuracy, success=target.success)) is None:
        return Need(users=None, predictor=None)
    answers, low = emulation.whole(yeses.value), emulation.whole(yeses.low)
    high = None if yeses.high is None else emulation.whole(yeses.high)
    users, fewest = (math.ceil(emulated.query_users(world, number)) for number in (answers, low))
    most = None if high is None else math.ceil(emulated.query_users(world, high))
    prediction = predictor(candidate.at(None, answers_per_item=answers))
    need = Need(users=users, predictor=prediction, answers=answers, estimate=yeses, interval=(fewest, most))
    return need if users <= emulated.MOST_USERS else Need(users=None, predictor=prediction)


def _log_odds(probability: float) -> float:
    """Return the log-odds, finite for 0 and 1 too."""
    return float(logit(min(max(probability, 1e-300), 1 - 1e-16)))


def _smallest(margin: Callable[[int], float]) -> int | None:
    """Return the smallest number of users with a margin of at least 0, to one part in 10,000; None above the most."""
    low, high = 1, 2
    while margin(high) < 0:
        if high >= emulated.MOST_USERS:
            return None
        low, high = high, _STRIDE * high
    if high == 2:
        return 1 if margin(1) >= 0 else 2
    log_users = root_between(lambda log: margin(round(math.exp(log))), math.log(low), math.log(high), width=_FINENESS)
    users = math.ceil(math.exp(log_users))
    while margin(users) < 0:  # the root lies within the tolerance, on either side
        users += max(1, users // 10_000)
    return users if users <= emulated.MOST_USERS else None


def epsilon_needed(candidate: Candidate, target: Target, users: int) -> Epsilon:
    """Return the smallest epsilon at which that many users meet the target, to one part in 10,000, if any does."""
    # Where a mechanism asks ``ceil(epsilon)`` questions, its need of users jumps up behind each whole number: whole
    # numbers are looked at first, then the stretch below the first one that is enough.

    def enough(epsilon: Fraction) -> bool:
        prediction = predictor(candidate.at(epsilon))
        return prediction is not None and target.met(prediction, users)

    low, high = Fraction(_LEAST_EPSILON).limit_denominator(10**9), Fraction(LARGEST_EPSILON)
    if candidate.mechanism.settings.jumps:
        high = next((Fraction(whole) for whole in range(1, LARGEST_EPSILON) if enough(Fraction(whole))), high)
        low = max(low, high - 1)
    if not enough(high):
        return None
    while high / low > 1 + _FINENESS:
        middle = Fraction(math.sqrt(low * high)).limit_denominator(10**9)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def estimated_epsilon(candidate: Candidate, target: Target, users: int) -> emulated.Estimate | None:
    """Return the epsilon at which that many users meet the target, where runs are emulated; None if none does."""

    def at(log_epsilon: float) -> emulated.Place:
        epsilon = to_epsilon(math.exp(log_epsilon))
        prediction = predictor(candidate.at(epsilon))
        assert prediction is not None
        assert prediction.emulation is not None
        return prediction.emulation, users, math.log(epsilon)

    steps = np.linspace(math.log(_LEAST_EPSILON), math.log(LARGEST_EPSILON), _KNOTS)
    strengths = np.log([at(step)[0].strength(users) for step in steps.tolist()])
    targets = emulated.goals(at(0.0)[0].sizes, accuracy=target.accuracy, success=target.success)
    return emulated.strictest(targets, emulated.StrengthCurve(steps, strengths), at, top=LARGEST_EPSILON)


def to_epsilon(value: float) -> Fraction:
    """Return an epsilon near a number, within what there is."""
    return min(max(Fraction(value), Fraction(_LEAST_EPSILON)), Fraction(LARGEST_EPSILON)).limit_denominator(10**9)
