"""Plans: what every design would need in a world, the lower bounds that apply, which design to use, and tables."""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from actors.device import Cohort
from coordinator.protocol.budget import Epsilon, as_float, as_json, parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.custom import UNCHECKED
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import ELIMINATE
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.state import ServerState
from scenarios.backends.session import Backend
from scenarios.config.resolve import ResolvedRun, block_of, resolve
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate
from scenarios.experiment.experiment import Running, run_seeds
from scenarios.families.main.main_job import MainJob
from scenarios.show.tables import OPEN, SAFE, failing, name_of, number, relation_text, remark, titled, trust_of
from scenarios.studies.planner.central_plan import central_row, is_predicted, promise_in_words
from scenarios.studies.planner.least_users import (
    Candidate,
    Need,
    Target,
    candidates,
    epsilon_needed,
    estimated_epsilon,
    simulated,
    to_epsilon,
    try_custom,
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
            "target": self.target.description,
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
    custom: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    trust: Mapping[str, Any] | None = None,
) -> DesignPlan:
    """Plan for a block model; ``settings`` are of the mechanisms that have them, ``trust`` says whom devices trust."""
    if trust:
        options = [candidate for candidate in candidates(world, custom, settings, trust) if is_predicted(candidate)]
    else:
        options = candidates(world, custom, settings)
    every = [(candidate, _row(candidate, world.epsilon, target, users, inverse=inverse)) for candidate in options]
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
    for candidate in candidates(world):
        if candidate.protects_all and (best is None or _does(candidate, world.epsilon, target, best[1]["users"])):
            every.append((candidate, _row(candidate, world.epsilon, target, users, inverse=False)))
            best = _recommended(every, "users")
    return best[1] if best else None


def _recommended(every: list[Planned], key: str) -> Planned | None:
    """Return the candidate, and its row, that protects all and has the least of a key; None where no one does."""
    # A custom design whose guarantee is claimed, not checked, is none of them.
    best: Planned | None = None
    for candidate, row in sorted(_able(every), key=lambda pair: (float(pair[1][key]), pair[1]["users"])):
        if not candidate.mechanism.learns_all:
            # Beside a design whose rounds always adapt it counts with as many users as it needs if its own do
            users = row["users"] / (ADAPTIVE if ELIMINATE in candidate.mechanism.policies else 1)
            return (candidate, row) if best is None or users < best[1]["users"] else best
        best = best or (candidate, row)
    return best


def _able(every: list[Planned]) -> list[Planned]:
    safe = [(candidate, row) for candidate, row in every if candidate.protects_all and row.get("channel") != UNCHECKED]
    return [(candidate, row) for candidate, row in safe if row["users"] and row["epsilon"] is not None]


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
    filled, block = world.complete(), block_of(world)
    counts = block.cluster_sizes
    sizes = ", ".join(f"{size:,}" for size in counts.tolist())
    shares, classes = block.class_shares.tolist(), []
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
    if emulation := prediction.emulation:
        targets = goals(emulation.sizes, accuracy=target.accuracy, success=target.success)
        if any(emulation.strength(users) * HOPELESS < math.exp(goal.level(goal.target)) for goal in targets):
            return False
        if target.accuracy is not None and emulation.misses(users, target.accuracy):
            return False
    return target.met(prediction, users)


def _row(candidate: Candidate, epsilon: Epsilon, target: Target, users: int | None, *, inverse: bool) -> dict[str, Any]:
    mechanism = candidate.mechanism
    row: dict[str, Any] = {**candidate.settings, "users": None, "accuracy": None, "exact": None, "epsilon": None}
    row |= {"users_here": users, "choice": candidate.settings.get("questions")}
    row |= {"trust_model": mechanism.trust, "private": mechanism.private, "note": ""}
    row |= dict.fromkeys(("guarantee", "neighbours", "delta"))
    try:
        if admission := candidate.at(epsilon).custom:  # a custom one is held against its claim, as before a run
            row["channel"] = admission[1].how
        if note := candidate.blind(epsilon):
            return row | {"epsilon": as_json(epsilon) if mechanism.private else "inf", "note": note}
        if candidate.trust and epsilon is not None:
            notes = TOO_MANY, NO_EPSILON
            return row | central_row(candidate, epsilon, target, users, inverse=inverse, notes=notes)
        if inverse and users and mechanism.private:
            if (":" in candidate.design or mechanism.learns_all) and predictor(candidate.at(epsilon)) is None:
                return row | {"note": "not predicted at several epsilons: say one by --epsilon"}
            return row | _least_epsilon(candidate, target, users)
        need = users_needed(candidate, epsilon, target)
        try_custom(candidate, epsilon, need)
    except InputError as error:
        return row | {"note": str(error)}
    row |= _about(candidate, epsilon) | {"users": need.users, "answers_per_item": need.answers}
    row |= _interval(candidate, epsilon, need)
    at = users or need.users
    if mechanism.learns_all and users and need.users and users < need.users:
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
    run = candidate.at(epsilon)
    guarantee = run.account.guarantee
    about = {"guarantee": guarantee.text, "neighbours": guarantee.neighbours, "delta": guarantee.delta}
    nats = as_json(epsilon) if candidate.mechanism.private else "inf"
    return {"epsilon": nats, "questions": run.scenario.value("questions"), **about}


def _least_epsilon(candidate: Candidate, target: Target, users: int) -> dict[str, Any]:
    """Return a row's values for the smallest epsilon at which this many users meet a target."""
    run, estimate = candidate.at(candidate.world.epsilon), None
    if note := why_not_predicted(run):
        return {"note": note}
    if (prediction := predictor(run)) and prediction.emulation:
        estimate = estimated_epsilon(candidate, target, users)
        epsilon = None if estimate is None else to_epsilon(estimate.value)
    else:
        epsilon = epsilon_needed(candidate, target, users)
    if epsilon is None:
        return {"note": NO_EPSILON}
    prediction = predictor(candidate.at(epsilon))
    assert prediction is not None  # as it says that epsilon is enough
    try_custom(candidate, epsilon, Need(users=users, predictor=prediction))
    interval = (
        {}
        if estimate is None
        else {"epsilon_low": estimate.low, "epsilon_high": estimate.high, EMULATED: estimate.draws}
    )
    shares = _predictions(prediction, users, estimate, estimate.value if estimate else users, here=True)
    return _about(candidate, epsilon) | interval | {"users": users} | shares


def _failing(world: Scenario, target: Target) -> tuple[float, int]:
    """Return the probability of failure that bounds are about, `ONE_IN_TWO` where none was asked for; and mistakes."""
    if target.success is not None:
        return round(1 - target.success, 12), 0
    items = world.complete().world.items
    return ONE_IN_TWO, 0 if target.accuracy is None else int(round(items * (1 - target.accuracy), 9))


def _sufficient(world: Scenario, failure: float) -> float | None:
    """Return Theorem 15's number of users; None where it says nothing."""
    filled = world.complete()
    items = filled.world.items
    try:
        users = sufficient_users(
            items=items,
            rated=filled.world.rated,
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


def measure_cost(planned: ResolvedRun, users: int) -> dict[str, float]:
    """Time a few devices of a run on one core here, and return what it costs to ask ``users`` of them once."""
    sample = planned.scenario.model_copy(update={"users": _MOST})
    population, run = populate(sample), resolve(sample)
    ask = run.policy.next_query(ServerState(devices=_MOST))
    if ask is None:
        raise ValueError("a policy that asks nothing costs nothing")
    cohort = Cohort(population.ratings, derive(sample.seed, "devices"), 0, _MOST, run.account.budget)
    aggregate(ask.query, cohort.answer(ask.query, 0, 1))  # compiles
    first, stop, seconds = 0, 1, 0.0
    while seconds < _SECONDS and stop < _MOST:
        first, stop = stop, min(stop + max(_FIRST, 2 * (stop - first)), _MOST)
        start = time.perf_counter()
        aggregate(ask.query, cohort.answer(ask.query, first, stop))
        seconds = time.perf_counter() - start
    rate = (stop - first) / seconds
    return {
        "devices_per_second_and_core": rate,
        "core_seconds": users / rate,
        "cores_for_an_hour": max(1, math.ceil(users / rate / 3600)),
        "cores_for_a_day": max(1, math.ceil(users / rate / 3600 / 24)),
    }


def check_plan(scenario: Scenario, session: Backend, *, repeat: int, console: Console) -> dict[str, Any]:
    """Run a scenario and return its result with what was predicted for it."""
    measurement = run_seeds(MainJob(), scenario, Running(session=session, console=console), repeat)
    as_run = Scenario.model_validate(measurement.scenario)
    prediction, answered = predictor(resolve(as_run)), measurement.values["answered"]
    sides = (None, None) if prediction is None else (prediction.accuracy(answered), prediction.exact(answered))
    return {"intervals": {}, **measurement.values, "accuracy_predicted": sides[0], "exact_predicted": sides[1]}


NOTHING_LEARNABLE = (
    "too few ratings to say what could be learned: at no epsilon would a block model of the file's shape put more of "
    "its items right than one label for all of them does"
)


def show_plan(console: Console, made: DesignPlan, title: str, not_for: str | None = None) -> None:
    """Print a plan: every design's need, the lower bounds, what it holds for (and not), and the recommendation."""
    needed = "users" if made.users_here is None else "users needed"
    here = "" if made.users_here is None else f"\nright and all right: with {_count(made.users_here)} users"
    columns = ("design, decoder", needed, "epsilon", "right", "all right")
    table = titled(title + here, *columns, box=box.SIMPLE_HEAD, pad_edge=False)
    table.columns[0].overflow = "fold"
    for column in table.columns[1:]:
        column.no_wrap = True
    noiseless = any(row["private"] and row["epsilon"] == "inf" for row in made.rows)
    for trust, rows in groupby(made.rows, key=trust_of):
        heading = f"{trust.replace(SAFE, 'local')}, no noise" if noiseless and trust != OPEN else trust
        table.add_row(Text(f"{heading}:", style="italic"))
        for row in rows:
            numbers = [_users(row), number(row["epsilon"]), _share(row["accuracy"]), _share(row["exact"])]
            how = next((f" ({word})" for word in (SIMULATED, EMULATED) if row.get(word)), "")
            table.add_row(Padding(Text(f"{name_of(row)}{how}"), (0, 0, 0, 2)), *map(Text, numbers))
    console.print(table)
    valid = [row for row in made.bounds if row["valid"]]
    bounds = [f"{row['name']} {row['users']:,.0f}{' (binds)' if row['binds'] else ''}" for row in valid]
    notes = dict.fromkeys(row["note"] for row in made.rows if row["note"] and row["note"] != TOO_MANY)
    lines = [note if note.startswith(SIMULATED) else f"{_short(note)}: {note}" for note in notes]
    allowed = failing(made.failure, made.mistakes)
    if bounds:
        lines.append(f"users that any epsilon-LDP learner needs {allowed}: {', '.join(bounds)}")
    lines += [promise_in_words(row) for row in made.rows if row.get("epsilon_local") or row.get("noise_deviation")]
    unchecked = [name_of(row) for row in made.rows if row.get("channel") == UNCHECKED]
    lines += [f"{UNCHECKED}: that {name} protects all a device holds; it is never recommended" for name in unchecked]
    if relations := relation_text([{**row, "mechanism": row["design"]} for row in made.rows]):
        lines.append(f"epsilon: {relations}")
    if made.sufficient:
        enough = f"to fail with probability {made.failure:g} at most, by Theorem 15: {_count(made.sufficient)} users"
        lines.append(f"enough for MaxSense {enough}")
    holds = f"holds for {in_words(made.world)}{'; ' * bool(not_for)}{not_for or ''}"
    remark(console, *lines, holds, recommendation(made), *([f"why: {made.why}"] if made.why else []))


def recommendation(made: DesignPlan) -> str:
    """Return the recommendation as a line."""
    if made.best is None:
        return f"no design that protects all that a device holds reaches {made.target.description}"
    best = made.best
    sentence = f"{_count(best['users'])} users at epsilon {number(best['epsilon'])} for {made.target.description}"
    if made.users_here is not None and best["accuracy"] is not None:
        sentence += f"; {_count(made.users_here)} users put {_share(best['accuracy'])} of the items right"
    return f"recommended: {name_of(best)}: {sentence}"


def show_cost(console: Console, cost: Mapping[str, Any]) -> None:
    """Print what a simulation would cost."""
    console.print(
        f"to simulate it: {cost['core_seconds']:,.0f} core seconds ({cost['devices_per_second_and_core']:,.0f} devices "
        f"a second and core, measured here); to end within an hour it takes {cost['cores_for_an_hour']:,} "
        f"core{'' if cost['cores_for_an_hour'] == 1 else 's'}, within a day {cost['cores_for_a_day']:,}",
        highlight=False,
    )


def show_check(console: Console, check: Mapping[str, Any]) -> None:
    """Print predicted beside measured."""
    table = titled("the plan's own check", "checked", "predicted", "measured", "95 % interval")
    for name, label in (("accuracy", "items right"), ("exact", "all items right")):
        low, high = check["intervals"].get(name, [None, None])
        reach = "" if low is None else f"[{low:.4f}, {high:.4f}]"
        table.add_row(label, _share(check[f"{name}_predicted"]), _share(check[name]), Text(reach))
    console.print(table)


def show_learnable(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what a file's users could let a server learn."""
    if not rows:
        remark(console, NOTHING_LEARNABLE)
        return
    columns = ("epsilon", "best design", "right with these users", "users for 99 % right")
    table = titled("what could be learned (two clusters by share of likes)", *columns)
    table.columns[3].no_wrap = True
    for row in rows:
        design = "none" if row["design"] is None else name_of(row)
        table.add_row(str(row["epsilon"]), Text(design), _share(row["accuracy"]), _users(row))
    console.print(table)
    remark(console, f"holds for {rows[0]['holds_for']}; {rows[0]['not_for']}")


def _users(row: Mapping[str, Any]) -> str:
    if row["users"] is None:
        return _short(str(row.get("note") or ""))
    if "users_low" not in row:
        return _count(row["users"])
    low, high = ("open" if end is None else _count(end) for end in (row["users_low"], row["users_high"]))
    return f"{_count(row['users'])}\n[{low},\n{high}]"


def _count(users: float) -> str:
    """Return a number of users, whole as long as it can be read at a glance."""
    return f"{users:,.0f}" if users < 1e11 else f"{users:.4g}"


def _short(note: str) -> str:
    """Return what stands in the table for a note."""
    if note == TOO_MANY:
        return f"> {MOST_USERS:.0e}"
    return note.split(" ", 1)[0] if note.startswith("blind") else "not here" if note else ""


def _share(value: float | bool | None) -> str:
    return "" if value is None else f"{value:.4f}"


MEANINGS = {
    "target": "what the numbers of users are for",
    "holds_for": "the world that a plan holds for",
    "not_for": "what a plan says nothing about",
    "designs": "a row for each mechanism and decoder",
    "users_here": "users that there are, to whom accuracy and exact then refer",
    "choice": "how the number of questions was set, such as auto",
    "agreement": "shares of alike pairs that an emulation assumes",
    "rated_items": "whether rated items are public",
    "note": "what a reader must know of this row",
    "emulated": "times that its statistics were drawn; null if it is computed",
    "answers_per_item": "answers about each item that item queries take",
    "bounds": "lower bounds of the users that any mechanism needs",
    "name": "name of the bound or of the setting",
    "valid": "whether the bound holds here",
    "binds": "whether it is the largest that holds",
    "range": "where the bound holds",
    "source": "where the bound is proved",
    "failure": "probability with which a learner may fail",
    "mistakes": "wrong items that are no failure",
    "recommended": "the recommended row; null if there is none",
    "recommended_why": "why another row with fewer users is not recommended",
    "sufficient_users": "users that suffice by Theorem 15",
    "answer": "who has to be trusted for which worth, with how many people, at what risk; null if there is none",
    "answer_not": "why nothing can be said of lists; null where something is",
    "splits": "splits of the file that an answer is a mean over",
    "words": "the advice in words",
    "withstanding": "users that each mechanism needs with liars",
    "cost": "what a run of the recommended plan costs",
    "check": "a run of the recommended plan",
    "pool_items": "items that a round asks about",
    "first_group": "share of devices that are asked about all items",
    "second_group": "share of devices that rank the items of pairs again",
    "counted_group": "share of devices that report how many items they like",
    "padded": "values that a device's set is filled up to",
    "chosen": "values that a report names",
    "told": "what a frequency oracle reports: a liked item, or a rated one",
}
"""Of plans and their rows, where a run's columns have no such name."""
