"""The smallest sweep: squares of numbers, for tests of what keeps sweeps."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
from rich.console import Console

from scenarios.studies.sweep.sweeps import Sweep


class Number(NamedTuple):
    """A unit."""

    unit: int


@dataclass(frozen=True)
class Square:
    """What it found."""

    found: int


def _squared(square: Callable[[int], int], number: int) -> Square:
    return Square(square(number))


class Squares(Sweep[Number, Square]):
    """Squares of numbers, by a function that may fail."""

    key, measurement = Number, Square

    def __init__(self, numbers: Iterable[int], square: Callable[[int], int], content: dict[str, Any]) -> None:
        self._numbers, self._square, self._content = list(numbers), square, content

    def content(self) -> dict[str, Any]:
        return self._content

    def units(self, done: Mapping[Number, Square]) -> dict[Number, Callable[[], Square]]:
        return {Number(number): partial(_squared, self._square, number) for number in self._numbers}

    def result(self, units: Mapping[Number, Square]) -> dict[str, Any]:
        return {"squares": [one.found for one in units.values()]}

    def rows(self, result: Mapping[str, Any]) -> pd.DataFrame:
        return pd.DataFrame(result)

    def show(self, console: Console, result: Mapping[str, Any], title: str) -> None:
        console.print(title, result)
