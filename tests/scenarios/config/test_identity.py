"""A mechanism is its source and its settings: not its import path, its folder or its process."""

from __future__ import annotations

import importlib
import linecache
import shutil
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import foreign_mechanisms as foreign
import pytest

from coordinator.protocol.errors import InputError, PolicyError
from scenarios.config.identity import build_mechanism, identity, import_class

SOURCE = Path(foreign.__file__)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules can be imported, and are forgotten afterwards."""
    known = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def package(folder: Path, name: str, **files: str) -> ModuleType:
    """A package of some files; ``mine`` is a copy of the foreign mechanisms unless it is given."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("", encoding="utf-8")
    shutil.copy(SOURCE, folder / name / "mine.py")
    for file, text in files.items():
        (folder / name / f"{file}.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    return anew(f"{name}.mine")


def anew(module: str) -> ModuleType:
    """A module as a process that starts now imports it, and all of its package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == module.partition(".")[0]]:
        del sys.modules[name]
    return importlib.import_module(module)


def test_neither_path_nor_folder_counts(folder: Path) -> None:
    there = package(folder, "elsewhere")
    assert identity(there.GRR()) == identity(foreign.GRR())
    assert identity(there.OUE()) != identity(there.GRR())
    assert len(identity(foreign.OUE())) == 32


def test_a_changed_line_is_another_mechanism(folder: Path) -> None:
    there = package(folder, "changed", mine=SOURCE.read_text(encoding="utf-8").replace("1e-12", "1e-11"))
    assert identity(there.OUE()) != identity(foreign.OUE())


def test_other_ends_of_lines_are_no_change(folder: Path) -> None:
    there = package(folder, "windows")
    file = folder / "windows" / "mine.py"
    before = identity(there.OUE())
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert identity(anew("windows.mine").OUE()) == before


def test_settings_count() -> None:
    assert identity(foreign.GRR(shift=1)) != identity(foreign.GRR())
    assert identity(foreign.GRR(shift=0)) == identity(foreign.GRR())


HELPED = """
from {package}.helping import share
from coordinator.protocol.custom import Mechanism
class Mine(Mechanism):
    def query(self, catalogue): return share(catalogue)
"""
HELPING = "def share(catalogue): return {number}\n"


def test_modules_of_its_own_package_count(folder: Path) -> None:
    one = package(folder, "first", mine=HELPED.format(package="first"), helping=HELPING.format(number=1))
    before = identity(one.Mine())
    (folder / "first" / "helping.py").write_text(HELPING.format(number=2), encoding="utf-8")
    assert identity(one.Mine()) == before  # a process does what it imported
    assert identity(anew("first.mine").Mine()) != before


def test_helper_packages_count_where_they_are_named(folder: Path) -> None:
    package(folder, "tools")
    one = package(folder, "second")
    alone = identity(one.OUE())
    helped = identity(one.OUE(), ["tools"])
    assert helped != alone
    (folder / "tools" / "mine.py").write_text("pass\n", encoding="utf-8")
    assert identity(anew("second.mine").OUE(), ["tools"]) not in {helped, alone}
    with pytest.raises(InputError, match="with is nowhere_to_be_found, which cannot be imported"):
        identity(one.OUE(), ["nowhere_to_be_found"])


CELL = """
from coordinator.protocol.custom import Mechanism
class InACell(Mechanism):
    many: int = {many}
    def query(self, catalogue): return {answer}
"""


def cell(text: str, number: int) -> Any:
    """A class as a notebook's cell defines it: in ``__main__``, with its source known by a made-up file name."""
    name = f"<ipython-input-{number}-test>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), space)
    return space["InACell"]


def test_a_notebook_has_an_identity_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    one = cell(CELL.format(many=1, answer=1), 1)
    again = cell("\n\n" + CELL.format(many=1, answer=1), 2)
    other = cell(CELL.format(many=1, answer=2), 3)
    assert identity(one()) == identity(again())
    assert identity(one()) != identity(other())
    assert identity(one(many=5)) != identity(one())


def test_what_has_no_source_has_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL.format(many=1, answer=1), space)
    with pytest.raises(InputError, match="the source of InACell cannot be read"):
        identity(space["InACell"]())


TYPED = """
from fractions import Fraction
from coordinator.protocol.custom import Mechanism
class Mine(Mechanism):
    share: float = 0.5
    rounds: int = 2
    exact: Fraction = Fraction(1, 3)
    sharp: bool = False
    word: str = "a"
    def query(self, catalogue): ...
    def channel(self, question): ...
    def sketch(self, question, ratings, coins): ...
    def estimate(self, question, tally): ...
"""


def test_settings_are_read_as_they_are_annotated(folder: Path) -> None:
    package(folder, "typed", mine=TYPED)
    texts = {"share": "0.25", "rounds": "3", "exact": "2/7", "sharp": "true", "word": "7"}
    found = build_mechanism(import_class("typed.mine:Mine"), texts)
    told = {name: getattr(found, name) for name in texts}
    assert told == {"share": 0.25, "rounds": 3, "exact": Fraction(2, 7), "sharp": True, "word": "7"}
    assert identity(build_mechanism(import_class("typed.mine:Mine"), {"share": 0.25})) == identity(
        build_mechanism(import_class("typed.mine:Mine"), {"share": "0.25"})
    )
    with pytest.raises(InputError, match="setting rounds of design Mine is 'many': "):
        build_mechanism(import_class("typed.mine:Mine"), {"rounds": "many"})
    with pytest.raises(InputError, match="setting nothing is none of design Mine; it has exact, rounds, share, sharp"):
        build_mechanism(import_class("typed.mine:Mine"), {"nothing": 1})


def test_what_is_no_mechanism_is_refused(folder: Path) -> None:
    package(folder, "third")
    with pytest.raises(PolicyError, match=r"design third.nowhere:Mine cannot be imported: ModuleNotFoundError"):
        build_mechanism(import_class("third.nowhere:Mine"), {})
    with pytest.raises(PolicyError, match=r"nothing called Nobody that makes a design; it has OUE, Liar"):
        build_mechanism(import_class("third.mine:Nobody"), {})
    with pytest.raises(InputError, match=r"design third.mine:independent_bits is no mechanism"):
        build_mechanism(import_class("third.mine:independent_bits"), {})
    with pytest.raises(InputError, match="design foreign_bad:Lacking lacks channel, sketch, estimate"):
        build_mechanism(import_class("foreign_bad:Lacking"), {})
