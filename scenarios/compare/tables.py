"""A comparison on a terminal: a table for each trust model, 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console

from scenarios.report.tables import interval_of, percent, remark, show_table, whole

_TITLES = {
    "none": "no privacy: whoever learns has all ratings",
    "curator": "a trusted curator publishes noisy totals",
    "two-tier": "some people's ratings are public; the others are evaluated",
    "local": "a device answers one question under its whole epsilon",
}
WITH = "+ features"


def show(console: Console, result: Mapping[str, Any], title: str) -> None:
    """Print what was measured, a table for each trust model."""
    told = f"{result['people_in_file']:,} people, {result['items']:,} items, split {result['split_by']}"
    remark(console, f"{title}: {result['ratings']}, {told}")
    for model, rows in groupby(result["rows"], key=lambda row: str(row["trust_model"])):
        listed = list(rows)
        if any(row["epsilon"] is not None and row["public"] is None for row in listed):
            _by_people(console, listed, f"{model}: {_TITLES[model]}; NDCG by people")
        else:
            _one_by_one(console, listed, f"{model}: {_TITLES[model]}")
    reached = [row for row in result["people"] if row["users"] and not row["features"]]
    if reached:
        _people(console, reached)
    remark(console, *result["remarks"], "intervals are of 95 %, over seeds and people")


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['mechanism']} {WITH if row['features'] else ''}".strip()


def _epsilon(value: Any) -> str:
    return "" if value is None else str(value) if isinstance(value, str) else f"{value:g}"


def _one_by_one(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    columns = ("mechanism", "public", "NDCG", "95 %", "hit rate", "recall", "catalogue")
    cells = [
        [
            f"{_name(row)}{', epsilon ' + _epsilon(row['epsilon']) if row['epsilon'] else ''}",
            percent(row["public"]),
            _three(row["ndcg"]),
            interval_of(row, "ndcg", _three),
            _three(row["hit_rate"]),
            _three(row["recall"]),
            percent(row["coverage"]),
        ]
        for row in rows
    ]
    kept = [place for place, name in enumerate(columns) if name != "public" or any(row["public"] for row in rows)]
    show_table(
        console,
        [columns[place] for place in kept],
        [[row[place] for place in kept] for row in cells],
        title=title,
        words=("mechanism",),
    )


def _by_people(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print NDCG, a line for each mechanism and epsilon, and a column for each number of people."""
    users = sorted({row["users"] for row in rows})
    columns = ("mechanism", "epsilon", *(f"{count:,}" for count in users))
    show_table(console, columns, list(_lines(rows, users))[:-1], title=title, words=("mechanism",), names=2)
    drawn = sorted({row["users"] for row in rows if row["simulated"] == "aggregate"})
    if drawn:
        remark(console, f"from {drawn[0]:,} people on the sum of their answers was drawn from its law")


def _lines(rows: Sequence[Mapping[str, Any]], users: Sequence[int]) -> Iterator[list[str] | None]:
    for name in dict.fromkeys(map(_name, rows)):
        mine = [row for row in rows if _name(row) == name]
        for epsilon in dict.fromkeys(row["epsilon"] for row in mine):
            by_users = {row["users"]: row for row in mine if row["epsilon"] == epsilon}
            yield [name, _epsilon(epsilon), *(_cell(by_users.get(count)) for count in users)]
        yield None


def _cell(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else f"{_three(row['ndcg'])} ±{(row['ndcg_high'] - row['ndcg_low']) / 2:.3f}"


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
    title = "people for 95 % of plain popularity, at each epsilon; interpolated"
    show_table(console, ("mechanism", *map(_epsilon, epsilons)), lines, title=title, words=("mechanism",))


def _needed(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else f"{'< ' if row['at_most'] else ''}{whole(row['users'])}"
