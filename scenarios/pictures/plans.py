"""The picture of a plan: the users that each design needs, or the epsilon, beside the lower bound that binds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from scenarios.pictures.drawing import (
    BESIDE,
    CHANCE,
    LEAST,
    MEASURED,
    PREDICTED,
    PROVED,
    Mark,
    draw_rows,
    epsilon_told,
    known,
)
from scenarios.pictures.files import worth_of
from scenarios.pictures.picture import Picture
from scenarios.report.tables import SAFE, name_of, trust_of

_LOOKS = (CHANCE, BESIDE, LEAST, PROVED)
"""Marks of what is never recommended, one a trust model."""


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield what each design of a plan needs: users, or, where these were given, epsilon."""
    sought = {row["users_here"] for row in record["designs"]} != {None} and _differ(record)
    of, words = ("epsilon", "epsilon needed [nats]") if sought else ("users", "users needed")
    marks = known(marks_of(record, of))
    bound = next((row for row in record["bounds"] if row["binds"] and not sought), None)
    line = bound and (f"lower bound, any epsilon-LDP learner ({bound['name']})", bound["users"])
    spent = "" if sought else f", {epsilon_told(_asked(record))}"
    title = f"{record['target']}: N = {record['items']:,}, w = {record['rated']:,}{spent}"
    alt = "What each design needs on a logarithmic axis, by whom one has to trust; the recommended one is marked."
    if not marks:
        marks, alt = [Mark("no design at all", "", math.nan)], "Nothing: no design reaches what was asked for."
    draw = partial(draw_rows, marks=marks, title=title, words=words, logarithmic=True, line=line)
    yield Picture("needs", "What each design needs", alt, draw)
    yield from worth_of(record)


def marks_of(plan: Mapping[str, Any], of: str) -> list[Mark]:
    """Return what each design of a plan needs, ``"users"`` or ``"epsilon"``, with the interval of simulated ones."""
    others = dict.fromkeys(trust_of(row) for row in plan["designs"] if trust_of(row) != SAFE)
    looks = {SAFE: MEASURED, **dict(zip(others, _LOOKS, strict=False))}
    marks = []
    for row in plan["designs"]:
        best, trust = row == plan["recommended"], trust_of(row)
        spread = (row.get("users_low"), row.get("users_high")) if of == "users" else (None, None)
        told, look = (f"recommended: {trust}", PREDICTED) if best else (trust, looks[trust])
        marks.append(Mark(name_of(row), told, row[of], look, *spread))
    return marks


def _asked(plan: Mapping[str, Any]) -> float | str:
    """Return the epsilon of designs that spend any."""
    found: float | str = next(row["epsilon"] for row in plan["designs"] if row["private"])
    return found


def _differ(plan: Mapping[str, Any]) -> bool:
    """Return whether epsilon was sought, so that designs differ in it."""
    return len({str(row["epsilon"]) for row in plan["designs"] if row["private"]}) > 1
