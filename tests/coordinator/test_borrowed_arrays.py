"""Functions that borrow arrays make none, and count no references to those that they are given; where kernels lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from coordinator.protocol import compiled as decorators
from coordinator.protocol.arrays import Ints, Ints2
from coordinator.protocol.compiled import borrowing, compiled, inlined
from coordinator.protocol.numba_private import borrowing_options
from scenarios import name_kernels_folder


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


def test_where_numba_has_no_such_option_kernels_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.arange(12).reshape(3, 4)
    borrowed = [fresh(kind, sum_of_row)(table, 2) for kind in (borrowing, inlined)]
    monkeypatch.delattr("numba.core.options.DefaultOptions._nrt")
    assert borrowing_options() == {}
    monkeypatch.setattr(decorators, "_BORROWING", borrowing_options())
    counting = [fresh(kind, sum_of_row) for kind in (borrowing, inlined)]
    assert [function(table, 2) for function in counting] == borrowed == [38, 38]
    assert all(references(function) for function in counting)


@pytest.mark.parametrize("kind", [borrowing, inlined])
def test_borrowing_makes_no_array(kind: Callable[..., Any]) -> None:
    assert fresh(compiled, made)(3).size == 3
    with pytest.raises(numba.TypingError, match="zeros"):
        fresh(kind, made)(3)


def test_kernels_lie_by_the_digest_of_all_code_where_they_cannot_lie_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "actors").mkdir()
    (tmp_path / "coordinator").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    folders = []
    for text, writable in (("", True), ("", False), ("# a kernel may call another module's", False)):
        monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
        monkeypatch.setattr(os, "access", lambda *_, writable=writable: writable)
        (tmp_path / "actors" / "words.py").write_text(text)
        name_kernels_folder(tmp_path)
        folders.append(os.environ.get("NUMBA_CACHE_DIR"))
    assert folders[0] is None
    assert all(Path(str(one)).parent == Path("/caches/blindrec") for one in folders[1:])
    assert folders[1] != folders[2]
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/mine")
    name_kernels_folder(tmp_path)
    assert os.environ["NUMBA_CACHE_DIR"] == "/mine"
