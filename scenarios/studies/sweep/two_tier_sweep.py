"""The sweep of the two-tier model: the paper's figures over seeds, and the attack on releases."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.errors import InputError
from coordinator.protocol.second_order import two_tier_mechanisms
from coordinator.server.completion.batches import CompletionOutcome
from coordinator.server.completion.weighing import baseline_errors, rmse
from scenarios.backends.selection import InProcess
from scenarios.config.settings import names_among, validated
from scenarios.data.datasets import lines_skipped, tell_remarks
from scenarios.data.rating_split import TEST, hold_out
from scenarios.families.two_tier import two_tier_seed as experiment
from scenarios.families.two_tier.two_tier_run import CoursePlan, follow
from scenarios.families.two_tier.two_tier_scenario import FULL, GUARANTEES, NONE, TwoTier, needs_scale, takes_epsilon
from scenarios.log import console
from scenarios.show.intervals import mean_interval, named
from scenarios.show.records import versions
from scenarios.show.tables import interval_of, show_attack, show_table
from scenarios.studies.study import Measure, Row, Study, Values
from scenarios.studies.sweep.sweeps import Kind, values_of

LEFT, RIGHT, SECOND, ATTACK, SETTINGS = "1-left", "1-right", "2", "attack", "settings"
FIGURES = (LEFT, RIGHT, SECOND, ATTACK)


DOUBLED = [15 << step for step in range(40)]  # Figure 1 left: numbers of public users, and all of them
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)  # Figure 1 right: shares of all training ratings that public users have
BASELINE = "items' means"
TwoTierKey = namedtuple("TwoTierKey", ("figure", "curve", "place", "seed"))
"""A unit; its place on the horizontal axis is 0 where it is a whole curve."""


# Curves of Figure 2: the rivals, then what every mechanism is shown at, with its epsilon; what has no privacy first
CURVES = (
    NONE,
    FULL,
    *(
        f"{part.name}:{epsilon}" if epsilon else part.name
        for part in sorted(two_tier_mechanisms().values(), key=lambda part: part.private)
        for epsilon in part.swept
    ),
)


def measure_two_tier(
    scenario: TwoTier, *, every: int = 0, budget: int | None = None, settings_only: bool = False, attacks: bool = False
) -> Values:
    """Follow one course in this process, on one thread, with ``every`` private devices between two points."""
    session = InProcess(1)
    table = experiment.table_of(scenario)
    if budget is not None:  # as many public users as have about so many training ratings, at least 2
        every_user = {"public": table.users, "private": 0, "rank": None}
        most = experiment.world_of(scenario.model_copy(update=every_user), table).split
        sums = np.cumsum(most.train.degrees[most.public])
        scenario = scenario.model_copy(update={"public": max(2, int(np.argmin(np.abs(sums - budget))) + 1)})
    world = experiment.world_of(scenario, table)
    fitting, _ = experiment.settle(world, session)
    rows = world.split.public_rows
    # A point has the private devices so far, and the root mean squared error; the baseline is that of the items' means.
    # Public users stand beside their training ratings; rank and kappa are as in the scenario, or validated
    measured: Values = {
        "points": [],
        "baseline": 0.0,
        "public": rows.users,
        "ratings": rows.items.size,
        "rank": fitting.rank,
        "kappa": fitting.kappa,
        "weight": None,
        "attack": [],
    }
    if not settings_only:
        plan = experiment.plan_of(world, fitting, every=every)
        course = follow(plan, session).outcome
        scores = [(devices, experiment.score_of(world, session, features)) for devices, features in course.models]
        measured |= {"points": scores, "baseline": rmse(baseline_errors(course.features, world.split.test))}
        guessed = _guessed(scenario.seed, world, plan, course) if attacks else []
        measured |= {"weight": course.weight, "attack": guessed}
    return measured


def _guessed(
    seed: int, world: experiment.TwoTierWorld, plan: CoursePlan, course: CompletionOutcome
) -> list[dict[str, Any]]:
    """Attack what can be attacked: some mechanisms need a scale with all ratings on it."""
    from scenarios.families.two_tier.attack import ATTACKED, attack  # noqa: PLC0415 (trees, only where they grow)

    levels = world.scale.levels
    on_scale = levels is not None and len(levels) > 1 and bool(np.isin(plan.private.values, levels).all())
    attacked = [release for release in ATTACKED if on_scale or not needs_scale(release[0])]
    return attack(course.features, plan.server.public, plan.private, seed, attacked=attacked)


class TwoTierSweepOptions(BaseModel):
    """What is said beside the keys of a two-tier scenario."""

    model_config = ConfigDict(frozen=True)

    figures: str = Field("1-left,1-right,2", description="Some of 1-left, 1-right, 2, attack [1-left,1-right,2].")
    seeds: Annotated[int, Field(ge=1)] = Field(5, description="Seeds, from --seed on [5].")
    mechanisms: str = Field(",".join(CURVES), description=f"Curves of Figure 2 [{','.join(CURVES)}].")
    every: Annotated[int, Field(ge=1)] = Field(100, description="Private devices between two points of Figure 2 [100].")


_FILE = ("ratings", "columns", "duplicates", "bad_lines", "unrated", "planted", "public", "private", "private_by")
_SCENARIO = (*_FILE, "rank", "regularisation", "m_step", "scale", "round_ratings", "holdout", "seed")
Units = Mapping[TwoTierKey, Values]


@dataclass(frozen=True, slots=True, kw_only=True)
class FiguresGrid:
    """Figures to be measured."""

    base: TwoTier  # What all units share
    figures: tuple[str, ...]  # Some of `FIGURES`
    seeds: int  # From the base's seed on
    curves: tuple[str, ...]  # Of Figure 2
    users: int  # Of the table, held-out ratings left out
    ratings: int
    every: int  # Private devices between two points of Figure 2

    def content(self) -> dict[str, Any]:
        """Return what all units share, as JSON values."""
        left_out = {"seed", "split_by", "like_from"}  # what folders of before such settings do not name
        left_out |= {"unrated"} if self.base.unrated is None else set()
        return {"sweep": "two-tier", "base": self.base.model_dump(mode="json", exclude=left_out)}

    def units(self, done: Units) -> dict[TwoTierKey, Measure[Values]]:
        """Return Figure 1's units, and Figure 2's as soon as their rank and kappa are validated."""
        units = dict(self._first())
        settings = {key.seed: done.get(key) for key in units if key.figure == SETTINGS}
        for seed, fitting in settings.items() if None not in settings.values() else ():
            assert fitting is not None  # as just said
            for curve in self.curves:
                name, epsilon = read_curve(curve)
                changes = {"mechanism": name, "epsilon": epsilon, "seed": seed}
                changes |= {"rank": fitting["rank"], "regularisation": fitting["kappa"]}
                units[TwoTierKey(SECOND, curve, 0, seed)] = self._course(changes, every=self.every)
        return units

    def _first(self) -> Iterator[tuple[TwoTierKey, Measure[Values]]]:
        """Yield the units that need no other: Figure 1, and the settings of Figure 2."""
        alone: dict[str, Any] = {"mechanism": NONE, "epsilon": None, "weight": None}
        if ATTACK in self.figures:
            yield TwoTierKey(ATTACK, "", 0, self.base.seed), self._course(alone, attacks=True)
        counts = [*takewhile(lambda count: count < 0.75 * self.users, DOUBLED), self.users]
        for seed in range(self.base.seed, self.base.seed + self.seeds):
            alone |= {"private": 0, "seed": seed}
            if LEFT in self.figures:
                for norm in ("uniform", "weighted"):
                    for count in counts:
                        few = {**alone, "norm": norm, "public": count, "public_by": "most"}
                        yield TwoTierKey(LEFT, norm, count, seed), self._course(few)
            if RIGHT in self.figures:
                for by in ("most", "random"):
                    for budget in (round(share * self.ratings) for share in SHARES):
                        course = self._course(alone | {"public_by": by}, budget=budget)
                        yield TwoTierKey(RIGHT, by, budget, seed), course
            if SECOND in self.figures:
                yield TwoTierKey(SETTINGS, "", 0, seed), self._course(alone, settings_only=True)

    def _course(self, changes: Row, **how: Any) -> Measure[Values]:
        return partial(measure_two_tier, self.base.model_copy(update=changes), **how)

    def table(self, units: Units) -> pd.DataFrame:
        """Return every seed's points: figure, curve, x, seed, rmse and the settings behind them."""
        rows: list[dict[str, Any]] = []
        for (figure, curve, point, seed), measurement in units.items():
            settings = {name: measurement[name] for name in ("rank", "kappa", "weight", "public")}
            if figure == SECOND:
                row = {"figure": figure, "curve": curve}
                rows += [{**row, "x": x, "seed": seed, "rmse": error, **settings} for x, error in measurement["points"]]
            elif figure in (LEFT, RIGHT):
                row = {"figure": figure, "x": point, "seed": seed, **settings}
                rows.append({**row, "curve": curve, "rmse": measurement["points"][-1][1]})
                if curve in ("uniform", "most"):
                    rows.append({**row, "curve": BASELINE, "rmse": measurement["baseline"]})
        return pd.DataFrame(rows)

    def result(self, units: Units) -> dict[str, Any]:
        """Return every curve's points, means over seeds with intervals, and what was guessed."""
        points, base = self.table(units), self.base
        return {
            "trust_model": "two-tier",
            **self.content(),
            "versions": versions(),
            **({} if base.ratings is None else lines_skipped(base, experiment.read_table(base))),
            "summary": [] if points.empty else _summary(points),
            "attack": [row for unit in units.values() for row in unit["attack"]],
        }


def read_curve(curve: str) -> tuple[str, object]:
    """Return mechanism and epsilon of ``"laplace:5"``."""
    name, mark, epsilon = curve.partition(":")
    if not mark:
        return name, None
    return name, validated(TwoTier, None, {"planted": (2, 2, 2), "mechanism": name, "epsilon": epsilon}).epsilon


def _summary(points: pd.DataFrame) -> list[dict[str, Any]]:
    """Return means over seeds with 95 % intervals; in Figure 2 also the paired gain over public users only."""
    rows = []
    for (figure, curve, x), group in points.groupby(["figure", "curve", "x"], sort=False):
        row = {"figure": figure, "curve": curve, "x": x, "seeds": len(group)}
        row |= dict(zip(("rmse", "low", "high"), mean_interval(group["rmse"].tolist()), strict=True))
        if figure == SECOND:
            alone = points[(points["figure"] == SECOND) & (points["curve"] == NONE) & (points["x"] == x)]
            paired = alone.set_index("seed")["rmse"] - group.set_index("seed")["rmse"]
            if len(paired := paired.dropna()):
                row |= named(mean_interval(paired.tolist()), "gain")
        rows.append(row)
    summary = pd.DataFrame(rows)
    plain = summary.astype(object).where(summary.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def _ends(figure: str, curve: str, line: Sequence[Mapping[str, Any]]) -> list[str]:
    last = line[-1]
    ends = [cell for row in (line[0], last) for cell in (f"{row['x']:,}", _number(row["rmse"]))]
    gain = [_number(last.get("gain")), interval_of(last, "gain", _number)]
    return [figure, curve, *ends, interval_of(last, write=_number), *gain]


def _number(value: float | None) -> str:
    return "" if value is None or not np.isfinite(value) else f"{value:.4f}"


def show(console: Console, result: Mapping[str, Any], title: str) -> None:
    """Print each curve's ends, what private devices gained, and what was guessed."""
    lines: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in sorted(result["summary"], key=lambda row: row["x"]):
        lines.setdefault((row["figure"], row["curve"]), []).append(row)
    curves = dict.fromkeys((row["figure"], row["curve"]) for row in result["summary"])
    rows = [_ends(*curve, lines[curve]) for curve in curves]
    columns = ("figure", "curve", "from", "RMSE", "to", "its RMSE", "95 %", "gain", "its 95 %")
    if rows:
        show_table(console, columns, rows, title=title, words=("figure", "curve"), names=2)
    if result["attack"]:
        show_attack(console, result["attack"])


def two_tier(values: Row) -> Study[TwoTierKey, Values]:
    """Check everything that can be checked before a unit runs."""
    options = validated(TwoTierSweepOptions, None, values_of(TwoTierSweepOptions.model_fields, values))
    base = validated(TwoTier, None, {**values_of(_SCENARIO, values), "mechanism": NONE})
    figures = names_among(options.figures, FIGURES, "figure")
    curves = tuple(options.mechanisms.split(","))
    for curve in curves:
        name, epsilon = read_curve(curve)
        if name not in GUARANTEES:
            raise InputError(
                f"mechanism is {name!r}; choose some of {', '.join(GUARANTEES)}, with :epsilon if it has one"
            )
        if takes_epsilon(name) != (epsilon is not None):
            raise InputError(f"mechanism is {curve!r}; write {name}:5 if it has an epsilon, {name} if not")
    table = experiment.read_table(base)
    tell_remarks(table, console())
    scaled = [{"mechanism": curve} for curve in curves if needs_scale(curve.partition(":")[0])]
    for update in (scaled or [{}]) if SECOND in figures else [{"private": 0, "public": 2}]:
        experiment.world_of(base.model_copy(update=update), table)
    train = hold_out(table, held_out=base.holdout, like_from=None, seed=base.seed, purpose=TEST).train
    numbers = {"seeds": options.seeds, "users": train.users, "ratings": train.ratings, "every": options.every}
    grid = FiguresGrid(base=base, figures=figures, curves=curves, **numbers)
    return Study(
        content=grid.content(),
        key=TwoTierKey,
        units=grid.units,
        grows=True,  # with the settings that validation chooses
        result=grid.result,
        rows_in="summary",
        frame=grid.table,
        show=show,
    )


MEANINGS = {
    "summary": "a row for each point of the paper's figures",
    "figure": "number of the paper's figure",
    "curve": "curve of the figure",
    "gain": "share by which private devices lower the error",
    "base": "settings that all units share",
    "targets": "ratings that the attack guesses",
    "known": "ratings of a device that the attacker knows",
    "exact_right": "share of ratings that the attack guesses exactly",
    "flip_found": "share of releases whose flip the attack finds",
    "like_error": "standard error of like_right, by devices",
    "like_right": "share of ratings of which the attack guesses whether they are likes",
    "rated_auc": "how well the attack separates rated items from others, as an area under the curve",
}
KIND = Kind(
    meanings=MEANINGS,
    fields=TwoTierSweepOptions.model_fields | {name: TwoTier.model_fields[name] for name in _SCENARIO},
    read=two_tier,
    tables=("points.csv", "summary.csv"),
    help="""\
Figures: 1-left (uniform and weighted trace norm, users with most ratings first), 1-right (users with most ratings
against random ones at the same number of ratings), 2 (every mechanism, private devices batch by batch, and the paired
gain over public users only), attack (what a server that knows k ratings learns from one release; the first seed only).
Rank, regularisation and the weights of noisy releases are chosen for each seed on held-out public users.
""",
)
