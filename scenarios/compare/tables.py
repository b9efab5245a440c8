"""A comparison on a terminal: a table for each trust model, 80 columns wide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console

from scenarios.compare.row import AGGREGATE
from scenarios.report.tables import interval_of, percent, remark, short, show_table, whole

_TITLES = {
    "none": "no privacy: whoever learns has all ratings",
    "curator": "a trusted curator publishes noisy totals",
    "two-tier": "some people's ratings are public; the others are evaluated",
    "local": "a device answers one question under its whole epsilon",
    "public-rates": "as local, but totals of all ratings are public; not compared",
}
WITH = "+ features"


def show(console: Console, result: Mapping[str, Any], title: str) -> None:
    """Print what was measured, a table for each trust model."""
    told = f"{result['people_in_file']:,} people, {result['items']:,} items, split {result['split_by']}"
    remark(console, f"{title}: {result['ratings']}, {told}")
    for model, rows in groupby(result["rows"], key=lambda row: str(row["trust_model"])):
        listed = list(rows)
        if any(row["public"] for row in listed):
            _pivoted(console, listed, "public", percent, f"{model}: {_TITLES[model]}; NDCG by their share")
        elif any(row["epsilon"] is not None for row in listed):
            _pivoted(console, listed, "users", whole, f"{model}: {_TITLES[model]}; NDCG by people")
        else:
            _one_by_one(console, listed, f"{model}: {_TITLES[model]}")
    reached = [row for row in result["people"] if not row["features"]]
    if reached:
        _people(console, reached)
    remark(console, *result["remarks"], "intervals are of 95 %, over seeds and people")


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['mechanism']} {WITH if row['features'] else ''}".strip()


def _epsilon(value: Any) -> str:
    return "" if value is None else str(value) if isinstance(value, str) else f"{value:g}"


def _one_by_one(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    columns = ("mechanism", "NDCG", "95 %", "hit rate", "recall", "catalogue")
    cells = [
        [
            _name(row),
            _three(row["ndcg"]),
            interval_of(row, "ndcg", _three),
            _three(row["hit_rate"]),
            _three(row["recall"]),
            percent(row["coverage"]),
        ]
        for row in rows
    ]
    show_table(console, columns, cells, title=title, words=("mechanism",))


def _pivoted(
    console: Console, rows: Sequence[Mapping[str, Any]], across: str, write: Callable[[float], str], title: str
) -> None:
    """Print NDCG, a line for each mechanism and epsilon, and a column for each number or share of people."""
    values = sorted({row[across] for row in rows})
    columns = ("mechanism", "epsilon", *map(write, values))
    lines = list(_lines(rows, across, values))[:-1]
    show_table(console, columns, lines, title=title, words=("mechanism",), names=2)
    drawn = sorted({row["users"] for row in rows if row["simulated"] == AGGREGATE})
    if drawn:
        remark(console, f"from {drawn[0]:,} people on the sum of their answers was drawn from its law")


def _lines(rows: Sequence[Mapping[str, Any]], across: str, values: Sequence[float]) -> Iterator[list[str] | None]:
    for name in dict.fromkeys(map(_name, rows)):
        mine = [row for row in rows if _name(row) == name]
        for epsilon in dict.fromkeys(row["epsilon"] for row in mine):
            found = {row[across]: row for row in mine if row["epsilon"] == epsilon}
            yield [name, _epsilon(epsilon), *(_cell(found.get(value)) for value in values)]
        yield None


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    reach = (row["ndcg_high"] - row["ndcg_low"]) / 2
    return f"{_three(row['ndcg']).lstrip('0')}±{f'{reach:.2f}' if reach >= 0.01 else f'{reach:.3f}'}".replace("±0", "±")


def _three(value: float) -> str:
    return f"{value:.3f}"


def _people(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print how many people reach 95 % of plain popularity."""
    epsilons = list(dict.fromkeys(row["epsilon"] for row in rows))
    lines = []
    for model, mechanism in dict.fromkeys((row["trust_model"], row["mechanism"]) for row in rows):
        by_epsilon = {
            row["epsilon"]: row for row in rows if (row["trust_model"], row["mechanism"]) == (model, mechanism)
        }
        lines.append([f"{model}: {mechanism}", *(_needed(by_epsilon.get(epsilon)) for epsilon in epsilons)])
    title = "people for 95 % of plain popularity, at each epsilon, each with its interval"
    show_table(console, ("mechanism", *map(_epsilon, epsilons)), lines, title=title, words=("mechanism",))


def _needed(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else needed(row)


def needed(row: Mapping[str, Any]) -> str:
    """Return how many people are needed, with the interval; an end beyond what was measured is told by that.

    >>> row = {"users": 50_000, "users_low": 29_000, "users_high": None, "at_most": False, "least": 610, "most": 61_000}
    >>> needed(row), needed({**row, "users": 610, "at_most": True}), needed({**row, "users": None})
    ('50k [29k, > 61k]', '< 610', '> 61k')
    """
    if row["users"] is None or row["at_most"]:
        return f"> {short(row['most'])}" if row["users"] is None else f"< {short(row['users'])}"
    low, high = row["users_low"], row["users_high"]
    ends = (
        f"< {short(row['least'])}" if low is None else short(low),
        f"> {short(row['most'])}" if high is None else short(high),
    )
    return f"{short(row['users'])} [{', '.join(ends)}]"
