"""Functions that borrow arrays: they make none, and count no references to those that they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from coordinator.protocol.arrays import Ints, Ints2
from coordinator.protocol.compiled import borrowing, compiled, inlined


def sum_of_row(table: Ints2, row: int) -> int:
    """Takes a row, to which there is a reference of its own."""
    mine, found = table[row], 0
    if not mine.size:
        return -1
    for value in mine:
        found += value
    return found


def made(many: int) -> Ints:
    """Makes an array."""
    return np.zeros(many, np.int64)


def fresh(kind: Callable[..., Any], function: Callable[..., Any]) -> Any:
    """Compiles as a decorator does, without the cache, which knows one kind of each function."""
    return numba.jit(**kind(function).targetoptions)(function)


def references(function: Any) -> int:
    """How often its code names what counts references."""
    return sum(text.count("@NRT_") for text in function.inspect_llvm().values())


def test_borrowing_counts_no_references() -> None:
    table, counts = np.arange(6).reshape(2, 3), {}
    for kind in (compiled, borrowing, inlined):
        function = fresh(kind, sum_of_row)
        assert function(table, 1) == 12
        counts[kind.__name__] = references(function)
    assert counts["compiled"] > 0 == counts["borrowing"] == counts["inlined"]


@pytest.mark.parametrize("kind", [borrowing, inlined])
def test_borrowing_makes_no_array(kind: Callable[..., Any]) -> None:
    assert fresh(compiled, made)(3).size == 3
    with pytest.raises(numba.TypingError, match="zeros"):
        fresh(kind, made)(3)
