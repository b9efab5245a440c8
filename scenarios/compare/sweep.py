"""A comparison as a sweep: its units, what they say together, and how all that is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from coordinator.protocol.errors import InputError
from scenarios.compare.measuring import Key, Measured, Unit, measure
from scenarios.compare.own import check_own, rows_of
from scenarios.compare.row import Row
from scenarios.compare.rows import found
from scenarios.compare.scoring import TOP
from scenarios.compare.settings import Comparison
from scenarios.compare.summary import points_of, summarize
from scenarios.compare.tables import show
from scenarios.compare.worlds import table_of
from scenarios.given.validation import validated
from scenarios.sweep.kind import Figures, Sweep


@dataclass(frozen=True, slots=True)
class CompareSweep(Sweep[Key, Unit, Measured]):
    """A comparison to be measured, or that was measured."""

    wanted: Comparison
    key, found, measure = Key, Measured, staticmethod(measure)
    show = staticmethod(show)

    def units(self, done: Mapping[Key, Measured]) -> dict[Key, Unit]:  # noqa: ARG002 (all are known beforehand)
        """Return every unit, seed by seed, so that an unfinished comparison tells something of all rows."""
        wanted, table = self.wanted, table_of(self.wanted)
        rows = [row for row in rows_of(wanted).values() if row.fits(table)]
        seeds = range(wanted.seed, wanted.seed + wanted.seeds)
        keys = [key for seed in seeds for row in rows for key in _keys(wanted, row, table.users, seed)]
        return {key: Unit(wanted=wanted, key=key) for key in keys}

    def told(self, rows: pd.DataFrame) -> str:
        """Return how many rows there are."""
        return f"{len(rows)} rows"

    def table(self, units: Mapping[Key, Measured]) -> pd.DataFrame:
        """Return what every unit measured, one row each with features and without."""
        names = ("features", "hit_rate", "ndcg", "recall", "coverage", "people")
        return pd.DataFrame(
            [
                {**key._asdict(), **{name: getattr(one, name) for name in names}, "seconds": unit.seconds}
                for key, unit in units.items()
                for one in unit.scores
            ]
        )

    def result(self, units: Mapping[Key, Measured]) -> dict[str, Any]:
        """Return every row with its intervals, and what they say together."""
        table = table_of(self.wanted)
        told = summarize(self.wanted, units, table)
        return {**told, "remarks": [*told["remarks"], *check_own(self.wanted, table.users, table.count)]}

    def rows(self, result: Mapping[str, Any], /) -> pd.DataFrame:
        """Return the rows as a table."""
        return pd.DataFrame(result["rows"])

    def figures(self, units: Mapping[Key, Measured], result: Mapping[str, Any]) -> Figures:  # noqa: ARG002 (as others)
        """Yield NDCG against people."""
        from scenarios.compare.figure import draw_worth  # noqa: PLC0415 (plotting, where something is drawn)

        points = points_of(result)
        yield "figure", points, partial(draw_worth, result, points)


def _keys(wanted: Comparison, row: Row, people: int, seed: int) -> Iterator[Key]:
    """Yield the units of a row for a seed."""
    epsilons = ["inf" if one is None else str(one) for one in wanted.epsilon] if "epsilon" in row.asks else [""]
    scales = wanted.scale if "scale" in row.asks else (1,)
    shares = [f"{share:g}" for share in wanted.public] if "public" in row.asks else [""]
    for epsilon in epsilons:
        for scale in (one for one in scales if row.reaches(people * one, wanted)):
            for share in shares:
                yield Key(row.trust_model, row.mechanism, epsilon, people * scale, share, seed)


def comparison(values: Mapping[str, Any]) -> CompareSweep:
    """Check what is to be compared; None stands for a default.

    Raises
    ------
    InputError
        One line that names the value and the remedy.
    """
    wanted = validated(Comparison, None, dict(values))
    known = {row.mechanism for row in found().values()}
    for name in wanted.mechanisms or ():
        if name not in known:
            raise InputError(f"mechanism {name!r} is unknown; choose among {', '.join(sorted(known))}")
    if table_of(wanted).count <= 2 * TOP:
        raise InputError(f"the file has {table_of(wanted).count} items; lists of ten say something among more than 20")
    check_own(wanted, table_of(wanted).users, table_of(wanted).count)
    if not rows_of(wanted):
        raise InputError("none of the mechanisms is of these trust models; name others, or leave one of them out")
    return CompareSweep(wanted)
