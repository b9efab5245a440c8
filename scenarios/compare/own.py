"""Custom mechanisms in a comparison: each is one more row of the local trust model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from coordinator.protocol.errors import InputError
from scenarios.compare.row import Row, RowRequest
from scenarios.compare.rows import registered_rows
from scenarios.compare.rows.local import LocalRow
from scenarios.compare.settings import Comparison
from scenarios.given.run_spec import RunSpec
from scenarios.own.halves import OwnSettings
from scenarios.own.identity import identity

SHOWN = 8
"""Digits of the digest of source and settings that a row's name carries: changed code is another row."""
ORDER = 1000


@cache
def _row(own: OwnSettings) -> LocalRow:
    mechanism, helpers = own.mechanism(), own.helpers
    name = f"{type(mechanism).__name__}@{identity(mechanism, helpers)[:SHOWN]}"
    return LocalRow(name, ORDER, mechanism, None, lambda *_: {"helpers": helpers})


def own_rows(settings: Comparison) -> Mapping[str, LocalRow]:
    """Return the rows of custom mechanisms, by name as in `scenarios.compare.rows.registered_rows`."""
    return {f"{row.trust_model}: {row.mechanism}": row for row in map(_row, settings.design)}


def rows_of(settings: Comparison) -> Mapping[str, Row]:
    """Return all rows that are to be measured, by name, in the order of tables."""
    named = {name: row for name, row in registered_rows().items() if settings.includes(row.trust_model, row.mechanism)}
    return {**named, **own_rows(settings)}


def check_own(settings: Comparison, people: int, items: int) -> list[str]:
    """Check the channels of custom mechanisms at every epsilon, before anything is measured, and describe them."""
    remarks = []
    for own, row in zip(settings.design, own_rows(settings).values(), strict=True):
        path, people_at_least = own.half.name, people * settings.scale[0]
        if row.trust_model not in settings.trust_models:
            raise InputError(f"design is {path}, a row of trust model {row.trust_model}; add that to --trust-models")
        if not row.reaches(people_at_least, settings):
            raise InputError(
                f"design is {path}, of which at most {settings.devices} devices answer, as there is no law to draw "
                f"the sum of {people_at_least} answers from; raise --devices, or lower --scale"
            )
        hows = []
        for epsilon in settings.epsilon:
            request = RowRequest(
                settings=settings, epsilon=epsilon, users=people_at_least, public=0, seed=settings.seed
            )
            if checked := RunSpec(row.scenario_of(items, request)).own:
                hows.append(checked[1].how)
        values = "".join(f", {name} {value}" for name, value in own.values().items())
        remarks.append(f"{row.mechanism} is {path}{values}; its channel was {' or '.join(dict.fromkeys(hows))}")
        if left := [f"{people * scale:,}" for scale in settings.scale if not row.reaches(people * scale, settings)]:
            remarks.append(
                f"{row.mechanism} is not measured with {', '.join(left)} people: it has no law to draw the sum of "
                f"their answers from, and at most {settings.devices:,} devices answer; raise --devices"
            )
    return remarks
