"""What runs by default: a sample in which every value occurs, the same everywhere, and the rest counted aloud."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from evidence import FEW, surplus


class Item(SimpleNamespace):
    """What pytest collects, which differs from all others."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


def cases(*values: Sequence[object], name: str = "test_it", **marks: int) -> list[Any]:
    """Cases of one test with every combination of values, and marks with a number."""
    return [
        Item(
            nodeid=f"tests/test_x.py::{name}[{number}]",
            callspec=SimpleNamespace(params={str(place): value for place, value in enumerate(one)}),
            get_closest_marker=lambda mark: SimpleNamespace(args=(marks[mark],)) if mark in marks else None,
        )
        for number, one in enumerate(product(*values))
    ]


def needed(every: list[Any]) -> list[Any]:
    """The cases that run by default."""
    more = surplus(every)
    return [case for case in every if case not in more]


@pytest.mark.parametrize("values", [("abcdefg", range(5), [[1], [2]]), ([True, 1, 1.0, "1"], range(3))])
def test_every_value_of_every_parameter_occurs(values: tuple[Sequence[object], ...]) -> None:
    run = needed(cases(*values))
    for place, every in enumerate(values):
        occurring = [case.callspec.params[str(place)] for case in run]
        assert {(type(one), str(one)) for one in occurring} == {(type(one), str(one)) for one in every}
    assert len(run) == max(map(len, values))


def test_one_parameter_is_whole_and_so_are_few_cases() -> None:
    for every in (cases(range(30)), cases("ab", range(FEW // 2)), cases("abcde", range(9), whole=1)):
        assert needed(every) == every


def test_names_decide_which_so_that_machines_agree() -> None:
    every = cases("abcde", range(4))
    assert [every.index(case) for case in needed(every)] == [0, 7, 8, 13, 18]
    assert {case.nodeid for case in needed(every[::-1])} == {case.nodeid for case in needed(every)}
    other = needed(cases("abcde", range(4), name="test_other"))
    assert {case.callspec.params["0"] + str(case.callspec.params["1"]) for case in other} != {
        case.callspec.params["0"] + str(case.callspec.params["1"]) for case in needed(every)
    }
