"""Users' own mechanisms in a comparison: each is a row of its own under the local trust model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from coordinator.protocol.errors import InputError
from scenarios.compare.row import Asked, Row
from scenarios.compare.rows import found
from scenarios.compare.rows.local import Local
from scenarios.compare.settings import Comparison
from scenarios.given.run_spec import RunSpec
from scenarios.own.halves import OwnSettings
from scenarios.own.identity import identity

SHOWN = 8
"""Digits of the digest of its source and settings that a row's name has: changed code is another row."""
ORDER = 1000


@cache
def _row(settings: OwnSettings) -> Local:
    mechanism, helpers = settings.mechanism(), settings.helpers
    name = f"{type(mechanism).__name__}@{identity(mechanism, helpers)[:SHOWN]}"
    return Local(name, ORDER, mechanism, None, lambda *_: {"helpers": helpers})


def own_rows(wanted: Comparison) -> Mapping[str, Local]:
    """Return the rows of users' own mechanisms, by name as `scenarios.compare.rows.found` has others."""
    return {f"{row.trust_model}: {row.mechanism}": row for row in map(_row, wanted.design)}


def rows_of(wanted: Comparison) -> Mapping[str, Row]:
    """Return all rows that are wanted, by name, in the order of tables."""
    named = {name: row for name, row in found().items() if wanted.includes(row.trust_model, row.mechanism)}
    return {**named, **own_rows(wanted)}


def check_own(wanted: Comparison, people: int, items: int) -> list[str]:
    """Check the channels of users' own mechanisms at every epsilon, before anything is measured."""
    told = []
    for settings, row in zip(wanted.design, own_rows(wanted).values(), strict=True):
        path, people_at_least = settings.half.name, people * wanted.scale[0]
        if row.trust_model not in wanted.trust_models:
            raise InputError(f"design is {path}, a row of trust model {row.trust_model}; add that to --trust-models")
        if not row.reaches(people_at_least, wanted):
            raise InputError(
                f"design is {path}, of which at most {wanted.devices} devices answer, because there is no law to draw "
                f"the sum of {people_at_least} answers from; raise --devices, or lower --scale"
            )
        hows = []
        for epsilon in wanted.epsilon:
            asked = Asked(wanted=wanted, epsilon=epsilon, users=people_at_least, public=0, seed=wanted.seed)
            if checked := RunSpec(row.scenario_of(items, asked)).own:
                hows.append(checked[1].how)
        values = "".join(f", {name} {value}" for name, value in settings.values().items())
        told.append(f"{row.mechanism} is {path}{values}; its channel was {' or '.join(dict.fromkeys(hows))}")
        if left := [f"{people * scale:,}" for scale in wanted.scale if not row.reaches(people * scale, wanted)]:
            told.append(
                f"{row.mechanism} is not measured with {', '.join(left)} people: it has no law to draw the sum of "
                f"their answers from, and at most {wanted.devices:,} devices answer; raise --devices"
            )
    return told
