"""Functions that borrow arrays make none, and count no references to those that they are given; where kernels lie."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from thoroughness import sample

from coordinator import name_kernels_folder
from coordinator.protocol.arrays import Ints, Ints2
from coordinator.protocol.compiled import borrowing, compiled, inlined, private_options

ROOT = Path(__file__).parents[2]


def sum_of_row(table: Ints2, row: int) -> int:
    """Takes a row, to which there is a reference of its own."""
    mine, found = table[row], 0
    if not mine.size:
        return -1
    for value in mine:
        found += value
    return found


def made(many: int) -> Ints:
    return np.zeros(many, np.int64)


def fresh(kind: Callable[..., Any], function: Callable[..., Any]) -> Any:
    """Compiles as a decorator does, without the cache, which knows one kind of each function."""
    return numba.jit(**kind(function).dispatcher.targetoptions)(function)


def references(function: Any) -> int:
    """How often its code names what counts references."""
    return sum(text.count("@NRT_") for text in function.inspect_llvm().values())


def test_borrowing_counts_no_references_and_where_numba_has_no_such_option_kernels_give_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, kinds = np.arange(12).reshape(3, 4), (borrowing, inlined)
    borrowed = [fresh(kind, sum_of_row) for kind in kinds]
    assert [function(table, 2) for function in borrowed] == [38, 38]
    assert not any(references(function) for function in borrowed)
    monkeypatch.delattr("numba.core.options.DefaultOptions._nrt")
    assert private_options(_nrt=False) == {}
    counting = [fresh(kind, sum_of_row) for kind in kinds]
    assert [function(table, 2) for function in counting] == [38, 38]
    assert all(references(function) for function in counting)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [borrowing, inlined])
def test_borrowing_makes_no_array(kind: Callable[..., Any]) -> None:
    assert fresh(compiled, made)(3).size == 3
    with pytest.raises(numba.TypingError, match="zeros"):
        fresh(kind, made)(3)


CALL = """
import os
import numpy as np
from actors import block_model as kernels
from coordinator.protocol import hashing
kernel = hashing.device_streams
print(len(kernel(np.zeros(2, np.uint64), 0, 3)), sum(kernel.dispatcher.stats.cache_hits.values()))
"""


def hits(folder: Path, home: Path) -> int:
    """How often a kernel of the packages in a folder's folders was found compiled."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), "HOME": str(home)}
    environment["PYTHONPATH"] = os.pathsep.join(str(one) for one in sorted(folder.iterdir()))
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", CALL]
    said = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=True)
    return int(said.stdout.split()[1])


@pytest.mark.thorough  # compiles twice
@pytest.mark.slow
@pytest.mark.parametrize("prefix", sample(["_ray_pkg_", "mine_"], 1))
def test_kernels_of_sent_code_are_found_until_any_of_it_changes(tmp_path: Path, prefix: str) -> None:
    """Each package is sent by itself: one whose own files are the same must not bring kernels of another's old code."""
    (home := tmp_path / "home").mkdir()
    for name in ("actors", "coordinator"):
        leave = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / "sent" / f"{prefix}{name}" / name, ignore=leave)
    assert [hits(tmp_path / "sent", home) for _ in range(2)] == [0, 1]
    with (tmp_path / "sent" / f"{prefix}actors" / "actors" / "words.py").open("a", encoding="utf-8") as file:
        file.write("# numba does not notice a change in a module that a kernel calls\n")
    assert hits(tmp_path / "sent", home) == (0 if prefix == "_ray_pkg_" else 1)
    assert not list(home.iterdir())


def test_kernels_lie_in_the_users_folder_where_the_code_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # else that it was not there is not noted, and what is set here stays:
    monkeypatch.delenv("NUMBA_CACHE_DIR")  # every process that a later test starts would compile all its kernels
    name_kernels_folder(tmp_path)
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(os, "access", lambda *_: False)
    name_kernels_folder(tmp_path)
    assert Path(os.environ["NUMBA_CACHE_DIR"]).parent == Path("/caches/blindrec")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/mine")
    name_kernels_folder(tmp_path)
    assert os.environ["NUMBA_CACHE_DIR"] == "/mine"
