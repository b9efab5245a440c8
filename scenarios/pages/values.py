"""Values of records that know where they stand, tables of them, and what a page says of one subject."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markupsafe import Markup

from coordinator.protocol.errors import InputError
from scenarios.report import tables

NOTHING = Markup("&ndash;")
"""What stands where a record says nothing."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A value of a JSON document, with its place."""

    value: Any  # A JSON value
    place: str  # The subject and the document, then the JSON pointer (RFC 6901): ``"1/result#/rows/0/ndcg"``

    def get(self, name: str | int) -> Traced | None:
        """Return what stands under a key or at a number; None where there is nothing, or null."""
        value = self.value
        if isinstance(value, Mapping):
            inner = value.get(name)
        else:
            inner = value[name] if isinstance(value, list) and isinstance(name, int) and name < len(value) else None
        key = str(name).replace("~", "~0").replace("/", "~1")
        return None if inner is None else Traced(inner, f"{self.place}/{key}")

    def items(self) -> Iterator[tuple[str, Traced]]:
        """Yield keys and what stands under them, but for null."""
        for name in self.value if isinstance(self.value, Mapping) else ():
            if (inner := self.get(name)) is not None:
                yield str(name), inner

    def rows(self) -> list[Traced]:
        """Return the rows of a table: the objects of a list, or nothing where this is none."""
        value = self.value if isinstance(self.value, list) else []
        return [one for place in range(len(value)) if (one := self.get(place)) and isinstance(one.value, Mapping)]

    def text(self) -> str:
        """Return the value as text."""
        return str(self.value)

    def number(self) -> float:
        """Return a number, infinite where the record says ``"inf"``."""
        try:
            return float(self.value)
        except (TypeError, ValueError):
            raise InputError(f"{self.place} is {str(self.value)[:40]!r}; a number must stand there") from None


Write = Callable[[Any], str]
"""How a value is written."""


def written(value: Any) -> str:
    """Return a value as pages write it: whole numbers in full, others with four digits, words as they are.

    >>> written(1234), written(0.98711), written(True), written("local"), written([1, 2.5])
    ('1,234', '0.9871', 'yes', 'local', '1, 2.5')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return tables.number(value) if math.isfinite(value) else "infinite"
    if isinstance(value, list):
        return ", ".join(map(written, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {written(inner)}" for key, inner in value.items())
    return "infinite" if value == "inf" else str(value)


def shown(one: Traced | None, write: Write = written) -> Markup:
    """Return a value as HTML that names its place; a list or an object shows every value with its own."""
    if one is None:
        return NOTHING
    if isinstance(one.value, list):
        every = [inner for place in range(len(one.value)) if (inner := one.get(place))]
        return Markup(", ").join(shown(inner, write) for inner in every)
    if isinstance(one.value, Mapping):
        told = [Markup("{} {}").format(name.replace("_", " "), shown(inner, write)) for name, inner in one.items()]
        return Markup(", ").join(told)
    return Markup('<data value="{}">{}</data>').format(one.place, write(one.value))


def whole(value: float) -> str:
    """Return a number of people."""
    return tables.whole(value)


def percent(value: float) -> str:
    """Return a share in percent."""
    return tables.percent(value)


def shown_interval(low: Traced | None, high: Traced | None, write: Write = written) -> Markup:
    """Return an interval as HTML; an end that is not known is open, and nothing stands where neither is."""
    if low is None and high is None:
        return Markup()
    return Markup(' <span class="interval">[{}, {}]</span>').format(*(shown(end, write) for end in (low, high)))


MOST_ROWS = 120
"""Rows of a table on a page."""
_ENDS = "low", "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table."""

    caption: str  # What it shows
    headings: list[str]
    rows: list[list[Markup]]  # A cell each heading
    cut: bool = False  # Whether there are more rows than a page shows


def grid_of(caption: str, rows: Sequence[Traced], columns: Sequence[str] = ()) -> Grid | None:
    """Return the table of some rows of a record; None where there are none."""
    keys = [key for key in columns or _keys(rows) if any(row.get(key) is not None for row in rows)]
    if not rows or not keys:
        return None
    cells = [[_cell(row, key) for key in keys] for row in rows[:MOST_ROWS]]
    return Grid(caption=caption, headings=[words(key) for key in keys], rows=cells, cut=len(rows) > MOST_ROWS)


def _keys(rows: Sequence[Traced]) -> list[str]:
    every = list(dict.fromkeys(key for row in rows for key in row.value))
    ends = {f"{key}_{end}" for key in every for end in _ENDS} | set(_ENDS)
    return [key for key in every if key not in ends and not _repeated(rows, key)]


def _repeated(rows: Sequence[Traced], key: str) -> bool:
    """Return whether a column only says the same sentence again and again, or holds what is no cell."""
    values = [row.value.get(key) for row in rows]
    long = [one for one in values if isinstance(one, str) and len(one) > 60]
    nested = any(isinstance(one, (list, dict)) for one in values)
    return nested or (bool(long) and len(rows) > 1 and len({str(one) for one in values}) == 1)


def _cell(row: Traced, key: str) -> Markup:
    value = row.get(key)
    if value is None:
        return NOTHING
    low, high = (row.get(f"{key}_{end}") for end in _ENDS)
    if low is None and high is None and _owns_ends(row.value, key):
        low, high = (row.get(end) for end in _ENDS)
    return shown(value) + shown_interval(low, high)


def _owns_ends(row: Mapping[str, Any], key: str) -> bool:
    """Return whether plain ``low`` and ``high`` are this key's: they follow it."""
    keys = list(row)
    return "low" in row and keys.index("low") == keys.index(key) + 1


def lines_of(record: Traced, keys: Sequence[str], family: str = "") -> list[tuple[str, Markup]]:
    """Return words and values of those keys that a record has something under, with intervals."""
    return [(words(key, family), shown(value) + interval_in(record, key)) for key in keys if (value := record.get(key))]


def interval_in(record: Traced, key: str, write: Write = written) -> Markup:
    """Return a result's interval over its seeds, as HTML; nothing where there is none."""
    ends = every.get(key) if (every := record.get("intervals")) else None
    return shown_interval(ends.get(0), ends.get(1), write) if ends else Markup()


def words(key: str, family: str = "") -> str:
    """Return what a key is called: as tables of an experiment have it, else by itself."""
    return _columns(family).get(key) or _OWN.get(key) or key.replace("_", " ")


_OWN = {
    "copies_max": "devices behind which one person stands, at most",
    "spent_max": "spent by a device, at most [nats]",
    "spent_mean": "spent by a device, on average [nats]",
    "asked": "devices asked",
    "repeat": "seeds",
    "ndcg": "NDCG at 10",
    "over_popularity": "NDCG above popularity's",
    "hit_rate": "hit rate at 10",
    "recall": "recall at 10",
    "coverage": "share of the catalogue",
}
"""What has no words of its own in tables of experiments, or is of no experiment."""


@cache
def _columns(family: str) -> dict[str, str]:
    from scenarios.experiments import EXPERIMENTS  # noqa: PLC0415 (keeps this module light)

    columns = EXPERIMENTS[family].columns if family in EXPERIMENTS else ()
    return {column.name: column.words.strip() for column in columns if column.words}
