"""A comparison as a sweep: its units, their summary, and how both are shown."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from rich.console import Console

from coordinator.protocol.budget import default_delta
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import PUBLIC_RATES
from scenarios.config.settings import validated
from scenarios.data.datasets import lines_skipped
from scenarios.show.tables import percent, remark
from scenarios.studies.answer import Answer, answer_frame, show_answer
from scenarios.studies.compare.comparison_settings import COORDINATOR, Comparison
from scenarios.studies.compare.design_rows import check_designs, require_rows
from scenarios.studies.compare.people_groups import check_columns, people_remarks
from scenarios.studies.compare.risk.risk_study import risk_units
from scenarios.studies.compare.row import Row as ComparedRow
from scenarios.studies.compare.row import is_promise
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rungs import answer_of, why_no_answer
from scenarios.studies.compare.scales import epsilons_of, further_units
from scenarios.studies.compare.scoring import (
    SERVED,
    TOP,
    CompareKey,
    CompareMeasurement,
    measure,
    panel_sweep,
    rows_of,
    served_in,
    show_panel,
)
from scenarios.studies.compare.summary import show, summarize
from scenarios.studies.compare.worlds import (
    check_split,
    dated,
    feature_remarks,
    left_out,
    sampled,
    split_remarks,
    table_of,
)
from scenarios.studies.study import Measure, Row, Study, Values
from scenarios.studies.sweep.online_clients import ClientsKey

FEWEST_COMPARED = 20  # People of a file; of fewer a fifth of the likes is a handful, and one person most of it
LONG = ("trace norm", "EASE", "PMC", "PMD")
"""Mechanisms whose units take longest; of the first the others take what public people's ratings say."""


Units = Mapping[CompareKey, CompareMeasurement]


def show_comparison(console: Console, result: Row, title: str) -> None:
    """Print the answer, and where the rest lies; all rows where there is none."""
    if result["answer"] is None:
        show_rows(console, result, title)
        return
    remark(console, *result["about_file"], *result["about_answer"], *result["warnings"])
    page = "A page: --out FOLDER, then blindrec report FOLDER"
    more = f"All {len(result['rows'])} rows: --details, or --json FILE. {page}"
    show_answer(console, Answer.model_validate(result["answer"]), more)


def show_rows(console: Console, result: Row, title: str) -> None:
    """Print a table for each trust model, and the coordinator's panel."""
    show(console, result, title)
    if result["coordinator"] is not None:
        show_panel(console, result["coordinator"])


def units_of(settings: Comparison, done: Units, *, risk: bool) -> Mapping[CompareKey, Measure[CompareMeasurement]]:
    """Return every unit, and where a grid of numbers of people is done, those that locate the number for the target."""
    table = table_of(settings)
    rows = [row for row in rows_of(settings).values() if row.fits(table)]
    seeds = range(settings.seed, settings.seed + settings.seeds)
    served, _ = served_in(settings)
    keys = [
        key
        for seed in seeds
        for key in (
            *(key for row in rows for key in _keys(settings, row, table.users, seed)),
            *(CompareKey(COORDINATOR, name, "", table.users, "", seed) for name in served),
        )
    ]
    every = {key: partial(measure, settings, key) for key in keys}
    without_devices = settings.model_copy(
        update={"devices": 0}
    )  # sums that have a law are drawn, in a tenth of a second
    why_not = why_no_answer(settings, done, table)  # then more people are nobody's question
    further = {} if why_not and not settings.scale else further_units(settings, table.users, rows, done)
    more = sorted(further.items(), key=lambda pair: pair[0].seed)
    units: dict[CompareKey, Measure[CompareMeasurement]] = dict(every)
    for key, by_law in more:
        units.setdefault(key, partial(measure, without_devices if by_law else settings, key))
    if risk and why_not is None and all(key in done for key in units):
        answer = answer_of(settings, done, table)
        units |= {} if answer is None else risk_units(settings, answer)
    return units


def urgency(key: CompareKey) -> tuple[int, int, float]:
    """Return by what units are sorted: seed by seed, the long ones first, so that processors end together."""
    return key.seed, LONG.index(key.mechanism) if key.mechanism in LONG else len(LONG), -float(key.public or 0)


def units_frame(units: Units) -> pd.DataFrame:
    """Return what every unit measured, one row each with features and without."""
    names = ("features", "hit_rate", "ndcg", "recall", "coverage", "people")
    return pd.DataFrame(
        [
            {**key._asdict(), **{name: getattr(scores, name) for name in names}, "seconds": unit.seconds}
            for key, unit in units.items()
            for scores in unit.scores
        ]
    )


def result_of(settings: Comparison, units: Units) -> Values:
    """Return every row with its intervals, and their summary."""
    table, hindered = table_of(settings), hindrances(units)
    units = {key: unit for key, unit in units.items() if key[:-1] not in hindered}
    if hindered and not units:
        raise InputError(next(iter(hindered.values())))
    summary = summarize(settings, units, table)
    served = {
        ClientsKey(key.mechanism, key.seed): {"clients": unit.losses}
        for key, unit in units.items()
        if key.trust_model == COORDINATOR
    }
    rows = rows_of(settings)
    said = {name: row.remarks(settings) for name, row in rows.items()}
    public = [line for name, lines in said.items() if rows[name].trust_model == PUBLIC_RATES for line in lines]
    custom, (_, why) = check_designs(settings, table.users, table.count), served_in(settings)
    why_not = why_no_answer(settings, units, table)
    answer = answer_of(settings, units, table) if why_not is None else None
    no_advice = [f"{why_not}: this is no advice"] if why_not else []
    about_file = [*table.remarks, *dated(settings), *sampled(settings), *split_remarks(settings)]
    joined = [*feature_remarks(settings), *people_remarks(settings)]
    hindering = {name: reason for name, row in rows.items() if (reason := row.hindrance(table))}
    too_large = [f"{name}: not measured: {reason}" for name, reason in hindering.items()]
    not_possible = _left_out(hindered)
    return {
        "answer": None if answer is None else answer.model_dump(mode="json"),
        "about_file": about_file,
        "about_answer": [*joined, *too_large, *not_possible, *custom],
        **summary,
        "coordinator": panel_sweep(settings).summary(served) if served else None,
        **lines_skipped(settings, table),
        **left_out(settings),
        "warnings": [*summary["warnings"], *no_advice, *public],
        "remarks": [
            *about_file,
            *summary["remarks"],
            *too_large,
            *no_advice,
            *not_possible,
            *(line for lines in said.values() for line in lines),
            *custom,
            *([why] if why else []),
            *joined,
        ],
    }


def hindrances(units: Mapping[CompareKey, CompareMeasurement]) -> dict[tuple[Any, ...], str]:
    """Return the rows that cannot be computed in some split, by their keys without seeds, and why."""
    return {key[:-1]: unit.hindrance for key, unit in units.items() if unit.hindrance}


def _left_out(hindered: Mapping[tuple[Any, ...], str]) -> list[str]:
    """Say which rows are left out, and why."""
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for (model, mechanism, epsilon, _, public), why in hindered.items():
        at = f" at epsilon {epsilon}" if epsilon else ""
        at += f" ({percent(float(public))} public)" if public else ""
        names[why][f"{model}: {mechanism}{at}"] = None
    return [f"{', '.join(of)}: not measured: {why}" for why, of in names.items()]


def _keys(settings: Comparison, row: ComparedRow, people: int, seed: int) -> Iterator[CompareKey]:
    """Yield the units of a row for a seed."""
    epsilons = epsilons_of(settings) if "epsilon" in row.asks else [""]
    numbers = settings.grid(people) if "scale" in row.asks else [people]
    shares = [f"{share:g}" for share in settings.public] if "public" in row.asks else [""]
    for epsilon in epsilons:
        for users in (number for number in numbers if row.reaches(number, settings)):
            for share in shares:
                yield CompareKey(row.trust_model, row.mechanism, epsilon, users, share, seed)


def comparison(values: Row, *, risk: bool = True) -> Study[CompareKey, CompareMeasurement]:
    """Check what is to be compared; None stands for a default.

    ``risk``: whether the risk of the rows that lead rungs is measured, too.
    """
    settings = validated(Comparison, None, dict(values))
    names = {row.mechanism for row in registered_rows().values()} | set(SERVED)
    require_rows(settings, names)
    if (people := table_of(settings).users) < FEWEST_COMPARED:
        count = f"{people} {'person' if people == 1 else 'people'}"
        raise InputError(f"the file has {count}; a comparison needs at least {FEWEST_COMPARED}")
    if table_of(settings).count <= 2 * TOP:
        raise InputError(
            f"the file has {table_of(settings).count} items; lists of ten say something among more than 20"
        )
    check_split(settings)
    check_columns(settings)
    check_designs(settings, table_of(settings).users, table_of(settings).count)
    fewest = min(settings.grid(table_of(settings).users))
    if settings.delta is not None and not is_promise(settings.delta, fewest):
        raise InputError(
            f"delta is {settings.delta:g}; with {fewest:,} people it must be at most 1 / people, {1 / fewest:.2g}: a "
            f"larger one would allow that all of one person's data are published; give --delta "
            f"{default_delta(fewest):g}, or 0"
        )
    served, why = served_in(settings)
    if settings.delta == 0 and not (rows_of(settings) or served) and why is None:
        raise InputError(
            "delta is 0, where none of these rows has a guarantee: a shuffler and Gaussian noise need one "
            "above 0; leave --delta out, or name other trust models"
        )
    if not rows_of(settings) and why is not None:
        raise InputError(why)
    if not rows_of(settings) and not served:
        raise InputError("none of the mechanisms is of these trust models; name others, or leave one of them out")
    return Study(
        content=settings.content(),
        key=CompareKey,
        measurement=CompareMeasurement,
        units=lambda done: units_of(settings, done, risk=risk),
        grows=True,  # where the target lies between two numbers of people
        order=urgency,
        # What learns without noise takes ten times as long
        weight=lambda key: 10.0 if key.trust_model in ("none", PUBLIC_RATES) else 1.0,
        result=partial(result_of, settings),
        family="compare",
        rows_in="rows",
        frame=units_frame,
        in_words=lambda rows: f"{len(rows)} rows",
        answer=lambda result: None if result["answer"] is None else answer_frame(result),
        show=show_comparison,
        details=show_rows,
        settings=settings,
    )
