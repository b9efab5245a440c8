"""The sweep of adaptive rounds: users for all labels right, in one round and in several, over items."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import as_float, as_json
from coordinator.protocol.errors import InputError
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.rounds import Round
from coordinator.server.rounds.state import ServerState
from coordinator.server.server_half import ELIMINATE, ONE_ROUND, POSTERIOR
from scenarios.data.metrics import clustering_scores
from scenarios.data.populations import cluster_sizes, populate
from scenarios.given.config import MOST_USERS, Scenario, load_scenario
from scenarios.given.run_spec import RunSpec
from scenarios.given.validation import validated
from scenarios.given.values import brief
from scenarios.places.in_process import InProcess
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.planner.needs import Target
from scenarios.report.intervals import (
    CONFIDENCE,
    Interval,
    mean_interval,
    named,
    quantile_interval,
    ratio_interval,
    share_interval,
)
from scenarios.report.tables import interval, ratio, remark, show_table, whole
from scenarios.run.experiment import run
from scenarios.store.round_store import InMemoryRounds, NoStore, RoundStore
from scenarios.sweep.kinds import Kind, Sweep
from scenarios.sweep.threshold import EmulatedPrefixes, Prefixes, adapts, crossing, emulate, predicted_users
from scenarios.theory.bounds import all_bounds, binding
from scenarios.theory.separability import inseparable


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One of the ways to learn all labels that adaptive sweeps compare."""

    # Its name on the command line, and in tables and figures, where a setting's name in braces stands for its value
    name: str
    label: str
    design: str  # As in a scenario
    decoder: str = POSTERIOR
    policy: str = ONE_ROUND
    takes: tuple[str, ...] = ()  # Settings of the mechanism for which the sweep has flags
    emulated: bool = False  # Whether sweeps may draw its statistic from exact moments

    @property
    def adaptive(self) -> bool:
        """Whether its policy stops by itself."""
        return self.policy != ONE_ROUND


SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme(name="paper", label="MaxSense, paper", design="maxsense", decoder="paper"),
        Scheme(name="centred", label="MaxSense, centred", design="maxsense", decoder="centred"),
        Scheme(name="sign", label="sign sensing", design="sign", emulated=True),
        Scheme(name="adaptive-maxsense", label="adaptive MaxSense", design="maxsense", policy=ELIMINATE),
        Scheme(name="adaptive-sign", label="adaptive sign sensing", design="sign", policy=ELIMINATE, emulated=True),
        Scheme(
            name="adaptive-vectors",
            label="adaptive sign sensing, {vectors} vectors",
            design="sign",
            policy=ELIMINATE,
            takes=("vectors",),
            emulated=True,
        ),
    )
}
BASE = "adaptive-sign"
"""The scheme that the others are divided by."""


DEVICES: Literal["devices"] = "devices"
MOMENTS: Literal["moments"] = "moments"
_WORLD = ("epsilon", "like", "class_shares", "cluster_shares", "confidence")
GENEROUS = 8
"""No run has more users than this many times what one round of its design should need."""


def _items(told: Any) -> Any:
    parts = told.split(",") if isinstance(told, str) else told if isinstance(told, (list, tuple)) else [told]
    try:
        found = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        raise InputError(f"items is {brief(told)}, no list of whole numbers; write it like 100,300,1000") from None
    if len(set(found)) < len(found):
        raise InputError(f"items is {brief(told)}; name each catalogue once")
    return tuple(sorted(found))


def _schemes(told: Any) -> Any:
    names = [part.strip() for part in told.split(",")] if isinstance(told, str) else list(told)
    for name in names:
        if name not in SCHEMES:
            raise InputError(f"scheme {brief(name)} is unknown; choose among {', '.join(SCHEMES)}")
    return tuple(name for name in SCHEMES if name in names)


class Comparison(BaseModel):
    """What a sweep of adaptive rounds compares: schemes and catalogues, in one world.

    The world's keys are those of a scenario, and are read as a scenario reads them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    items: Annotated[tuple[int, ...], BeforeValidator(_items)] = Field(
        (100, 300, 1000), description="Catalogues: numbers of items N [100,300,1000]."
    )
    rated: int = Field(30, description="Items w that a user rated, at most N [30].")
    epsilon: Any = Field("1", description="Privacy of a device's answer in nats; inf for no noise [1].")
    like: Any = Field("0.9,0.1", description="P(like): clusters by ',', user classes by ';' [0.9,0.1].")
    class_shares: Any = Field(None, description="Shares of user classes [equal].")
    cluster_shares: Any = Field(None, description="Shares of item clusters [equal].")
    confidence: float = Field(0.95, description="P(all labels right) that all schemes are to have [0.95].")
    seeds: Annotated[int, Field(ge=1)] = Field(20, description="Runs of every scheme and catalogue [20].")
    vectors: int = Field(32, description="Vectors of adaptive-vectors, a power of two up to 64 [32].")
    statistic: Literal["devices", "moments"] = Field(
        DEVICES, description="devices answer, or moments: sign sensing is emulated [devices]."
    )
    schemes: Annotated[tuple[str, ...], BeforeValidator(_schemes)] = Field(
        tuple(SCHEMES), description="Some of them, by ',' [all]."
    )

    @property
    def measured(self) -> tuple[str, ...]:
        """Schemes that are run; of the others there is a prediction only."""
        return tuple(name for name in self.schemes if self.statistic == DEVICES or SCHEMES[name].emulated)

    def label(self, name: str) -> str:
        """Return a scheme's name in tables and figures."""
        return SCHEMES[name].label.format(vectors=self.vectors)

    def scenario(self, name: str, items: int, **changes: Any) -> Scenario:
        """Return a scheme's scenario, filled in; ``users`` is the most that may be asked."""
        scheme = SCHEMES[name]
        told = {"design": scheme.design, "decoder": scheme.decoder, "policy": scheme.policy}
        several = {name: getattr(self, name) for name in scheme.takes}
        sizes = {"items": items, "rated": min(self.rated, items)}
        shared = {name: getattr(self, name) for name in _WORLD}
        values = {"users": MOST_USERS, **shared, **told, **several, **sizes, **changes}
        return load_scenario(None, values).complete()

    def planned(self, name: str, items: int) -> float | None:
        """Return the users of one round at which all labels should be right at the confidence; None: no number is."""
        one = self.scenario(name, items, policy="one-round")
        return predicted_users(one, Target(success=self.confidence, accuracy=None))

    def content(self) -> dict[str, Any]:
        """Return what every unit depends on, as JSON values; not which units there are."""
        one = self.scenario(self.schemes[0], self.items[0])
        names = ("class_shares", "cluster_shares", "confidence")
        told = {name: getattr(one, name) for name in names} | {"like": [list(row) for row in one.like]}
        mine = {"rated": self.rated, "epsilon": as_json(one.epsilon), "exact_epsilon": str(one.epsilon)}
        return {"sweep": "adaptive", "statistic": self.statistic, "vectors": self.vectors, **mine, **told}


def check_comparison(wanted: Comparison) -> None:
    """Refuse what cannot be compared, before anything runs."""
    if not wanted.measured:
        told = ", ".join(name for name, one in SCHEMES.items() if one.emulated)
        raise InputError(f"statistic is {MOMENTS}, which none of the schemes has; add one of {told}, or say {DEVICES}")
    for name in wanted.schemes:
        for items in wanted.items:
            _check_scheme(wanted, name, items)


def _check_scheme(wanted: Comparison, name: str, items: int) -> None:
    try:
        setting = wanted.scenario(name, items)
        cluster_sizes(setting)
    except InputError as error:
        raise InputError(f"scheme {name} at {items} items: {error}") from None
    if pairs := inseparable(setting):
        told = ", ".join(f"{one} and {other}" for one, other in pairs)
        raise InputError(
            f"scheme {name} cannot tell clusters {told} apart, however many users answer; give another --like, or "
            "leave it out of --schemes"
        )
    planned = wanted.planned(name, items)
    if planned is None or planned > MOST_USERS:
        raise InputError(
            f"scheme {name} at {items} items needs more users than can be simulated; raise --epsilon or --rated, or "
            "leave it out of --schemes"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where an adaptive run stood after a round."""

    users: int  # Answers asked for so far
    pool: int  # Items that the round asked about
    undecided: int  # Items that were not decided after it, and that had a wrong label
    wrong: int


def steps(
    rounds: Iterable[Round], learner: Learner, *, failure: float, devices: int, truth: Indices
) -> tuple[Standing, ...]:
    """Return where a run stood after each of its rounds: they are absorbed again, one by one."""
    state, found = ServerState(devices=devices), list[Standing]()
    for over in rounds:
        state = learner.absorb(state, over.ask, over.statistic)
        model, posterior = learner.learn(state)
        assert posterior is not None  # adaptive designs have one
        wrong = round((1 - clustering_scores(model.cluster, truth).accuracy) * truth.size)
        found.append(
            Standing(
                users=state.answers_asked,
                pool=truth.size if over.ask.query.pool is None else over.ask.query.pool.size,
                undecided=int((~posterior.decided(failure)).sum()),
                wrong=wrong,
            )
        )
    return tuple(found)


RESOLUTION = 0.005
"""Relative width at which bisection stops; a block of emulated users is this share of the start."""


class SchemeKey(NamedTuple):
    """A unit."""

    scheme: str
    items: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeUnit:
    """What is measured at one go, in one process."""

    scenario: Scenario  # A scheme with its seed, filled in; ``users`` is the most that may be asked
    statistic: str  # one of "devices", "moments"; Where answers come from
    start: int  # Users of one round at which all labels should be right at the confidence
    told: bool = False  # Whether an adaptive run's trajectory is wanted, too


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeMeasurement:
    """What one unit found."""

    # Of an adaptive run: the answers it asked for until it stopped. Of one round: the population at which all labels
    # get right, None where the most users did not do
    users: int | None
    seconds: float  # Time taken
    right: bool | None = None  # Of an adaptive run: whether all labels are right
    undecided: int = 0  # Of an adaptive run: items that it left undecided as users ran out, and its rounds
    rounds: int = 1
    steps: tuple[Standing, ...] = ()  # The trajectory, where it was wanted


def measure_scheme(unit: SchemeUnit) -> SchemeMeasurement:
    """Measure one unit."""
    begin = time.perf_counter()
    if adapts(unit.scenario):
        return _adaptive(unit, begin)
    users = _by_devices(unit) if unit.statistic == DEVICES else _from_moments(unit)
    return SchemeMeasurement(users=users, seconds=time.perf_counter() - begin)


def _by_devices(unit: SchemeUnit) -> int | None:
    prefixes, decoder = Prefixes(unit.scenario), unit.scenario.decoder

    def right(users: int) -> bool:
        return prefixes.scores(users, decoder).exact

    return crossing(right, start=unit.start, most=unit.scenario.users or 0, resolution=RESOLUTION)


def _from_moments(unit: SchemeUnit) -> int | None:
    block = max(1, round(unit.start * RESOLUTION))
    prefixes = EmulatedPrefixes(unit.scenario, block=block)
    blocks = crossing(
        lambda count: prefixes.scores(count).exact,
        start=round(unit.start / block),
        most=(unit.scenario.users or 0) // block,
        resolution=RESOLUTION,
    )
    return None if blocks is None else blocks * block


def _adaptive(unit: SchemeUnit, begin: float) -> SchemeMeasurement:
    population = populate(unit.scenario)
    rounds: RoundStore = InMemoryRounds() if unit.told else NoStore()
    if unit.statistic == DEVICES:
        outcome = run(
            unit.scenario,
            InProcess(1),
            population=population,
            progress=lambda _: stop_if_abandoned(),
            rounds=rounds,
        ).outcome
    else:
        outcome = emulate(population, rounds)
    truth, failure = population.truth, 1 - unit.scenario.confidence
    assert truth is not None  # sweeps run on the block model
    assert outcome.posterior is not None  # adaptive designs have one
    return SchemeMeasurement(
        users=outcome.state.answers_asked,
        right=clustering_scores(outcome.model.cluster, truth).exact,
        undecided=int((~outcome.posterior.decided(failure)).sum()),
        rounds=len(outcome.state.asked),
        steps=steps(
            rounds, RunSpec(unit.scenario).learner, failure=failure, devices=outcome.state.devices, truth=truth
        ),
        seconds=time.perf_counter() - begin,
    )


Units = Mapping[SchemeKey, SchemeMeasurement]
NOTHING: Interval = (None, None, None)
PREFERRED = (BASE, "adaptive-vectors", "adaptive-maxsense")
"""Schemes whose run the trajectory may be of; the first of them that there is."""


def summarize(wanted: Comparison, units: Units) -> dict[str, Any]:
    """Return what `--json` prints.

    ``users`` with ``low`` and ``high`` is the mean over seeds of the users that an adaptive run asked, with Student's
    interval; of one round the quantile of thresholds at the confidence, with an interval of order statistics. Ends are
    None where there are too few seeds. ``right`` is an adaptive scheme's share of seeds with all labels right,
    ``ran_out`` the number of seeds whose users were not enough, ``predicted`` what exact moments say. Ratios are to
    adaptive sign sensing; see `intervals.ratio_interval`.
    """
    rows: list[dict[str, Any]] = []
    for items in wanted.items:
        found = {name: _of(units, name, items) for name in wanted.schemes}
        users = {name: _users(wanted, name, every) for name, every in found.items()}
        base = users.get(BASE, NOTHING)
        rows += [_row(wanted, name, items, found[name], users[name], base) for name in wanted.schemes]
    asked = {**wanted.content(), "items": list(wanted.items), "seeds": wanted.seeds, "interval": CONFIDENCE}
    bounds = [row for items in wanted.items for row in _bounds(wanted, items)]
    return {**asked, "schemes": rows, "bounds": bounds, "trajectory": _trajectory(wanted, units)}


def _of(units: Units, name: str, items: int) -> list[SchemeMeasurement]:
    return [one for key, one in units.items() if key[:2] == (name, items)]


def _users(wanted: Comparison, name: str, every: Sequence[SchemeMeasurement]) -> Interval:
    if not every:
        return NOTHING
    values = [math.nan if one.users is None else float(one.users) for one in every]
    if SCHEMES[name].adaptive:
        return mean_interval(values)
    return quantile_interval(values, wanted.confidence)


def _row(
    wanted: Comparison, name: str, items: int, every: Sequence[SchemeMeasurement], users: Interval, base: Interval
) -> dict[str, Any]:
    scheme, setting = SCHEMES[name], wanted.scenario(name, items)
    predicted = None if scheme.adaptive else wanted.planned(name, items)
    ratio = (1.0, 1.0, 1.0) if name == BASE and every else ratio_interval(users, base)
    right: Interval = NOTHING
    if scheme.adaptive and every:
        right = share_interval(sum(bool(one.right) for one in every), len(every))
    return {
        "items": items,
        "rated": setting.rated,
        "scheme": name,
        "label": wanted.label(name),
        "adaptive": scheme.adaptive,
        "seeds": len(every),
        "users": users[0],
        "low": users[1],
        "high": users[2],
        **named(right, "right"),
        "rounds": sum(one.rounds for one in every) / len(every) if every else None,
        "most_rounds": max((one.rounds for one in every), default=None),
        "ran_out": sum(one.users is None or one.undecided > 0 for one in every),
        "predicted": predicted,
        **named(ratio, "ratio"),
        **named(ratio_interval((predicted, predicted, predicted), base), "ratio_predicted"),
    }


def _bounds(wanted: Comparison, items: int) -> list[dict[str, Any]]:
    """Return the lower bounds that bind on those who learn all labels with the chance asked for."""
    one = wanted.scenario(wanted.schemes[0], items)

    def bound(*, adaptive: bool) -> dict[str, Any]:
        found = all_bounds(
            items=items,
            rated=one.rated or 0,
            epsilon=as_float(one.epsilon),
            clusters=one.clusters or 0,
            failure=1 - wanted.confidence,
            adaptive_queries=adaptive,
        )
        best = binding(found)
        told = {"name": best.name, "users": best.users} if best else {"name": None, "users": None}
        return {"items": items, "adaptive": adaptive, **told}

    everybody, at_once = bound(adaptive=True), bound(adaptive=False)
    return [everybody] if everybody["users"] == at_once["users"] else [everybody, at_once]


def _trajectory(wanted: Comparison, units: Units) -> dict[str, Any] | None:
    """Return seed 0's run in the largest catalogue, of adaptive sign sensing if it ran, with where it stood."""
    items = max(wanted.items)
    for name in PREFERRED:
        one = units.get(SchemeKey(name, items, 0))
        if one is not None and one.steps:
            told = [asdict(step) for step in one.steps]
            return {"scheme": name, "label": wanted.label(name), "items": items, "seed": 0, "steps": told}
    return None


def whom(row: Mapping[str, Any]) -> str:
    """Return what a lower bound is called, and about whom it is."""
    told = f" ({row['name']})" if row["name"] else ""
    return f"lower bound, {'any protocol' if row['adaptive'] else 'one round'}{told}"


def rows_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return the one table of the sweep: schemes, then lower bounds, one row each a catalogue; NaN: not known."""
    shown = ("items", "adaptive", "users")
    bounds = [
        {"scheme": "lower bound", "label": whom(row), **{name: row[name] for name in shown}}
        for row in summary["bounds"]
    ]
    table = pd.DataFrame([*summary["schemes"], *bounds])
    return table.sort_values("items", kind="stable", ignore_index=True).convert_dtypes()


_COLUMNS = ("N", "scheme", "users", "95 %", "all right", "rounds", "planned", "ratio", "its 95 %")
_ends = partial(interval, missing="open")


def show(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Print the table: users of every scheme, how often it was right, and what it costs against adaptive sign."""
    rows: list[list[str] | None] = []
    for items in summary["items"]:
        rows += [_cells(row) for row in summary["schemes"] if row["items"] == items]
        rows += [[f"{items:,}", whom(row), whole(row["users"])] for row in summary["bounds"] if row["items"] == items]
        rows.append(None)
    told = f"{title}: users for all labels right with probability {summary['confidence']:g}"
    show_table(console, _COLUMNS, rows, title=told, words=("scheme",), names=2)
    remark(console, "ratio: users over those of adaptive sign sensing; planned: one round, from exact moments")
    if any(row["seeds"] and None in (row["low"], row["high"]) for row in summary["schemes"]):
        remark(console, "an open end: too few seeds for that end of a 95 % interval")
    if summary["statistic"] == MOMENTS:
        told = "statistics were drawn from their exact moments; MaxSense is not emulated, its planned users stand"
        remark(console, told)


def _cells(row: Mapping[str, Any]) -> list[str]:
    short = f" ({row['ran_out']} ran out)" if row["ran_out"] else ""
    ends = _ends(row["low"], row["high"], whole) or "[open, open]"
    planned = f"planned {row['ratio_predicted']:.3f}" if row["ratio_predicted"] is not None else ""
    return [
        f"{row['items']:,}",
        row["label"],
        whole(row["users"]) if row["seeds"] else "not emulated",
        ends + short if row["seeds"] else "",
        "" if row["right"] is None else f"{row['right'] * row['seeds']:.0f} of {row['seeds']}",
        "" if row["rounds"] is None else f"{row['rounds']:.3g}",
        "" if row["predicted"] is None else whole(row["predicted"]),
        planned if row["ratio"] is None else ratio(row["ratio"]),
        "" if row["ratio"] in (None, 1.0) else _ends(row["ratio_low"], row["ratio_high"], ratio) or "[open, open]",
    ]


HELP = """Compare how many users it takes to get all labels right: one round against adaptive rounds, over items N.

\b
  paper              MaxSense in one round, the paper's decoder
  centred            MaxSense in one round, the centred decoder
  sign               sign sensing in one round
  adaptive-maxsense  MaxSense, decided items leave the pool
  adaptive-sign      sign sensing, decided items leave the pool
  adaptive-vectors   the same, a device chooses among --vectors sign vectors

All at the same chance of success, --confidence. An adaptive run stops by itself: its users are those that it asked, a
mean over seeds with Student's interval, beside the share of seeds with all labels right. One round needs the users at
which all labels are right in that share of the seeds: for every seed bisection finds the population where it gets them
right, and the users are a quantile of these, with an interval of order statistics. A 95 % quantile has an upper end
from 72 seeds on; with fewer it is open. Beside it stands what exact moments say (planned). Ratios are to adaptive-sign.

With --statistic moments nobody answers: sign sensing's sums are drawn from their exact moments, so that hundreds of
seeds at thousands of items take minutes. MaxSense is planned only, then.

\b
  blindrec sweep adaptive --items 100,300,1000 --out compared
  blindrec sweep adaptive --items 300,1000,3000 --seeds 400 --statistic moments --out emulated

Every finished run (scheme, items, seed) is kept in the folder at once: Ctrl-C loses only what is under way, and the
same command goes on; with more --seeds, --items or --schemes it goes on, too. At the end the folder holds result.json,
units.parquet (every run), table.csv, users.png with users.csv (every point, lower bounds included), trajectory.png with
trajectory.csv (one adaptive run, round by round) and versions.json.
"""


@dataclass(frozen=True, slots=True)
class AdaptiveSweep(Sweep[SchemeKey, SchemeUnit, SchemeMeasurement]):
    """A comparison to be measured, or that was measured."""

    wanted: Comparison
    key, found, measure = SchemeKey, SchemeMeasurement, staticmethod(measure_scheme)
    rows, show = staticmethod(rows_table), staticmethod(show)

    def units(self, done: Mapping[SchemeKey, SchemeMeasurement]) -> dict[SchemeKey, SchemeUnit]:
        """Return every unit, seed by seed, so that an unfinished sweep tells something of all schemes."""
        wanted = self.wanted
        firsts = {(name, items): self._first(name, items) for items in wanted.items for name in wanted.measured}
        return {
            SchemeKey(name, items, seed): replace(
                first,
                scenario=first.scenario.model_copy(update={"seed": seed}),
                told=SCHEMES[name].adaptive and seed == 0,
            )
            for seed in range(wanted.seeds)
            for (name, items), first in firsts.items()
        }

    def _first(self, name: str, items: int) -> SchemeUnit:
        planned = self.wanted.planned(name, items)
        assert planned is not None  # checked before
        start = round(planned)
        scenario = self.wanted.scenario(name, items, users=min(round(GENEROUS * start), MOST_USERS))
        return SchemeUnit(scenario=scenario, statistic=self.wanted.statistic, start=start)

    def table(self, units: Mapping[SchemeKey, SchemeMeasurement]) -> pd.DataFrame:
        """Return every measured unit, one row each; ``users`` is NaN where the most users did not do."""
        table = Sweep.table(self, units).drop(columns="steps")
        return table.assign(users=table["users"].astype(float), right=table["right"].astype("boolean"))

    def result(self, units: Mapping[SchemeKey, SchemeMeasurement]) -> dict[str, Any]:
        """Return users of all schemes, their ratios and the bounds; see `summarize`."""
        return summarize(self.wanted, units)


def read(values: Mapping[str, Any]) -> AdaptiveSweep:
    """Check what is to be compared."""
    wanted = validated(Comparison, None, dict(values))
    check_comparison(wanted)
    return AdaptiveSweep(wanted)


ADAPTIVE = Kind(name="adaptive", help=HELP, fields=Comparison.model_fields, read=read)
