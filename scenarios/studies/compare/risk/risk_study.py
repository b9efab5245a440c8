"""A study of risk: a unit for each row of a comparison, and the table in which it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.backends.session import stop_if_abandoned
from scenarios.config.settings import validated
from scenarios.data.datasets import lines_skipped
from scenarios.show.tables import remark, show_table
from scenarios.studies.answer import ALWAYS, RISK, RUNGS, VOLUNTEERS, Answer
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.design_rows import require_rows
from scenarios.studies.compare.risk.histories import MOST_PEOPLE, OTHERS, Histories
from scenarios.studies.compare.risk.views import row_risk
from scenarios.studies.compare.row import Row as ComparedRow
from scenarios.studies.compare.row import is_promise
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.scales import epsilons_of
from scenarios.studies.compare.scoring import CompareKey, CompareMeasurement, rows_of
from scenarios.studies.compare.summary import FEATURES
from scenarios.studies.compare.worlds import table_of
from scenarios.studies.rates import MARKS, GameRate, Rate, ViewRisk, per_hundred
from scenarios.studies.study import Row, Study, Values

LADDER = (CURATOR, TWO_SERVERS, SHUFFLED, LOCAL)
SIZE = 200, 2
"""People who are attacked, and others whom each is told from, of a comparison's leaders: in seconds a row."""
FEWEST = 20  # People of a file; of fewer no decile can be said
FEWEST_ITEMS = 3  # No question of a device is about fewer
BELOW = {"by law": "  others by law", "lies": "  if it lies"}
"""What stands under "who is trusted" for views of a row beside the first."""


class RiskKey(NamedTuple):
    """A unit's name."""

    trust_model: str
    mechanism: str
    epsilon: str
    users: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskMeasurement:
    """What the best attacks on a row reach."""

    views: tuple[ViewRisk, ...]
    seconds: float


@one_thread()
def measure(
    settings: Comparison, row: str, epsilon: str, users: int, size: tuple[int, int] = (MOST_PEOPLE, OTHERS)
) -> RiskMeasurement:
    """Measure a row, in this process."""
    stop_if_abandoned()
    begin = time.perf_counter()
    views = row_risk(settings, rows_of(settings)[row], epsilon, users, size=size)
    return RiskMeasurement(views=views, seconds=time.perf_counter() - begin)


def measure_leader(settings: Comparison, key: CompareKey) -> CompareMeasurement:
    """Measure the risk of a row of a comparison, in this process."""
    risk = measure(settings, key.mechanism, key.epsilon, key.users, SIZE)
    return CompareMeasurement(scores=(), simulated=None, risks=risk.views, seconds=risk.seconds)


def risk_units(settings: Comparison, answer: Answer) -> Mapping[CompareKey, Callable[[], CompareMeasurement]]:
    """Return a unit for the row that leads each rung of a comparison with the people there are."""
    # Which are measured after all others, for the answer's table and page
    names = {float(Fraction(name)): name for name in epsilons_of(settings) if name != "inf"}
    keys = [
        CompareKey(
            RISK,
            f"{rung.key}: {rung.cell.mechanism.removesuffix(FEATURES)}",
            names[at.epsilon],
            answer.people,
            "",
            settings.seed,
        )
        for at in answer.by_epsilon
        for rung in at.rungs
        if rung.key != VOLUNTEERS and rung.cell is not None
    ]
    return {key: partial(measure_leader, settings, key) for key in dict.fromkeys(keys)}


Units = Mapping[RiskKey, RiskMeasurement]


def result_of(settings: Comparison, users: int, units: Units) -> Values:
    """Return a row for each view of each row, in the order of the answer."""
    table = table_of(settings)
    return {
        "ratings": settings.ratings.name,
        "people_in_file": table.users,
        "items": table.count,
        "users": users,
        "people_attacked": min(MOST_PEOPLE, _likers(settings)),
        "others_each": OTHERS,
        "delta": settings.delta_of(users),
        "neighbours": settings.relation,
        "rows": rows_of_views(units),
        **lines_skipped(settings, table),
        "remarks": list(table.remarks),
        "warnings": [],
    }


def _likers(settings: Comparison) -> int:
    """Return how many people like something."""
    return int(np.count_nonzero(Histories.of_table(table_of(settings), settings.liked_from).likes))


def rows_of_views(units: Units) -> list[Values]:
    """Return a row for each view of each row, in the order of the answer."""
    order = list(RUNGS)
    ordered = sorted(units.items(), key=lambda pair: (Fraction(pair[0].epsilon), order.index(pair[0].trust_model)))
    return [
        {
            **key._asdict(),
            "epsilon": float(parse_epsilon(key.epsilon) or 0),
            "view": view.view,
            "how": view.how,
            "delta": view.delta,
            "bound": view.bound,
            "worst": view.worst,
            **_flat("whose", view.whose),
            **_flat("like", view.like),
        }
        for key, unit in ordered
        for view in unit.views
    ]


def answer_frame(result: Row) -> pd.DataFrame:
    """Return the answer's table of every epsilon, one below the other."""
    rows = list[dict[str, float | str]]()
    names = (*COLUMNS[:4], "whose", "whose, one in ten", "like", "like, one in ten")
    for epsilon, lines in tables_of(result):
        rows += [{"epsilon": epsilon, **dict(zip(names, line, strict=False))} for line in lines]
    return pd.DataFrame(rows).fillna("")


def show(console: Console, result: Row, title: str) -> None:
    """Print the table of each epsilon, and how to read it."""
    remark(console, *result["remarks"])
    about = f"{result['users']:,} people, {result['items']:,} items"
    for epsilon, lines in tables_of(result):
        title = f"{result['ratings']}: right of 100 guesses; {about}; epsilon {epsilon:g}, delta {result['delta']:g}"
        title += " (0 where nobody is trusted)"
        show_table(console, COLUMNS, lines, title=title, words=COLUMNS[:2], compact=True)
    attacked, others = result["people_attacked"], result["others_each"]
    remark(
        console,
        f"Whose: which of two people's histories a message is of, for {attacked:,} people and {others} others "
        "each. Like: whether a person likes an item. A coin is right 50 times of 100. Each is the best test there "
        "is by what the rung lets out, whatever is known of all others; ± is the interval of 95 % over people. One "
        "in ten: of one person in ten it is right so often at least. Worst: of any two histories. At most: by "
        "epsilon and delta alone.",
        "* from above: others' reports are taken as revealed, or an attacker is told which likes were kept. ~ "
        "about, of an attacker who knows others by what people in the file are like. No number: only the bound is "
        "known.",
        "If a curator lies, or both servers collude, every rating lies open. Volunteers' ratings are public; of "
        "the others a guess is a coin, as they send nothing. A history asked m times: ratios multiply, see "
        "blindrec compose.",
    )


COLUMNS = ("who is trusted", "with", "at most", "worst", "whose", "one in ten", "like", "one in ten")


def is_attacked(row: ComparedRow, users: int, settings: Comparison) -> bool:
    """Return whether risk is about a row: of a rung with a guarantee to so many people, under noise."""
    return row.trust_model in LADDER and "epsilon" in row.asks and is_promise(row.delta(settings, users), users)


def tables_of(result: Mapping[str, Any]) -> list[tuple[float, list[list[str]]]]:
    """Return the lines of the table of each epsilon."""
    tables = dict[float, list[list[str]]]()
    for row in result["rows"]:
        tables.setdefault(row["epsilon"], []).append(_line(row))
    return list(tables.items())


def bound_text(bound: float) -> str:
    """Return a bound as times out of 100, rounded up, with enough digits to stay below 100.

    >>> bound_text(0.73106), bound_text(0.99961), bound_text(1.0)
    ('73.2', '99.97', 'always')
    """
    for digits in (1, 2, 3, 4):
        if (times := math.ceil(100 * bound * 10**digits)) < 10 ** (digits + 2):
            return f"{times / 10**digits:.{digits}f}"
    return ALWAYS


def _line(row: Mapping[str, Any]) -> list[str]:
    view = row["view"]
    names = [BELOW[view], ""] if view in BELOW else [RUNGS[row["trust_model"]].party, row["mechanism"]]
    bound = bound_text(row["bound"])
    if row["worst"] is None:
        return [*names, bound]
    games = ("whose", "whose_decile", "like", "like_decile")
    rates = [Rate(value=row[game], low=row[f"{game}_low"], high=row[f"{game}_high"]) for game in games]
    mark = MARKS.get(row["how"], "")
    # The bound's digits: of fewer what lies below it may look larger
    worst = f"{100 * row['worst']:.{max(1, len(bound.partition('.')[2]))}f}"
    return [*names, bound, worst, *(f"{per_hundred(rate)}{mark}" for rate in rates)]


def _flat(name: str, game: GameRate | None) -> dict[str, Any]:
    rates = {} if game is None else {name: game.mean, f"{name}_decile": game.decile}
    empty = {f"{part}{end}": None for part in (name, f"{name}_decile") for end in ("", "_low", "_high")}
    return empty | {
        f"{part}{end}": value
        for part, rate in rates.items()
        for end, value in (("", rate.value), ("_low", rate.low), ("_high", rate.high))
    }


def risk(values: Row) -> Study[RiskKey, RiskMeasurement]:
    """Check a study of risk; None stands for a default."""
    settings = validated(Comparison, None, {**values, "trust_models": values.get("trust_models") or LADDER})
    if outside := [model for model in settings.trust_models if model not in LADDER]:
        raise InputError(f"trust model {outside[0]} has no message to attack; choose among {', '.join(LADDER)}")
    names = {row.mechanism for row in registered_rows().values() if row.trust_model in LADDER}
    require_rows(settings, names)
    if None in settings.epsilon:
        raise InputError("epsilon is inf, where an attacker always guesses right; give finite ones")
    if (people := table_of(settings).users) < FEWEST:
        raise InputError(f"the file has {people} people; risk needs at least {FEWEST}")
    if (items := table_of(settings).count) < FEWEST_ITEMS:
        raise InputError(f"the file has {items} items; risk needs at least {FEWEST_ITEMS}")
    if (likers := _likers(settings)) < FEWEST:
        raise InputError(
            f"of the {people} people {likers} like something; risk needs at least {FEWEST}, lower or name --like-from"
        )
    users = settings.users_at(people, 1.0)
    attacked = [row for row in rows_of(settings).values() if is_attacked(row, users, settings)]
    units = {
        RiskKey(row.trust_model, row.mechanism, epsilon, users, settings.seed): partial(
            measure, settings, f"{row.trust_model}: {row.mechanism}", epsilon, users
        )
        for epsilon in epsilons_of(settings)
        for row in attacked
    }
    if not units:
        raise InputError(
            "none of these rows has a guarantee with this number of people; leave --delta out, or name others by "
            "--trust-models and --mechanisms"
        )
    return Study(
        content={**settings.content(), "sweep": "risk"},
        key=RiskKey,
        measurement=RiskMeasurement,
        units=lambda _: units,
        unit_seconds=10.0,
        result=partial(result_of, settings, users),
        family="risk",
        rows_in="rows",
        frame=lambda units: pd.DataFrame(rows_of_views(units)),
        in_words=lambda rows: f"{len(rows)} rows",
        answer=answer_frame,
        show=show,
    )
