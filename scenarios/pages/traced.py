"""Values of records that know where they stand: a page shows a number only together with the place it comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from coordinator.protocol.errors import InputError
from scenarios.report import tables

NOTHING = Markup("&ndash;")
"""What stands where a record says nothing."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A value of a JSON document, with its place.

    Attributes
    ----------
    value : object
        A JSON value.
    place : str
        The subject and the document, then the JSON pointer (RFC 6901): ``"1/result#/rows/0/ndcg"``.
    """

    value: Any
    place: str

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
        """Return a number, infinite where the record says ``"inf"``.

        Raises
        ------
        InputError
            If it is none.
        """
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
