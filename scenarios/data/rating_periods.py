"""A file's own months, quarters, years or stretches of days, by the times of its ratings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from scenarios.config.settings import MOST_OF_FILE

MONTH = "month"  # The kind of periods where nobody says which
_DAY = 86_400.0


class RatingPeriods(NamedTuple):
    """The last periods of a file; they count from 1."""

    labels: tuple[str, ...]
    numbers: Ints  # Of each rating; what was rated before the first period has a number below 1

    @property
    def last(self) -> int:
        """The latest period, as many as there are."""
        return len(self.labels)


def rating_periods(times: Floats, kind: str, periods: int | None) -> RatingPeriods:
    """Return the last periods of a file, by kind (``month``, ``quarter``, ``year`` or days, ``30d``) and number.

    Refuse more than the file has, and a period in which nobody rated anything.
    """
    codes = _codes(times, kind)
    last = int(codes.max())
    there = last - int(codes.min()) + 1
    count = periods or min(there, MOST_OF_FILE)
    if count > there or there < 2:
        raise InputError(f"periods is {max(count, 2)}, but the file has {there} by {kind}; lower --periods or --period")
    labels = tuple(_label(last - count + number, kind) for number in range(1, count + 1))
    numbers = codes - (last - count)
    if missing := sorted({*range(1, count + 1)} - {*numbers.tolist()}):
        empty = labels[missing[0] - 1]
        raise InputError(f"nobody rated anything in period {empty} of the file; lower --periods, or take longer ones")
    return RatingPeriods(labels, numbers)


def first_periods(periods: RatingPeriods, whose: Ints, count: int) -> Ints:
    """Return the period of each one's first rating, from 1 on; what was before the first period counts as it.

    ``whose`` is the person, or the item, of each rating. Who has none is there from the last on.
    """
    first = np.full(count, periods.last, np.int64)
    np.minimum.at(first, whose, periods.numbers)
    return np.maximum(first, 1)


def _codes(times: Floats, kind: str) -> Ints:
    """Return the number of each time's period, of any origin."""
    if kind.endswith("d"):
        # The last one ends with the file
        return -np.floor((float(times.max()) - times) / (int(kind[:-1]) * _DAY)).astype(np.int64)
    months = times.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    return np.asarray(months // {MONTH: 1, "quarter": 3, "year": 12}[kind])


def _label(code: int, kind: str) -> str:
    """Return the name of a period."""
    if kind.endswith("d"):
        return f"{-code * int(kind[:-1])} days before the end"
    months = code * {MONTH: 1, "quarter": 3, "year": 12}[kind]
    year, month = 1970 + months // 12, months % 12
    return {MONTH: f"{year}-{month + 1:02}", "quarter": f"{year} Q{month // 3 + 1}", "year": f"{year}"}[kind]
