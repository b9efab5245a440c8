"""The sweep of the two-tier model: the paper's figures over seeds, and the attack on releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.data.datasets import lines_skipped, tell_remarks
from scenarios.given.validation import validated
from scenarios.log import console
from scenarios.report.attack_tables import show_attack
from scenarios.report.records import versions
from scenarios.report.tables import interval, show_table
from scenarios.sweep.kind import Kind, Sweep
from scenarios.sweep.two_tier_plan import ASKED, SweepPlan, read_curve
from scenarios.sweep.two_tier_summary import points_of, summary_of
from scenarios.sweep.two_tier_units import FIGURES, SECOND, SETTINGS, Key, Measured, Unit, measure
from scenarios.two_tier.config import GUARANTEES, NONE, TwoTier, needs_scale, takes_epsilon
from scenarios.two_tier.experiment import read_table, world_of

HELP = """Draw the paper's figures over seeds: errors against public users, and against private devices that answer.

Figures: 1-left (uniform and weighted trace norm, users with most ratings first), 1-right (users with most ratings
against random ones at the same number of ratings), 2 (every mechanism, private devices batch by batch, and the paired
gain over public users only), attack (what one release tells a server that knows k ratings; the first seed only).
Rank, regularisation and the weights of noisy releases are chosen on held-out public users, a seed each.

Every finished unit is kept in the folder at once: Ctrl-C loses only what is under way, and the same command goes on.
At the end the folder holds result.json, points.csv (every seed), summary.csv, attack.csv and a picture a figure.
"""


@dataclass(frozen=True, slots=True)
class TwoTierSweep(Sweep[Key, Unit, Measured]):
    """Figures to be measured, or that were measured."""

    wanted: SweepPlan
    key, found, measure = Key, Measured, staticmethod(measure)
    table, tables = staticmethod(points_of), ("points.csv", "summary.csv")

    def units(self, done: Mapping[Key, Measured]) -> dict[Key, Unit]:
        """Return Figure 1's units, and Figure 2's as soon as their rank and kappa are chosen."""
        first = self.wanted.first()
        chosen = all(key in done for key in first if key.figure == SETTINGS)
        return {**first, **(self.wanted.second(done) if chosen else {})}

    def result(self, units: Mapping[Key, Measured]) -> dict[str, Any]:
        """Return every curve's points, means over seeds with intervals, and what was guessed."""
        points, base = points_of(units), self.wanted.base
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


class Told(BaseModel):
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
    told = validated(Told, None, {name: values.get(name) for name in Told.model_fields})
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
    fields={**Told.model_fields, **{name: TwoTier.model_fields[name] for name in _SCENARIO}},
    read=read,
)
