"""A column of a record, declared once: its words and meaning, how it is read from a run, and what seeds say of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, TypeVar

import numpy as np

from scenarios.show.intervals import CONFIDENCE, mean_interval, share_interval


class Average(Enum):
    """What a record of several seeds says in a column."""

    MEAN = "the mean with Student's interval, over the seeds that have a number"
    COUNT = "what all seeds say; where that differs, the mean with Student's interval"
    FORMULA = "the mean without an interval, since it follows from the scenario"
    WORST = "the largest, since it is promised to everybody"
    SHARE = "the share of seeds in which it is true, with an exact interval"
    NOTHING = "nothing, as a digest belongs to one seed"
    FIRST = "what the first seed says"
    JOINED = "what all seeds say; of numbers that differ the mean, and in words that they differ"


R_contra = TypeVar("R_contra", contravariant=True)  # A run that is over, as a family reports it
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Column(Generic[R_contra]):
    """A column of a family's records."""

    name: str  # Its key in the record
    label: str = ""  # What the printed table calls it; empty where the table leaves it out
    meaning: str = ""  # What it means, for the site's page of columns; a setting has the words of its flag
    average: Average = Average.JOINED  # What several seeds say of it together
    value: Callable[[R_contra], Any] | None = None  # Reads it from a run; None: it is a part that the family computes
    when: Callable[[R_contra], bool] | None = None  # Whether a run has it, of those with `value`; None: every run
    most: float = math.inf  # A measured number cannot exceed it, and so its interval does not either
    unless_one: str = ""  # Another column; where that is 1, the table leaves this one out
    unless_known: str = ""  # Another column; where that has a value, the table leaves this one out
    share: bool = False  # A share of something, whose table line has four digits even where it is 0 or 1
    beside: tuple[str, ...] = ()  # Other keys that its line names, where they have a value
    words_under: Mapping[str, str] = field(default_factory=dict)  # What tables call it under other trust models

    def shown(self, record: Mapping[str, Any]) -> bool:
        """Return whether a table has a line for it."""
        hidden = record.get(self.unless_one) == 1 or record.get(self.unless_known) is not None
        return bool(self.label) and not hidden and record.get(self.name) is not None

    def of(self, run: R_contra, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Return it by its name; nothing where the run does not have it."""
        if self.value is None:
            return {self.name: parts[self.name]} if self.name in parts else {}
        return {self.name: self.value(run)} if self.when is None or self.when(run) else {}


def record_of(columns: Sequence[Column[S]], run: S, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what columns say of a run, by their names and in their order; ``parts`` are those computed together."""
    undeclared = sorted(parts.keys() - {column.name for column in columns})
    assert not undeclared, f"no column is declared for {', '.join(undeclared)}: a result would lose them"
    return {name: value for column in columns for name, value in column.of(run, parts).items()}


def read_by(column: Column[Any], value: Callable[[S], Any], **changes: Any) -> Column[S]:
    """Return a column that families share as one of them reads it."""
    shared: Column[S] = replace(column, value=value, **changes)
    return shared


def mean_of(columns: Sequence[Column[Any]], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several seeds say together."""
    by_name: dict[str, Column[Any]] = {name: Column(name=name) for name in records[0]} | {
        column.name: column for column in columns
    }
    averages, intervals = dict[str, Any](), dict[str, list[Any]]()
    for name in records[0]:
        if by_name[name].average is not Average.NOTHING:
            averages[name], low, high = _together(by_name[name], [record.get(name) for record in records])
            intervals |= {} if low is None else {name: [low, high]}
    return {**averages, "repeat": len(records), "level": CONFIDENCE, "intervals": intervals, "runs": list(records)}


def _together(column: Column[Any], values: Sequence[Any]) -> tuple[Any, float | None, float | None]:
    """Return what several seeds say in a column, and the ends of its interval where it has one."""
    present = [value for value in values if value is not None]
    average = column.average
    if average is Average.FIRST or not present:
        return values[0], None, None
    if average is Average.SHARE:
        return share_interval(sum(map(bool, present)), len(present))
    if average is Average.WORST:
        return (None if len(present) < len(values) else finite(max(map(_number, present)))), None, None
    if average is Average.JOINED or (average is Average.COUNT and len(set(present)) == 1):
        return joined(values if average is Average.JOINED else present), None, None
    numbers = [_number(value) for value in present]
    if average is Average.FORMULA or math.inf in numbers:
        return finite(float(np.mean(numbers))), None, None
    mean, low, high = mean_interval(numbers)
    if low is not None and high is not None:  # Cut to what the numbers can be: below 0 only where one of them is
        low, high = max(low, -1.0 if min(numbers) < 0 else 0.0), min(high, column.most)
    return mean, low, high


def joined(values: Sequence[Any]) -> Any:
    """Return the value that all share, the mean of numbers, or in words that they differ; None where one is missing.

    >>> joined([2, 2]), joined([2, 3]), joined(["a", "b"]), joined([1, None]), joined([1.5, "inf"])
    (2, 2.5, 'differs', None, 'inf')
    """
    if all(value == values[0] for value in values):
        return values[0]
    if any(value is None for value in values):
        return None
    if not all(value == "inf" or isinstance(value, (int, float)) for value in values):
        return "differs"
    return finite(float(np.mean([_number(value) for value in values])))


def _number(value: Any) -> float:
    return math.inf if value == "inf" else value


def finite(value: float) -> float | str | None:
    """Return a number as JSON has it: ``"inf"`` for infinity, None for no number."""
    if math.isnan(value):
        return None
    return "inf" if math.isinf(value) else value
