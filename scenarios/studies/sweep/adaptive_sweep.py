"""The sweep of adaptive rounds: users for all labels right, in one round and in several, over items."""

from __future__ import annotations

import math
import time
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import as_json
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import ELIMINATE, ONE_ROUND, POSTERIOR
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.rounds import Round
from coordinator.server.rounds.state import ServerState
from scenarios.backends.selection import InProcess
from scenarios.backends.session import InMemoryRounds, NoStore, RoundStore, stop_if_abandoned
from scenarios.config.files import brief
from scenarios.config.resolve import load_scenario, resolve
from scenarios.config.scenario import MOST_USERS, Scenario
from scenarios.config.settings import names_among, parts_of, validated
from scenarios.data.metrics import clustering_scores
from scenarios.data.populations import populate
from scenarios.families.main.run import run
from scenarios.show.intervals import (
    CONFIDENCE,
    Interval,
    mean_interval,
    named,
    quantile_interval,
    ratio_interval,
    share_interval,
)
from scenarios.show.tables import interval_of, ratio, remark, show_table, whole
from scenarios.studies.planner.least_users import Target
from scenarios.studies.study import Measure, Row, Study, Values
from scenarios.studies.sweep.sweeps import Kind
from scenarios.studies.sweep.threshold import (
    BisectionRange,
    EmulatedPrefixes,
    Prefixes,
    adapts,
    emulate,
    predicted_users,
)
from scenarios.theory.bounds import binding, bounds_of
from scenarios.theory.sufficient_users import inseparable


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One of the ways to learn all labels that adaptive sweeps compare."""

    label: str  # In tables and figures, where a setting's name in braces stands for its value
    design: str  # As in a scenario
    decoder: str = POSTERIOR
    policy: str = ONE_ROUND
    takes: tuple[str, ...] = ()  # Settings of the mechanism for which the sweep has flags
    emulated: bool = False  # Whether sweeps may draw its statistic from exact moments

    @property
    def adaptive(self) -> bool:
        """Whether its policy stops by itself."""
        return self.policy != ONE_ROUND


_SIGN, _BY_VECTORS = "adaptive sign sensing", "adaptive sign sensing, {vectors} vectors"
SCHEMES = {
    "paper": Scheme(label="MaxSense, paper", design="maxsense", decoder="paper"),
    "centred": Scheme(label="MaxSense, centred", design="maxsense", decoder="centred"),
    "sign": Scheme(label="sign sensing", design="sign", emulated=True),
    "adaptive-maxsense": Scheme(label="adaptive MaxSense", design="maxsense", policy=ELIMINATE),
    "adaptive-sign": Scheme(label=_SIGN, design="sign", policy=ELIMINATE, emulated=True),
    "adaptive-vectors": Scheme(label=_BY_VECTORS, design="sign", policy=ELIMINATE, takes=("vectors",), emulated=True),
}
"""By their names on the command line, and in tables."""
BASE = "adaptive-sign"  # The scheme that the others are divided by
PREFERRED = (BASE, "adaptive-vectors", "adaptive-maxsense")
"""Schemes whose run the trajectory may be of; the first of them that there is."""
DEVICES: Literal["devices"] = "devices"
MOMENTS: Literal["moments"] = "moments"
_WORLD = ("epsilon", "like", "class_shares", "cluster_shares", "confidence")
GENEROUS = 8  # No run has more users than this many times what one round of its design should need
RESOLUTION = 0.005  # Relative width at which bisection stops; a block of emulated users is this share of the start
NOTHING: Interval = (None, None, None)


SchemeKey = namedtuple("SchemeKey", ("scheme", "items", "seed"))  # A unit


def measure_scheme(scenario: Scenario, *, statistic: str, start: int, trajectory: bool) -> Values:
    """Measure a scheme with its seed, whose ``users`` is the most that may be asked; ``start`` is what should do."""
    # Users are, of one round, the population at which all labels get right, None where the most users did not do; of an
    # adaptive run the answers it asked for until it stopped. Of such a run alone: whether all labels are right, items
    # that it left undecided as users ran out, its rounds, and its trajectory, where that is to be stored
    begin = time.perf_counter()
    measured: Values = {"users": None, "seconds": 0.0, "right": None, "undecided": 0, "rounds": 1, "steps": []}
    if adapts(scenario):
        measured |= _adaptive(scenario, statistic, trajectory=trajectory)
    else:
        search = BisectionRange(start=start, most=scenario.world.users, resolution=RESOLUTION)
        block = max(1, round(start * RESOLUTION))
        worlds = Prefixes(scenario) if statistic == DEVICES else EmulatedPrefixes(scenario, block=block)
        measured["users"] = worlds.threshold(scenario.decoder, "exact", 1, search)
    return measured | {"seconds": time.perf_counter() - begin}


def _adaptive(scenario: Scenario, statistic: str, *, trajectory: bool) -> Values:
    population = populate(scenario)
    rounds: RoundStore = InMemoryRounds() if trajectory else NoStore()
    if statistic == MOMENTS:
        outcome = emulate(population, rounds)
    else:
        backend, stop = InProcess(1), lambda _: stop_if_abandoned()
        outcome = run(scenario, backend, population=population, progress=stop, rounds=rounds).outcome
    truth, failure = population.truth, 1 - scenario.confidence
    assert truth is not None  # sweeps run on the block model
    assert outcome.posterior is not None  # adaptive designs have one
    learner, devices = resolve(scenario).learner, outcome.state.devices
    return {
        "users": outcome.state.answers_asked,
        "right": clustering_scores(outcome.model.cluster, truth).exact,
        "undecided": int((~outcome.posterior.decided(failure)).sum()),
        "rounds": len(outcome.state.asked),
        "steps": list(steps(rounds, learner, failure=failure, devices=devices, truth=truth)),
    }


def steps(
    rounds: Iterable[Round], learner: Learner, *, failure: float, devices: int, truth: Indices
) -> Iterator[dict[str, int]]:
    """Yield where a run stood after each of its rounds: they are absorbed again, one by one."""
    # Answers asked for so far, items that the round asked about, and of all items how many were not decided after it,
    # and how many had a wrong label
    state = ServerState(devices=devices)
    for record in rounds:
        state = learner.absorb(state, record.ask, record.statistic)
        model, posterior = learner.learn(state)
        assert posterior is not None  # adaptive designs have one
        yield {
            "users": state.answers_asked,
            "pool": truth.size if record.ask.query.pool is None else record.ask.query.pool.size,
            "undecided": int((~posterior.decided(failure)).sum()),
            "wrong": round((1 - clustering_scores(model.cluster, truth).accuracy) * truth.size),
        }


def _items(value: Any) -> Any:
    try:
        items = tuple(int(part) for part in parts_of(value))
    except (TypeError, ValueError):
        raise InputError(f"items is {brief(value)}, no list of whole numbers; write it like 100,300,1000") from None
    if len(set(items)) < len(items):
        raise InputError(f"items is {brief(value)}; name each catalogue once")
    return tuple(sorted(items))


Units = Mapping[SchemeKey, Values]


class AdaptiveGrid(BaseModel):
    """What a sweep of adaptive rounds compares: schemes and catalogues, in one world."""

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
    schemes: Annotated[tuple[str, ...], BeforeValidator(partial(names_among, choices=SCHEMES, what="scheme"))] = Field(
        tuple(SCHEMES), description="Some of them, by ',' [all]."
    )

    def check(self, name: str, items: int) -> None:
        """Refuse what cannot be compared, before anything runs."""
        try:
            setting = self.scenario(name, items)
            resolved = resolve(setting)
        except InputError as error:
            raise InputError(f"scheme {name} at {items} items: {error}") from None
        if pairs := inseparable(resolved):
            clusters = ", ".join(f"{first} and {second}" for first, second in pairs)
            raise InputError(
                f"scheme {name} cannot tell clusters {clusters} apart, however many users answer; give another --like, "
                "or leave it out of --schemes"
            )
        planned = self.planned(name, items)
        if planned is None or planned > MOST_USERS:
            raise InputError(
                f"scheme {name} at {items} items needs more users than can be simulated; raise --epsilon or --rated, "
                "or leave it out of --schemes"
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
        values = {field: getattr(self, field) for field in (*_WORLD, *scheme.takes)}
        values |= {"design": scheme.design, "decoder": scheme.decoder, "policy": scheme.policy, "users": MOST_USERS}
        return load_scenario(None, {**values, "items": items, "rated": min(self.rated, items), **changes}).complete()

    def planned(self, name: str, items: int) -> float | None:
        """Return the users of one round at which all labels should be right at the confidence; None: no number is."""
        scenario = self.scenario(name, items, policy=ONE_ROUND)
        return predicted_users(scenario, Target(success=self.confidence, accuracy=None))

    def content(self) -> dict[str, Any]:
        """Return what every unit depends on, as JSON values; not which units there are."""
        scenario = self.scenario(self.schemes[0], self.items[0])
        world: dict[str, Any] = {
            "rated": self.rated,
            "epsilon": as_json(scenario.epsilon),
            "exact_epsilon": str(scenario.epsilon),
        }
        world |= {name: getattr(scenario, name) for name in ("class_shares", "cluster_shares", "confidence")}
        world["like"] = [list(row) for row in scenario.like]
        return {"sweep": "adaptive", "statistic": self.statistic, "vectors": self.vectors, **world}

    def units(self, _: Units) -> dict[SchemeKey, Measure[Values]]:
        """Return a unit each scheme, catalogue and seed; of the first seed with the trajectory."""
        measures: dict[tuple[str, int], tuple[Scenario, Callable[..., Values]]] = {}
        for items in self.items:
            for name in self.measured:
                start = round(self.planned(name, items) or 0)  # planned, as checked before
                scenario = self.scenario(name, items, users=min(round(GENEROUS * start), MOST_USERS))
                measures[name, items] = scenario, partial(measure_scheme, statistic=self.statistic, start=start)
        return {
            SchemeKey(*cell, seed): partial(
                measure,
                scenario.model_copy(update={"seed": seed}),
                trajectory=SCHEMES[cell[0]].adaptive and seed == 0,
            )
            for seed in range(self.seeds)
            for cell, (scenario, measure) in measures.items()
        }

    def table(self, units: Units) -> pd.DataFrame:
        """Return every measured unit, one row each; ``users`` is NaN where the most users did not do."""
        rows = [{**key._asdict(), **unit} for key, unit in units.items()]
        table = pd.DataFrame(rows).drop(columns="steps")
        return table.assign(users=table["users"].astype(float), right=table["right"].astype("boolean"))

    def result(self, units: Units) -> dict[str, Any]:
        """Return what `--json` prints."""
        # ``users`` with ``low`` and ``high``: of adaptive schemes the mean over seeds, with Student's interval; of one
        # round the quantile of thresholds at the confidence, with an interval of order statistics. Ends are None where
        # there are too few seeds. Ratios are to adaptive sign sensing; see `intervals.ratio_interval`.
        rows = [self._row(name, items, units) for items in self.items for name in self.schemes]
        bases = {row["items"]: row for row in rows if row["scheme"] == BASE and row["seeds"]}
        for row in rows:
            base, planned = _interval(bases.get(row["items"])), row["predicted"]
            ratios = ratio_interval(_interval(row), base) if row is not bases.get(row["items"]) else (1.0, 1.0, 1.0)
            row.update(named(ratios, "ratio"))
            row.update(named(ratio_interval((planned, planned, planned), base), "ratio_predicted"))
        return {
            **self.content(),
            "items": list(self.items),
            "seeds": self.seeds,
            "interval": CONFIDENCE,
            "schemes": rows,
            "bounds": [row for items in self.items for row in self._bounds(items)],
            "trajectory": self._trajectory(units),
        }

    def _row(self, name: str, items: int, units: Units) -> dict[str, Any]:
        scheme, setting = SCHEMES[name], self.scenario(name, items)
        every = [unit for key, unit in units.items() if key[:2] == (name, items)]
        users = right = NOTHING
        if every:
            values = [math.nan if unit["users"] is None else float(unit["users"]) for unit in every]
            users = mean_interval(values) if scheme.adaptive else quantile_interval(values, self.confidence)
        if scheme.adaptive and every:
            right = share_interval(sum(bool(unit["right"]) for unit in every), len(every))
        return {
            "items": items,
            "rated": setting.rated,
            "scheme": name,
            "label": self.label(name),
            "adaptive": scheme.adaptive,
            "seeds": len(every),
            **dict(zip(("users", "low", "high"), users, strict=True)),
            **named(right, "right"),
            "rounds": sum(unit["rounds"] for unit in every) / len(every) if every else None,
            "most_rounds": max((unit["rounds"] for unit in every), default=None),
            "ran_out": sum(unit["users"] is None or unit["undecided"] > 0 for unit in every),
            "predicted": None if scheme.adaptive else self.planned(name, items),
        }

    def _bounds(self, items: int) -> list[dict[str, Any]]:
        """Return the lower bounds that bind on those who learn all labels with the chance asked for."""
        scenario, rows = self.scenario(self.schemes[0], items), list[dict[str, Any]]()
        for adaptive in (True, False):
            best = binding(bounds_of(scenario, failure=1 - self.confidence, adaptive_queries=adaptive))
            name, users = (best.name, best.users) if best else (None, None)
            if not rows or rows[0]["users"] != users:
                rows.append({"items": items, "adaptive": adaptive, "name": name, "users": users})
        return rows

    def _trajectory(self, units: Units) -> dict[str, Any] | None:
        """Return seed 0's run in the largest catalogue, of adaptive sign sensing if it ran, with where it stood."""
        items = max(self.items)
        for name in PREFERRED:
            unit = units.get(SchemeKey(name, items, 0))
            if unit is not None and unit["steps"]:
                run_of = {"scheme": name, "label": self.label(name), "items": items, "seed": 0}
                return {**run_of, "steps": unit["steps"]}
        return None


def rows_of(result: Row) -> pd.DataFrame:
    """Return the one table of the sweep: schemes, then lower bounds, one row each a catalogue; NaN: not known."""
    shown = ("items", "adaptive", "users")
    bounds = [
        {"scheme": "lower bound", "label": whom(row), **{name: row[name] for name in shown}} for row in result["bounds"]
    ]
    table = pd.DataFrame([*result["schemes"], *bounds])
    return table.sort_values("items", kind="stable", ignore_index=True).convert_dtypes()


def show(console: Console, result: Row, title: str) -> None:
    """Print the table: users of every scheme, how often it was right, and what it costs against adaptive sign."""
    rows: list[list[str] | None] = []
    for items in result["items"]:
        rows += [[cell(row) for cell in _COLUMNS.values()] for row in result["schemes"] if row["items"] == items]
        rows += [[f"{items:,}", whom(row), whole(row["users"])] for row in result["bounds"] if row["items"] == items]
        rows.append(None)
    title = f"{title}: users for all labels right with probability {result['confidence']:g}"
    show_table(console, list(_COLUMNS), rows, title=title, words=("scheme",), names=2)
    remark(console, "ratio: users over those of adaptive sign sensing; planned: one round, from exact moments")
    if any(row["seeds"] and None in (row["low"], row["high"]) for row in result["schemes"]):
        remark(console, "an open end: too few seeds for that end of a 95 % interval")
    if result["statistic"] == MOMENTS:
        sentence = "statistics were drawn from their exact moments; MaxSense is not emulated, its planned users stand"
        remark(console, sentence)


def _interval(row: Row | None) -> Interval:
    return (row["users"], row["low"], row["high"]) if row else NOTHING


def whom(row: Row) -> str:
    """Return what a lower bound is called, and about whom it is."""
    name = f" ({row['name']})" if row["name"] else ""
    return f"lower bound, {'any protocol' if row['adaptive'] else 'one round'}{name}"


def _reach(row: Row, name: str, write: Callable[[Any], str]) -> str:
    return interval_of(row, name, write, missing="open") or "[open, open]"


def _users_reach(row: Row) -> str:
    out = f" ({row['ran_out']} ran out)" if row["ran_out"] else ""
    return _reach(row, "", whole) + out if row["seeds"] else ""


def _ratio(row: Row) -> str:
    planned = "" if row["ratio_predicted"] is None else f"planned {row['ratio_predicted']:.3f}"
    return planned if row["ratio"] is None else ratio(row["ratio"])


_COLUMNS: dict[str, Callable[[Row], str]] = {
    "N": lambda row: f"{row['items']:,}",
    "scheme": lambda row: str(row["label"]),
    "users": lambda row: whole(row["users"]) if row["seeds"] else "not emulated",
    "95 %": _users_reach,
    "all right": lambda row: "" if row["right"] is None else f"{row['right'] * row['seeds']:.0f} of {row['seeds']}",
    "rounds": lambda row: "" if row["rounds"] is None else f"{row['rounds']:.3g}",
    "planned": lambda row: "" if row["predicted"] is None else whole(row["predicted"]),
    "ratio": _ratio,
    "its 95 %": lambda row: "" if row["ratio"] in (None, 1.0) else _reach(row, "ratio", ratio),
}


def adaptive(values: Row) -> Study[SchemeKey, Values]:
    """Refuse what cannot be compared, before anything runs."""
    grid = validated(AdaptiveGrid, None, dict(values))
    if not grid.measured:
        names = ", ".join(name for name, scheme in SCHEMES.items() if scheme.emulated)
        raise InputError(f"statistic is {MOMENTS}, which none of the schemes has; add one of {names}, or say {DEVICES}")
    for name, items in product(grid.schemes, grid.items):
        grid.check(name, items)
    return Study(
        content=grid.content(),
        key=SchemeKey,
        units=grid.units,
        result=grid.result,
        frame=grid.table,
        row_frame=rows_of,
        show=show,
    )


MEANINGS = {
    "schemes": "a row for each scheme and number of items",
    "scheme": "one round or adaptive rounds, of which mechanism",
    "adaptive": "whether rounds adapt",
    "most_rounds": "rounds of the longest run",
    "ran_out": "seeds whose users were not enough",
    "right": "share of seeds in which all labels are right",
    "trajectory": "one adaptive run round by round",
    "statistic": "whether devices are simulated or their sums drawn",
    "exact_epsilon": "epsilon as it was given, as a fraction",
    "ratio_predicted": "the same quotient as planned",
}
KIND = Kind(
    meanings=MEANINGS,
    fields=AdaptiveGrid.model_fields,
    read=adaptive,
    help="""\
\b
  paper              MaxSense in one round, the paper's decoder
  centred            MaxSense in one round, the centred decoder
  sign               sign sensing in one round
  adaptive-maxsense  MaxSense, decided items leave the pool
  adaptive-sign      sign sensing, decided items leave the pool
  adaptive-vectors   the same, a device chooses among --vectors sign vectors

All schemes are compared at the same probability of success, --confidence. An adaptive run stops by itself; the table
shows the mean number of users that it asked, with Student's interval, and the share of seeds with all labels right. For
one round, bisection finds for every seed how many users get all labels right; the table shows their quantile at
--confidence, with an interval from order statistics. A 95 % quantile has an upper end from 72 seeds on; with fewer it
is open. The column planned is the prediction from exact moments. Ratios are to adaptive-sign.

With --statistic moments no device answers: sign sensing's sums are drawn from their exact moments, so that hundreds of
seeds at thousands of items take minutes. MaxSense is then only planned.

\b
  blindrec sweep adaptive --items 100,300,1000 --out compared
  blindrec sweep adaptive --items 300,1000,3000 --seeds 400 --statistic moments --out emulated
""",
)
