"""The sweep of the two-tier model: the paper's figures over seeds, and the attack on releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from coordinator.protocol import second_order_mechanisms as public
from coordinator.protocol.errors import InputError
from coordinator.server.completion import mechanisms as server
from coordinator.server.completion.batches import Course
from coordinator.server.completion.weighing import baseline_errors, rmse
from scenarios.data.datasets import RatingTable, lines_skipped, tell_remarks
from scenarios.given.validation import validated
from scenarios.log import console
from scenarios.places.in_process import InProcess
from scenarios.report.attack_tables import show_attack
from scenarios.report.intervals import mean_interval
from scenarios.report.records import versions
from scenarios.report.tables import interval, show_table
from scenarios.sweep.kinds import Kind, Sweep
from scenarios.two_tier.config import FULL, GUARANTEES, NONE, TwoTier, needs_scale, takes_epsilon
from scenarios.two_tier.course import CoursePlan, follow, points_of
from scenarios.two_tier.experiment import World, plan_of, read_table, score_of, settle, world_of

LEFT, RIGHT, SECOND, ATTACK, SETTINGS = "1-left", "1-right", "2", "attack", "settings"
FIGURES = (LEFT, RIGHT, SECOND, ATTACK)


class TwoTierKey(NamedTuple):
    """A unit; its place on the horizontal axis is 0 where it is a whole curve."""

    figure: str
    curve: str
    place: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoTierUnit:
    """One course."""

    wanted: TwoTier
    every: int = 0  # Private devices between two points
    # Public users join in their order until they have so many training ratings; None: ``wanted.public``
    budget: int | None = None
    settings_only: bool = False  # Stop when rank and kappa are chosen
    attacks: bool = False  # Attack the releases of the private devices about the model that public users alone give


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoTierMeasurement:
    """What a unit found."""

    points: tuple[tuple[int, float], ...]  # Private devices so far, and the root mean squared error
    baseline: float  # That of the items' means
    public: int  # Public users, and their training ratings
    ratings: int
    rank: int  # As given or chosen
    kappa: float
    weight: float | None
    attack: tuple[dict[str, Any], ...] = ()  # What was guessed: rows of `Guessed.as_json`


def measure_two_tier(unit: TwoTierUnit) -> TwoTierMeasurement:
    """Measure one unit in this process, on one thread."""
    session, wanted = InProcess(1), unit.wanted
    table = _table(wanted.model_copy(update=_ANY if wanted.ratings is None else {**_ANY, "seed": 0}))
    if unit.budget is not None:
        wanted = wanted.model_copy(update={"public": _users_for(wanted, table, unit.budget)})
    world = world_of(wanted, table)
    fitting, _ = settle(world, session)
    public = world.split.public_rows
    points: list[tuple[int, float]] = []
    baseline, weight, attack = 0.0, None, list[dict[str, Any]]()
    if not unit.settings_only:
        plan = plan_of(world, fitting, every=unit.every)
        course, _ = follow(plan, session)
        points, weight = points_of(course, partial(score_of, world, session)), course.weight
        baseline = rmse(baseline_errors(course.features, world.split.test))
        attack = _guessed(wanted.seed, world, plan, course) if unit.attacks else []
    return TwoTierMeasurement(
        points=tuple(points),
        baseline=baseline,
        public=public.users,
        ratings=public.items.size,
        rank=fitting.rank,
        kappa=fitting.kappa,
        weight=weight,
        attack=tuple(attack),
    )


def _guessed(seed: int, world: World, plan: CoursePlan, course: Course) -> list[dict[str, Any]]:
    """Attack what can be attacked: some mechanisms need a scale with all ratings on it."""
    from scenarios.two_tier.attack import ATTACKED, attack  # noqa: PLC0415 (trees, only where they grow)

    levels = world.scale.levels
    on_scale = levels is not None and len(levels) > 1 and bool(np.isin(plan.private.values, levels).all())
    attacked = [one for one in ATTACKED if on_scale or not needs_scale(one[0])]
    found = attack(course.features, plan.server.public, plan.private, seed, attacked=attacked)
    return [one.as_json() for one in found]


_ANY: dict[str, Any] = {
    "mechanism": NONE,
    "epsilon": None,
    "rank": None,
    "regularisation": None,
    "public": 1,
    "private": 0,
    "public_by": "most",
    "norm": "uniform",
    "weight": None,
}
"""What a table does not depend on."""


@lru_cache(maxsize=1)
def _table(wanted: TwoTier) -> RatingTable:
    return read_table(wanted)


def _users_for(wanted: TwoTier, table: RatingTable, budget: int) -> int:
    """Return how many public users have about ``budget`` training ratings: the nearest number, at least 2."""
    most = world_of(wanted.model_copy(update={"public": table.users, "private": 0, "rank": None}), table)
    sums = np.cumsum(most.split.train.degrees[most.split.public])
    return max(2, int(np.argmin(np.abs(sums - budget))) + 1)


FIRST_PUBLIC = 15
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Figure 1 right: shares of all training ratings that public users have."""


def _asked() -> tuple[str, ...]:
    """Return the rivals, then what every mechanism is shown at: what has no privacy first."""
    order = sorted(server.second_order_server_halves(), key=lambda name: public.half_of(name).private)
    shown = [(name, epsilon) for name in order for epsilon in server.half_of(name).swept]
    return NONE, FULL, *(f"{name}:{epsilon}" if epsilon else name for name, epsilon in shown)


ASKED = _asked()
"""Curves of Figure 2: a mechanism, and its epsilon where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep measures."""

    base: TwoTier  # What all units share
    figures: tuple[str, ...]  # Some of `FIGURES`
    seeds: int  # From the base's seed on
    curves: tuple[str, ...]  # Of Figure 2
    users: int  # Of the table, held-out ratings left out
    ratings: int
    every: int  # Private devices between two points of Figure 2

    def content(self) -> dict[str, Any]:
        """Return what all units share, as JSON values."""
        return {"sweep": "two-tier", "base": self.base.model_dump(mode="json", exclude={"seed"})}

    def first(self) -> dict[TwoTierKey, TwoTierUnit]:
        """Return the units that need no other: Figure 1, and the settings of Figure 2."""
        found: dict[TwoTierKey, TwoTierUnit] = {}
        if ATTACK in self.figures:
            attacked = self._with(mechanism=NONE, epsilon=None, weight=None)
            found[TwoTierKey(ATTACK, "", 0, self.base.seed)] = TwoTierUnit(wanted=attacked, attacks=True)
        for seed in range(self.base.seed, self.base.seed + self.seeds):
            alone = {"mechanism": NONE, "epsilon": None, "private": 0, "weight": None, "seed": seed}
            if LEFT in self.figures:
                for norm in ("uniform", "weighted"):
                    for public in self.public_counts():
                        wanted = self._with(**alone, norm=norm, public=public, public_by="most")
                        found[TwoTierKey(LEFT, norm, public, seed)] = TwoTierUnit(wanted=wanted)
            if RIGHT in self.figures:
                for by in ("most", "random"):
                    for share in SHARES:
                        budget = round(share * self.ratings)
                        wanted = self._with(**alone, public_by=by)
                        found[TwoTierKey(RIGHT, by, budget, seed)] = TwoTierUnit(wanted=wanted, budget=budget)
            if SECOND in self.figures:
                found[TwoTierKey(SETTINGS, "", 0, seed)] = TwoTierUnit(wanted=self._with(**alone), settings_only=True)
        return found

    def second(self, settings: Mapping[TwoTierKey, TwoTierMeasurement]) -> dict[TwoTierKey, TwoTierUnit]:
        """Return Figure 2's units: every mechanism with the same rank and kappa, validated once a seed."""
        found: dict[TwoTierKey, TwoTierUnit] = {}
        for seed in range(self.base.seed, self.base.seed + self.seeds) if SECOND in self.figures else ():
            chosen = settings[TwoTierKey(SETTINGS, "", 0, seed)]
            for curve in self.curves:
                name, epsilon = read_curve(curve)
                wanted = self._with(
                    mechanism=name, epsilon=epsilon, seed=seed, rank=chosen.rank, regularisation=chosen.kappa
                )
                found[TwoTierKey(SECOND, curve, 0, seed)] = TwoTierUnit(wanted=wanted, every=self.every)
        return found

    def public_counts(self) -> list[int]:
        """Return Figure 1 left's numbers of public users: doubling, and all."""
        counts, count = [], FIRST_PUBLIC
        while count < 0.75 * self.users:
            counts.append(count)
            count *= 2
        return [*counts, self.users]

    def _with(self, **changes: object) -> TwoTier:
        return self.base.model_copy(update=changes)


def read_curve(curve: str) -> tuple[str, object]:
    """Return mechanism and epsilon of ``"laplace:5"``."""
    name, mark, epsilon = curve.partition(":")
    if not mark:
        return name, None
    return name, validated(TwoTier, None, {"planted": (2, 2, 2), "mechanism": name, "epsilon": epsilon}).epsilon


BASELINE = "items' means"


def figure_points(found: Mapping[TwoTierKey, TwoTierMeasurement]) -> pd.DataFrame:
    """Return every seed's points: figure, curve, x, seed, rmse and the settings behind them."""
    rows: list[dict[str, Any]] = []
    for (figure, curve, place, seed), measured in found.items():
        settings = {name: getattr(measured, name) for name in ("rank", "kappa", "weight", "public")}
        if figure in (SETTINGS, ATTACK):
            continue
        if figure == SECOND:
            rows += [
                {"figure": figure, "curve": curve, "x": x, "seed": seed, "rmse": error, **settings}
                for x, error in measured.points
            ]
            continue
        row = {"figure": figure, "x": place, "seed": seed, **settings}
        rows.append({**row, "curve": curve, "rmse": measured.points[-1][1]})
        if curve in ("uniform", "most"):
            rows.append({**row, "curve": BASELINE, "rmse": measured.baseline})
    return pd.DataFrame(rows)


def summary_of(points: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds with 95 % intervals; in Figure 2 also the paired gain over public users only."""
    rows = []
    for (figure, curve, x), group in points.groupby(["figure", "curve", "x"], sort=False):
        mean, low, high = mean_interval(group["rmse"].tolist())
        row = {"figure": figure, "curve": curve, "x": x, "seeds": len(group), "rmse": mean, "low": low, "high": high}
        if figure == SECOND:
            alone = points[(points["figure"] == SECOND) & (points["curve"] == "none") & (points["x"] == x)]
            paired = alone.set_index("seed")["rmse"] - group.set_index("seed")["rmse"]
            if len(paired := paired.dropna()):
                row["gain"], row["gain_low"], row["gain_high"] = mean_interval(paired.tolist())
        rows.append(row)
    return pd.DataFrame(rows)


HELP = """Draw the paper's figures over seeds: errors against public users, and against private devices that answer.

Figures: 1-left (uniform and weighted trace norm, users with most ratings first), 1-right (users with most ratings
against random ones at the same number of ratings), 2 (every mechanism, private devices batch by batch, and the paired
gain over public users only), attack (what one release tells a server that knows k ratings; the first seed only).
Rank, regularisation and the weights of noisy releases are chosen on held-out public users, a seed each.

Every finished unit is kept in the folder at once: Ctrl-C loses only what is under way, and the same command goes on.
At the end the folder holds result.json, points.csv (every seed), summary.csv, attack.csv and a picture a figure.
"""


@dataclass(frozen=True, slots=True)
class TwoTierSweep(Sweep[TwoTierKey, TwoTierUnit, TwoTierMeasurement]):
    """Figures to be measured, or that were measured."""

    wanted: SweepPlan
    key, found, measure = TwoTierKey, TwoTierMeasurement, staticmethod(measure_two_tier)
    table, tables = staticmethod(figure_points), ("points.csv", "summary.csv")

    def units(self, done: Mapping[TwoTierKey, TwoTierMeasurement]) -> dict[TwoTierKey, TwoTierUnit]:
        """Return Figure 1's units, and Figure 2's as soon as their rank and kappa are chosen."""
        first = self.wanted.first()
        chosen = all(key in done for key in first if key.figure == SETTINGS)
        return {**first, **(self.wanted.second(done) if chosen else {})}

    def result(self, units: Mapping[TwoTierKey, TwoTierMeasurement]) -> dict[str, Any]:
        """Return every curve's points, means over seeds with intervals, and what was guessed."""
        points, base = figure_points(units), self.wanted.base
        rows = [] if points.empty else _records(summary_of(points))
        attack = [row for one in units.values() for row in one.attack]
        return {
            "trust_model": "two-tier",
            **self.content(),
            "versions": versions(),
            **({} if base.ratings is None else lines_skipped(base, read_table(base))),
            "summary": rows,
            "attack": attack,
        }

    def rows(self, result: Mapping[str, Any]) -> pd.DataFrame:
        """Return every curve's means over seeds."""
        return pd.DataFrame(result["summary"])

    def show(self, console: Console, result: Mapping[str, Any], title: str) -> None:
        """Print each curve's ends, what private devices gained, and what was guessed."""
        rows = []
        for curve in dict.fromkeys((row["figure"], row["curve"]) for row in result["summary"]):
            line = sorted(
                (row for row in result["summary"] if (row["figure"], row["curve"]) == curve), key=lambda row: row["x"]
            )
            ends = [told for row in (line[0], line[-1]) for told in (f"{row['x']:,}", _number(row["rmse"]))]
            last = line[-1]
            gain = [_number(last.get("gain")), interval(last.get("gain_low"), last.get("gain_high"), _number)]
            rows.append([*curve, *ends, interval(last["low"], last["high"], _number), *gain])
        columns = ("figure", "curve", "from", "RMSE", "to", "its RMSE", "95 %", "gain", "its 95 %")
        if rows:
            show_table(console, columns, rows, title=title, words=("figure", "curve"), names=2)
        if result["attack"]:
            show_attack(console, result["attack"])


def _records(summary: pd.DataFrame) -> list[dict[str, Any]]:
    plain = summary.astype(object).where(summary.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def _number(value: float | None) -> str:
    return "" if value is None or not np.isfinite(value) else f"{value:.4f}"


class TwoTierSweepOptions(BaseModel):
    """What is told beside the keys of a two-tier scenario."""

    model_config = ConfigDict(frozen=True)

    figures: str = Field("1-left,1-right,2", description="Some of 1-left, 1-right, 2, attack [1-left,1-right,2].")
    seeds: Annotated[int, Field(ge=1)] = Field(5, description="Seeds, from --seed on [5].")
    mechanisms: str = Field(",".join(ASKED), description=f"Curves of Figure 2 [{','.join(ASKED)}].")
    every: Annotated[int, Field(ge=1)] = Field(100, description="Private devices between two points of Figure 2 [100].")


_SCENARIO: tuple[str, ...] = (
    "ratings",
    "columns",
    "duplicates",
    "bad_lines",
    "planted",
    "public",
    "private",
    "private_by",
    "rank",
    "regularisation",
)
_SCENARIO += ("m_step", "scale", "round_ratings", "holdout", "seed")


def read(values: Mapping[str, Any]) -> TwoTierSweep:
    """Check everything that can be checked before a unit runs."""
    told = validated(TwoTierSweepOptions, None, {name: values.get(name) for name in TwoTierSweepOptions.model_fields})
    scenario = {name: values.get(name) for name in _SCENARIO}
    base = validated(TwoTier, None, {**scenario, "mechanism": NONE})
    figures = tuple(part.strip() for part in told.figures.split(","))
    for name in figures:
        if name not in FIGURES:
            raise InputError(f"figure is {name!r}; choose some of {', '.join(FIGURES)}")
    curves = tuple(told.mechanisms.split(","))
    for curve in curves:
        name, epsilon = read_curve(curve)
        if name not in GUARANTEES:
            raise InputError(
                f"mechanism is {name!r}; choose some of {', '.join(GUARANTEES)}, with :epsilon if it has one"
            )
        if takes_epsilon(name) != (epsilon is not None):
            raise InputError(f"mechanism is {curve!r}; write {name}:5 if it has an epsilon, {name} if not")
    table = read_table(base)
    tell_remarks(table, console())
    choosy = [{"mechanism": curve} for curve in curves if needs_scale(curve.partition(":")[0])]
    for update in (choosy or [{}]) if SECOND in figures else [{"private": 0, "public": 2}]:
        world_of(base.model_copy(update=update), table)
    ratings = table.ratings - table.users * base.holdout
    return TwoTierSweep(
        SweepPlan(
            base=base,
            figures=figures,
            seeds=told.seeds,
            curves=curves,
            users=table.users,
            ratings=ratings,
            every=told.every,
        )
    )


TWO_TIER = Kind(
    name="two-tier",
    help=HELP,
    fields={**TwoTierSweepOptions.model_fields, **{name: TwoTier.model_fields[name] for name in _SCENARIO}},
    read=read,
)
