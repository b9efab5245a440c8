"""Plans: what every design would need in a world, the lower bounds that apply, and which design to use."""

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from actors.device import Cohort
from coordinator.protocol.budget import Epsilon, as_float, as_json, parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.custom import UNCHECKED
from coordinator.protocol.errors import InputError
from coordinator.server.mechanisms import aggregate
from coordinator.server.rounds.state import ServerState
from coordinator.server.server_half import ELIMINATE
from scenarios.backends.session import Backend
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.populations import class_shares, cluster_sizes, populate
from scenarios.experiment.experiment import Running, run_seeds
from scenarios.families.main.main_job import MainJob
from scenarios.show.tables import name_of
from scenarios.studies.planner.central_plan import central_row, has_central_promise
from scenarios.studies.planner.least_users import (
    Candidate,
    Need,
    Target,
    candidates,
    epsilon_needed,
    estimated_epsilon,
    simulated,
    to_epsilon,
    users_needed,
)
from scenarios.theory.bounds import bounds_of, bounds_rows
from scenarios.theory.emulated_runs import MOST_USERS, Estimate, goals
from scenarios.theory.predictors import Predictor, predictor, why_not_predicted
from scenarios.theory.sufficient_users import sufficient_users

ADAPTIVE = 4.5
"""What adaptive rounds save at least where they are offered; see docs/explanation/adaptive-rounds.md, Measured."""
ONE_IN_TWO = 0.5  # probability of failure of lower bounds, where only a share of items is to be right
SIMULATED, EMULATED = "simulated", "emulated"
"""How the note of a row begins whose needs were simulated: a custom design that says no precision; and the mark
of a row whose statistics were drawn."""
HOPELESS = 8  # a design whose signal over noise is so many times below what a target asks for is not emulated
NO_EPSILON = "no epsilon is enough"
TOO_MANY = f"more than 10^{len(str(MOST_USERS)) - 1} users"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignPlan:
    """What every design needs in a world, and which of them to use."""

    # One a design and decoder: ``design, decoder, users, accuracy, exact, epsilon`` and what else tells it apart;
    # ``users``, needed for the target, is None where `note` says why. Accuracy and exact are those with ``users_here``,
    # or with ``users`` where that is None. Custom ones have ``channel``: how far it was checked
    rows: list[dict[str, Any]]
    bounds: list[dict[str, Any]]  # Lower bounds: ``name, users, valid`` and what `scenarios.theory.bounds.Bound` holds
    # The design that protects all a device holds and needs the fewest users (or the least epsilon)
    recommended: Candidate | None
    best: dict[str, Any] | None  # Its row
    why: str | None  # Why it is recommended, where another one needs fewer users or a smaller epsilon
    failure: float  # Probability with which a learner may fail that the lower bounds and Theorem 15 are about
    mistakes: int  # Wrong items that still are no failure there
    sufficient: float | None  # Users that Theorem 15 says are enough for MaxSense
    target: Target  # What was asked for
    world: Scenario  # What the plan holds for
    # Users that there are, for whom accuracy and exact hold, beside the users needed; None: those needed
    users_here: int | None

    def as_json(self) -> dict[str, Any]:
        """Return the plan as `--json` prints it."""
        return {
            "target": self.target.words,
            "items": self.world.items,
            "rated": self.world.rated,
            "holds_for": in_words(self.world),
            "designs": self.rows,
            "bounds": self.bounds,
            "failure": self.failure,
            "mistakes": self.mistakes,
            "recommended": self.best,
            "recommended_why": self.why,
            "sufficient_users": self.sufficient,
        }


Planned = tuple[Candidate, dict[str, Any]]  # A candidate with its row


def plan(
    world: Scenario,
    target: Target,
    *,
    users: int | None = None,
    inverse: bool = False,
    own: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    trust: Mapping[str, Any] | None = None,
) -> DesignPlan:
    """Plan for a block model; ``settings`` are of the mechanisms that have them, ``trust`` says whom devices trust."""
    if trust:
        options = [one for one in candidates(world, own, settings, trust) if has_central_promise(one)]
    else:
        options = candidates(world, own, settings)
    every = [(one, _row(one, world.epsilon, target, users, inverse=inverse)) for one in options]
    key = "epsilon" if inverse else "users"
    candidate, best = _recommended(every, key) or (None, None)
    # Where epsilon was sought, bounds hold at the one that was found
    at = world if best is None else world.model_copy(update={"epsilon": parse_epsilon(best["epsilon"])})
    failure, mistakes = _failing(world, target)
    return DesignPlan(
        rows=[row for _, row in every],
        # which hold where nobody is trusted
        bounds=[] if trust else bounds_rows(bounds_of(at.complete(), failure=failure, mistakes=mistakes)),
        recommended=candidate,
        best=best,
        why=_why(_able(every), best, key),
        failure=failure,
        mistakes=mistakes,
        sufficient=None if trust else _sufficient(at, failure),
        target=target,
        world=world,
        users_here=None if inverse else users,
    )


def quick_best(world: Scenario, target: Target, *, users: int) -> dict[str, Any] | None:
    """Return the row that `plan` recommends at the world's epsilon, None where it recommends none."""
    # A candidate that does not meet the target with as many users as the best before it needs more, and is passed over.
    every, best = list[Planned](), None
    for one in candidates(world):
        if one.protects_all and (best is None or _does(one, world.epsilon, target, best[1]["users"])):
            every.append((one, _row(one, world.epsilon, target, users, inverse=False)))
            best = _recommended(every, "users")
    return best[1] if best else None


def _recommended(every: list[Planned], key: str) -> Planned | None:
    """Return the candidate, and its row, that protects all and has the least of a key; None where no one does."""
    # A custom design whose guarantee is claimed, not checked, is none of them.
    best: Planned | None = None
    for one, row in sorted(_able(every), key=lambda pair: (float(pair[1][key]), pair[1]["users"])):
        if not one.half.learns_all:
            # Beside a design whose rounds always adapt it counts with as many users as it needs if its own do
            users = row["users"] / (ADAPTIVE if ELIMINATE in one.half.policies else 1)
            return (one, row) if best is None or users < best[1]["users"] else best
        best = best or (one, row)
    return best


def _able(every: list[Planned]) -> list[Planned]:
    safe = [(one, row) for one, row in every if one.protects_all and row.get("channel") != UNCHECKED]
    return [(one, row) for one, row in safe if row["users"] and row["epsilon"] is not None]


def _why(able: list[Planned], best: dict[str, Any] | None, key: str) -> str | None:
    """Say why the design that a plan recommends is better than another one that needs less; None where none does."""
    if best is None:
        return None
    least = min((row for _, row in able), key=lambda row: (float(row[key]), row["users"]))
    if float(least[key]) >= float(best[key]):
        return None
    needs = f"{least['users']:,} users" if key == "users" else f"epsilon {float(least['epsilon']):.4g}"
    return (
        f"{name_of(least)} needs {needs}, and its rounds adapt already; {name_of(best)} is counted in one round, and "
        f"takes a {ADAPTIVE:g}th of that or less if its rounds adapt (--policy {ELIMINATE})"
    )


def in_words(world: Scenario) -> str:
    """Return the block model that a plan holds for, in words."""
    filled = world.complete()
    counts = cluster_sizes(world)
    sizes = ", ".join(f"{size:,}" for size in counts.tolist())
    shares, classes = class_shares(world).tolist(), []
    for share, likes in zip(shares, world.like, strict=True):
        levels = ", ".join(f"{like:g}" for like in likes)
        classes.append(f"{levels} by {share:.3g} of the users" if len(shares) > 1 else levels)
    return (
        f"a block model: each user rates {filled.rated:,} of {filled.items:,} items, drawn uniformly; the items of "
        f"each cluster are alike (sizes {sizes}; liked with probability {'; '.join(classes)}); one label for all puts "
        f"{counts.max() / counts.sum():.4f} of them right"
    )


def _does(candidate: Candidate, epsilon: Epsilon, target: Target, users: int) -> bool:
    prediction = None
    with suppress(InputError):
        prediction = predictor(candidate.at(epsilon))
    if prediction is None:
        return False
    if one := prediction.emulation:
        targets = goals(one.sizes, accuracy=target.accuracy, success=target.success)
        if any(one.strength(users) * HOPELESS < math.exp(goal.level(goal.target)) for goal in targets):
            return False
        if target.accuracy is not None and one.misses(users, target.accuracy):
            return False
    return target.met(prediction, users)


def _row(candidate: Candidate, epsilon: Epsilon, target: Target, users: int | None, *, inverse: bool) -> dict[str, Any]:
    half = candidate.half
    row: dict[str, Any] = {**candidate.settings, "users": None, "accuracy": None, "exact": None, "epsilon": None}
    row |= {"users_here": users, "choice": candidate.settings.get("questions")}
    row |= {"trust_model": half.trust, "private": half.private, "note": ""}
    row |= dict.fromkeys(("guarantee", "neighbours", "delta"))
    try:
        if own := RunSpec(candidate.at(epsilon)).own:  # a custom one is held against its claim, as before a run
            row["channel"] = own[1].how
        if note := candidate.blind(epsilon):
            return row | {"epsilon": _epsilon_of(candidate, epsilon), "note": note}
        if candidate.trust and epsilon is not None:
            notes = TOO_MANY, NO_EPSILON
            return row | central_row(candidate, epsilon, target, users, inverse=inverse, notes=notes)
        if inverse and users and half.private:
            if (":" in candidate.design or half.learns_all) and predictor(candidate.at(epsilon)) is None:
                return row | {"note": "not predicted at several epsilons: say one by --epsilon"}
            return row | _least_epsilon(candidate, target, users)
        need = users_needed(candidate, epsilon, target)
    except InputError as error:
        return row | {"note": str(error)}
    row |= _about(candidate, epsilon) | {"users": need.users, "answers_per_item": need.answers}
    row |= _interval(candidate, epsilon, need)
    at = users or need.users
    if half.learns_all and users and need.users and users < need.users:
        at = None  # its policy goes on until every item is learned; what fewer users tell is not predicted
    if need.predictor and at:
        row |= _predictions(need.predictor, at, need.estimate, need.answers or at, here=at == need.users)
    return row


def _predictions(
    prediction: Predictor, users: int, fitted: Estimate | None, value: float, *, here: bool
) -> dict[str, float]:
    """Return the share of items right and the probability that all are; an estimate has both ``here``, at its value."""
    accuracy = fitted.accuracy if fitted and here else prediction.accuracy(users)
    exact = fitted.chance(value) if fitted and fitted.chance else prediction.exact(users)
    return {"accuracy": accuracy, "exact": exact}


def _interval(candidate: Candidate, epsilon: Epsilon, need: Need) -> dict[str, Any]:
    """Return the interval of users where these were simulated or emulated; or why there are none."""
    if need.users is None:
        return {"note": why_not_predicted(candidate.at(epsilon)) or TOO_MANY}
    if need.interval and need.estimate:
        fewest, most = need.interval
        return {"users_low": fewest, "users_high": most, EMULATED: need.estimate.draws}
    if predictor(candidate.at(epsilon)) is None and (simulation := simulated(candidate.at(epsilon))):
        low, high = simulation.users(need.users)
        note = f"{SIMULATED} with {simulation.seeds} seeds; 95 % interval of users: {low} to {high}"
        return {"users_low": low, "users_high": high, SIMULATED: simulation.seeds, "note": note}
    return {}


def _about(candidate: Candidate, epsilon: Epsilon) -> dict[str, Any]:
    scenario = candidate.at(epsilon)
    spec = RunSpec(scenario)
    promise = {"guarantee": spec.guarantee, "neighbours": spec.neighbours, "delta": spec.delta}
    return {"epsilon": _epsilon_of(candidate, epsilon), "questions": scenario.value("questions"), **promise}


def _epsilon_of(candidate: Candidate, epsilon: Epsilon) -> float | str:
    return as_json(epsilon) if candidate.half.private else "inf"


def _least_epsilon(candidate: Candidate, target: Target, users: int) -> dict[str, Any]:
    """Return what a row says of the smallest epsilon at which so many users meet a target."""
    scenario, one = candidate.at(candidate.world.epsilon), None
    if note := why_not_predicted(scenario):
        return {"note": note}
    if (prediction := predictor(scenario)) and prediction.emulation:
        one = estimated_epsilon(candidate, target, users)
        epsilon = None if one is None else to_epsilon(one.value)
    else:
        epsilon = epsilon_needed(candidate, target, users)
    if epsilon is None:
        return {"note": NO_EPSILON}
    prediction = predictor(candidate.at(epsilon))
    assert prediction is not None  # as it says that epsilon is enough
    interval = {} if one is None else {"epsilon_low": one.low, "epsilon_high": one.high, EMULATED: one.draws}
    shares = _predictions(prediction, users, one, one.value if one else users, here=True)
    return _about(candidate, epsilon) | interval | {"users": users} | shares


def _failing(world: Scenario, target: Target) -> tuple[float, int]:
    """Return the probability of failure that bounds are about, `ONE_IN_TWO` where none was asked for; and mistakes."""
    if target.success is not None:
        return round(1 - target.success, 12), 0
    items = world.complete().items or 0
    return ONE_IN_TWO, 0 if target.accuracy is None else int(round(items * (1 - target.accuracy), 9))


def _sufficient(world: Scenario, failure: float) -> float | None:
    """Return Theorem 15's number of users; None where it says nothing."""
    filled = world.complete()
    items = filled.items or 0
    try:
        users = sufficient_users(
            items=items,
            rated=filled.rated or 0,
            epsilon=as_float(world.epsilon),
            like=world.like,
            user_shares=world.class_shares,
            cluster_shares=world.cluster_shares,
            theta=world.value("theta"),
            exponent=-math.log(failure) / math.log(items),
        )
    except InputError:
        return None
    return users if math.isfinite(users) else None


_SECONDS, _FIRST, _MOST = 0.5, 64, 1 << 20


def measure_cost(scenario: Scenario, users: int) -> dict[str, float]:
    """Time a few devices of a scenario on one core here, and return what it costs to ask ``users`` of them once."""
    sample = scenario.model_copy(update={"users": _MOST})
    population = populate(sample)
    spec = RunSpec(sample)
    ask = spec.policy.next_query(ServerState(devices=_MOST))
    if ask is None:
        raise ValueError("a policy that asks nothing costs nothing")
    cohort = Cohort(population.ratings, derive(sample.seed, "devices"), 0, _MOST, spec.budget)
    aggregate(ask.query, cohort.answer(ask.query, 0, 1))  # compiles
    first, count = 1, _FIRST
    while True:
        stop = min(first + count, _MOST)
        start = time.perf_counter()
        aggregate(ask.query, cohort.answer(ask.query, first, stop))
        seconds = time.perf_counter() - start
        if seconds >= _SECONDS or stop == _MOST:
            rate = (stop - first) / seconds
            hours = users / rate / 3600
            return {
                "devices_per_second_and_core": rate,
                "core_seconds": users / rate,
                "cores_for_an_hour": max(1, math.ceil(hours)),
                "cores_for_a_day": max(1, math.ceil(hours / 24)),
            }
        first, count = stop, 2 * count


def check_plan(scenario: Scenario, session: Backend, *, repeat: int, console: Console) -> dict[str, Any]:
    """Run a scenario and return its result with what was predicted for it."""
    measurement = run_seeds(MainJob(), scenario, Running(session=session, console=console), repeat)
    as_run = Scenario.model_validate(measurement.scenario)
    prediction, answered = predictor(RunSpec(as_run).local_scenario), measurement.values["answered"]
    sides = (None, None) if prediction is None else (prediction.accuracy(answered), prediction.exact(answered))
    return {"intervals": {}, **measurement.values, "accuracy_predicted": sides[0], "exact_predicted": sides[1]}
