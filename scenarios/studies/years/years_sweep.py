"""A study of years as a sweep: its units, the people that each schedule takes on each rung, the answer, the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from coordinator.protocol.composition import PERSON_HISTORY
from coordinator.protocol.errors import InputError
from coordinator.protocol.schedule import MEMOIZE
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TRUST
from scenarios.config.accounts import MEMOIZED
from scenarios.config.settings import validated
from scenarios.data.datasets import lines_skipped
from scenarios.show.tables import remark, short, show_table
from scenarios.studies.answer import RUNGS, Answer, AnswerInputs, Curve, answer_frame, share_text, show_answer
from scenarios.studies.answer import MeasuredWorth as Worth
from scenarios.studies.crossing import among_files, people_for
from scenarios.studies.scrutiny.composing import composed
from scenarios.studies.study import Measure, Row, Study
from scenarios.studies.years.curves import (
    Done,
    MeasuredYears,
    ScheduleCurve,
    curves_of,
    references_of,
    samples_of,
)
from scenarios.studies.years.file_periods import file_periods, table_of
from scenarios.studies.years.measuring import ALONE, YearsKey, YearsMeasurement, measure
from scenarios.studies.years.years_settings import PERIODS, Years

PEOPLE = 100_000  # Of a made world, where nobody says how many
FEWEST = 100  # People of a file; of fewer nothing can be said of people like them
DISCOUNTS = (0.9, 0.5, 0.3, 0.0)  # By which likes count less a period later, beside popularity, of which they do not
NEVER = "never"


@dataclass(frozen=True, slots=True)
class YearsGrid:
    """Schedules on all rungs."""

    settings: Years
    people: int  # Those that there are
    periods: int  # Under one budget
    items: int

    def units(self, done: Done) -> Mapping[YearsKey, Measure[YearsMeasurement]]:
        """Return the units that are known to be needed: numbers of people follow from those that are done."""
        people, periods = self.people, self.periods
        keys = [key for curve in references_of(self.settings, people, periods) for key in curve.keys(0)]
        for curve in curves_of(self.settings, people, periods):
            keys += [key for users in curve.numbers(done) for key in curve.keys(users)]
        return {key: partial(measure, self.settings, key) for key in dict.fromkeys(keys)}

    def result(self, units: Mapping[YearsKey, YearsMeasurement]) -> dict[str, Any]:
        """Return a row each schedule and rung, and the answer."""
        settings, people, periods = self.settings, self.people, self.periods
        curves = curves_of(settings, people, periods)
        measured = {(curve.trust_model, curve.schedule): curve.every(units) for curve in curves}
        located = {names: self._located(names[0], of) for names, of in measured.items()}
        once = {rung: located[rung, ALONE]["users"] for rung in settings.trust_models}
        references = {curve.schedule: curve for curve in references_of(settings, people, periods)}
        noiseless = {name: curve.measured(units, 0) for name, curve in references.items()}
        rows = [
            self._row(curve, measured[curve.trust_model, curve.schedule], located, noiseless, once)
            for curve in curves
            if curve.schedule != ALONE
        ]
        world = {} if settings.ratings is None else self._of_file()
        popular = measured[settings.ways[0]][people]
        order = list(RUNGS)
        rows.sort(key=lambda row: order.index(row["trust_model"]))
        year = {rung: self._composed(rung, once[rung] or people) for rung in settings.trust_models}
        return {
            "answer": self._answer(rows, measured, popular).model_dump(mode="json"),
            "unit": PERSON_HISTORY,
            "epsilon": float(settings.epsilon),
            "periods": periods,
            "people": people,
            "worth": settings.worth,
            **({} if settings.ratings else {name: getattr(settings, name) for name in ("drift", "item_arrivals")}),
            "renewal": float(settings.renewal),
            "epsilon_of_all": year,
            "popularity": popular.popularity_by_period,
            **world,
            "rows": rows,
            "remarks": self._remarks(),
            "warnings": [MEMOIZED] if MEMOIZE in settings.schedules else [],
        }

    def _located(self, rung: str, measured: Mapping[int, MeasuredYears]) -> dict[str, Any]:
        """Return how many people reach the target; nothing where none was sought."""
        unknown = {"users": None, "users_low": None, "users_high": None}
        if len(measured) < 2:
            return unknown
        heights = samples_of(measured)
        top = np.ones((1, next(iter(heights.values())).shape[1]))
        needed = people_for(heights, top, self.settings.worth, self._file_error(rung))
        return unknown if needed["at_most"] else {name: needed[name] for name in unknown}

    def _file_error(self, rung: str) -> float:
        if self.settings.ratings is None:
            return 0.0
        file = file_periods(self.settings)
        counts = np.bincount(file.rated[file.liked], minlength=file.items).astype(np.float64)
        return among_files(counts, file.people, TRUST[rung].power or 1)

    def _row(
        self,
        curve: ScheduleCurve,
        measured: Mapping[int, MeasuredYears],
        located: Mapping[tuple[str, str], Mapping[str, Any]],
        noiseless: Mapping[str, MeasuredYears | None],
        once: Mapping[str, int | None],
    ) -> dict[str, Any]:
        there, limit = measured[curve.people], noiseless[curve.schedule]
        needed = located[curve.trust_model, curve.schedule]
        worth = Worth.of(there.shares[None])
        return {
            "trust_model": curve.trust_model,
            "schedule": curve.schedule,
            "epsilon_horizon": None if curve.schedule == MEMOIZE else float(self.settings.epsilon),
            "delta": 0.0 if curve.trust_model == LOCAL else self.settings.delta_of(curve.people),
            "unit": PERSON_HISTORY,
            "periods": curve.periods,
            "users_needed": needed["users"],
            "users_low": needed["users_low"],
            "users_high": needed["users_high"],
            "users_once": once[curve.trust_model],
            "users": curve.people,
            "of_popularity": round(worth.value, 6),
            "of_popularity_low": round(worth.low, 6),
            "of_popularity_high": round(worth.high, 6),
            "of_popularity_without_noise": None if limit is None else round(limit.share, 6),
            "epsilon_local": there.epsilon_local,
            "ndcg": there.by_period,
        }

    def _answer(
        self,
        rows: Sequence[Mapping[str, Any]],
        measured: Mapping[tuple[str, str], Mapping[int, MeasuredYears]],
        popular: MeasuredYears,
    ) -> Answer:
        """Return the answer: of each rung the schedule that takes the fewest people, else that is worth most."""
        settings, people = self.settings, self.people
        base = popular.popularity.mean()
        if popular.units[0].pooled_popularity:
            base = popular.units[0].pooled_popularity[0]
        leaders = dict[str, tuple[tuple[float, float], Mapping[str, Any]]]()
        for row in rows:
            if row["epsilon_horizon"] is None:  # which is best at no promise
                continue
            rank = row["users_needed"] or np.inf, -row["of_popularity"]
            if rank < leaders.get(row["trust_model"], (rank, row))[0] or row["trust_model"] not in leaders:
                leaders[row["trust_model"]] = rank, row
        curves = []
        for rung, (_, row) in leaders.items():
            of = measured[rung, row["schedule"]]
            curves.append(
                Curve(
                    rung=rung,
                    mechanism=row["schedule"],
                    epsilon=float(settings.epsilon),
                    worth={users: base * shares.shares[None] for users, shares in of.items()},
                    delta={users: 0.0 if rung == LOCAL else settings.delta_of(users) for users in of},
                    device_epsilon={users: shares.epsilon_local for users, shares in of.items()},
                )
            )
        plain = np.full((1, next(iter(curves[0].worth.values())).shape[1]), base)
        study = AnswerInputs(
            file="a made world" if settings.ratings is None else settings.ratings.name,
            people=people,
            items=self.items,
            curves=curves,
            best=plain,
            best_name="popularity",
            popularity=plain,
            file_error={curve.rung: self._file_error(curve.rung) for curve in curves},
            periods=self.periods,
            sampling=(len(popular.ndcg), "worlds" if settings.ratings is None else "draws"),
        )
        return study.answer(share=settings.worth, of="popularity")

    def _composed(self, rung: str, users: int) -> float:
        """Return epsilon of all periods where each has the whole one, exactly."""
        settings = self.settings
        shape = {"users": users, "items": self.items, "rated": min(settings.likes, self.items)}
        more: dict[str, Any] = shape if rung == SHUFFLED else {}
        delta = 0.0 if rung == LOCAL else settings.delta_of(users)
        year = composed(settings.epsilon, self.periods, rung, delta=delta, **more)
        return round(year.epsilon_horizon, 4)

    def _of_file(self) -> dict[str, Any]:
        file = file_periods(self.settings)
        weights = np.array([file.evaluated(period)[0] for period in range(1, file.scored + 1)])

        def pooled(by: float) -> float:
            return round(float(np.average(file.discounted(by)[:, 0, 0], weights=weights)), 6)

        return {
            "ratings": self.settings.ratings.name if self.settings.ratings else None,
            "labels": list(file.labels),
            "people_in_file": file.people,
            "items": file.items,
            "arrivals": np.bincount(file.arrivals - 1, minlength=file.periods).tolist(),
            "discounts": {f"{by:g}": pooled(by) for by in (1.0, *DISCOUNTS)},
            **lines_skipped(self.settings, table_of(self.settings)),
        }

    def _remarks(self) -> list[str]:
        settings = self.settings
        if settings.ratings is None:
            walk = f"log odds of items walk by {settings.drift:g} a period"
            items, people = f"{100 * settings.item_arrivals:g} % of items", f"{100 * settings.churn:g} % of people"
            return [f"made world: {walk}, {items} and {people} are replaced; worth is that of the worst period"]
        file = file_periods(settings)
        line = (
            f"{file.periods} periods, {file.labels[0]} to {file.labels[-1]}; a person and an item are there from their "
            "first rating on, which is taken as public, and nobody leaves; worth is that of all lists together, for "
            "likes of the next period"
        )
        return [*table_of(settings).remarks, line]


def units_frame(units: Done) -> pd.DataFrame:
    """Return what every unit measured, one row each."""
    rows = [
        {**key._asdict(), **{name: float(np.mean(getattr(unit, name))) for name in ("ndcg", "popularity", "seconds")}}
        for key, unit in units.items()
    ]
    return pd.DataFrame(rows)


def show(console: Console, result: Row, _: str) -> None:
    """Print the answer, and people that every schedule takes."""
    answer = Answer.model_validate(result["answer"])
    remark(console, *result["remarks"])
    show_answer(console, answer)
    show_schedules(console, result)
    remark(
        console,
        *result["warnings"],
        f"one period: all asked once, with the whole epsilon. Last column: the epsilon of all {result['periods']} "
        f"periods if each of them has epsilon {result['epsilon']:g} (person-period), composed exactly. Epsilon is "
        f"about one person's whole history ({result['unit']}).",
        "Intervals: --details. NDCG by period: --json FILE. A page: --out FOLDER, then blindrec report FOLDER",
    )


def show_schedules(console: Console, result: Row) -> None:
    """Print the people that each schedule takes on each rung."""
    schedules = list(dict.fromkeys(row["schedule"] for row in result["rows"]))
    named = [f"{name}, no epsilon" if name == MEMOIZE else name for name in schedules]
    columns = ["who is trusted", "one period", *named, f"epsilon {result['epsilon']:g} a period"]
    lines = []
    for rung in dict.fromkeys(row["trust_model"] for row in result["rows"]):
        of = {row["schedule"]: row for row in result["rows"] if row["trust_model"] == rung}
        once = next(iter(of.values()))["users_once"]
        cells = [needed_text(of[name], result["worth"]) if name in of else "" for name in schedules]
        fewest = "" if once is None else short(once)
        lines.append([RUNGS[rung].party, fewest or NEVER, *cells, f"{result['epsilon_of_all'][rung]:.2f}"])
    share, count = 100 * result["worth"], result["periods"]
    when = "over all periods" if result.get("ratings") else "in every period"
    title = f"people for {share:g} % of popularity {when}, epsilon {result['epsilon']:g} for all {count}"
    show_table(console, columns, lines, title=title, words=columns[:1], compact=True)


def show_details(console: Console, result: Row, _: str) -> None:
    """Print every schedule with its intervals."""
    columns = ["who is trusted", "schedule", "people needed", "95 %", "of popularity", "without noise"]
    lines = [
        [
            RUNGS[row["trust_model"]].party,
            row["schedule"],
            needed_text(row, result["worth"]),
            _ends(row),
            share_text(
                Worth(value=row["of_popularity"], low=row["of_popularity_low"], high=row["of_popularity_high"]),
                result["worth"],
            ),
            f"{100 * row['of_popularity_without_noise']:.0f} %",
        ]
        for row in result["rows"]
    ]
    show_table(console, columns, lines, title="every schedule", words=columns[:2], compact=True)


def needed_text(row: Mapping[str, Any], worth: float) -> str:
    """Return the people that a schedule takes; never where its lists without noise miss the target, too."""
    if row["users_needed"] is not None:
        return short(row["users_needed"])
    limit = row["of_popularity_without_noise"]
    return NEVER if limit is not None and limit < worth else "not known"


def _ends(row: Mapping[str, Any]) -> str:
    if row["users_needed"] is None:
        return ""
    low, high = (None if row[name] is None else short(row[name]) for name in ("users_low", "users_high"))
    return f"{low or '?'} to {high or '?'}"


def years(values: Row) -> Study[YearsKey, YearsMeasurement]:
    """Check a study of years; None stands for a default."""
    settings = validated(Years, None, dict(values))
    people, periods, items = settings.people or PEOPLE, settings.periods or PERIODS, settings.items
    if settings.ratings is not None:
        file = file_periods(settings)
        people, periods, items = settings.people or file.people, file.periods, file.items
        if file.people < FEWEST:
            raise InputError(
                f"the file has {file.people} people, and fewer than {FEWEST} say little of people like them"
            )
        if file.items <= 3 * settings.likes:
            raise InputError(
                f"likes is {settings.likes} of the file's {file.items} items; give at most a third of them"
            )
    grid = YearsGrid(settings, people, periods, items)
    return Study(
        content=settings.content(),
        key=YearsKey,
        measurement=YearsMeasurement,
        units=grid.units,
        grows=True,  # where the target lies between two numbers of people
        order=lambda key: key.trust_model != SHUFFLED,  # whose plans take longest
        weight=lambda key: 5.0 if key.trust_model == SHUFFLED else 1.0,
        seeds_of=lambda key: key.worlds,
        result=grid.result,
        family="years",
        rows_in="rows",
        frame=units_frame,
        in_words=lambda rows: f"{rows['users_needed'].notna().sum()} of {len(rows)} schedules reach the target",
        answer=lambda result: answer_frame(result).drop(columns="epsilon"),
        show=show,
        details=show_details,
    )
