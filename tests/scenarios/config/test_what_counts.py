"""What makes a mechanism another one: all source files of one's own that it reaches, and the kinds of its settings."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import foreign_mechanisms as foreign
import pytest
from runs import Command, refused

from coordinator.protocol.errors import InputError
from scenarios.config.custom_halves import own_of, packages_of, settings_in
from scenarios.config.identity import identity

OUE = Path(foreign.__file__).read_text(encoding="utf-8")
MINE = """
import sys
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import NamedTuple
import numpy as np
import helperm
from {oue} import OUE
from pk.consts import RATE
import pk.deep
WIDE, ARRAY, CACHE = 2, np.arange(3), {{}}
def spread(): return WIDE + int(ARRAY[0])
@dataclass
class Pair:
    left: int
class Two(NamedTuple):
    one: int
class Colour(Enum):
    RED = 1
def traced(function):
    @wraps(function)
    def called(*given): return function(*given)
    return called
class Mine(OUE):
    @np.errstate(divide="ignore")
    def rates(self, question):
        assert Pair(Two(1).one).left == Colour.RED.value
        return super().rates(question)
    @traced
    def estimate(self, question, tally):
        return super().estimate(question, tally)
    def sketch(self, question, ratings, coins):
        from .tools import odd
        CACHE[1] = 1
        bits = super().sketch(question, ratings, coins)
        return np.roll(bits, odd() + int(RATE) + helperm.shift() + spread(), axis=1)
def make(shift):
    class Made(OUE):
        def sketch(self, question, ratings, coins):
            return np.roll(super().sketch(question, ratings, coins), shift, axis=1)
    return Made
class Listed(OUE):
    w: list[int] | dict[str, int] | np.ndarray | None = None
class Either(OUE):
    w: object = 1
"""
FILES = {
    "pk/__init__.py": "",
    "pk/consts.py": "RATE = 1.0\n",
    "pk/tools.py": "from pk import deep\ndef odd(): return deep.ODD\n",
    "pk/deep.py": "ODD = 1\n",
    "pk/unused.py": "pass\n",
    "helperm.py": "def shift(): return 1\n",
    "oue.py": OUE,
    "pk/mine.py": MINE.format(oue="oue"),
}
TOPS = {"pk", "helperm", "oue"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a package of one's own, and modules beside it."""
    (tmp_path / "pk").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in TOPS]:
        del sys.modules[name]


def started() -> Any:
    """The module as a process that starts now imports it."""
    forget()
    importlib.invalidate_caches()
    return importlib.import_module("pk.mine")


@pytest.mark.parametrize(
    "file", ["pk/__init__.py", "pk/consts.py", "pk/tools.py", "pk/deep.py", "helperm.py", "oue.py"]
)
def test_all_that_it_imports_counts_wherever_it_does(folder: Path, file: str) -> None:
    before = identity(started().Mine())
    assert identity(started().Mine()) == before
    (folder / file).write_text(FILES[file] + "MORE = 12345\n", encoding="utf-8")
    assert identity(started().Mine()) != before


def test_what_it_does_not_import_does_not_count_unless_its_package_is_named(folder: Path) -> None:
    before = identity(started().Mine()), identity(started().Mine(), ["pk"])
    (folder / "pk" / "unused.py").write_text("other = 1\n", encoding="utf-8")
    assert identity(started().Mine()) == before[0]
    assert identity(started().Mine(), ["pk"]) != before[1]


def test_modules_beside_it_travel_too(folder: Path) -> None:
    assert packages_of(started().Mine) == TOPS


def test_a_class_that_is_made_in_a_function_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"^design Made is made in a function, .* is given a setting$"):
        identity(started().make(1)())


def test_equal_settings_of_other_kinds_are_other_mechanisms(folder: Path) -> None:
    either = started().Either
    assert len({own_of(settings_in(either(w=value))).name for value in (1, 1.0, True)}) == 3
    assert [type(vars(own_of(settings_in(either(w=value))).mechanism)["w"]) for value in (1.0, True)] == [float, bool]


def test_settings_that_can_change_are_one_line(blindrec: Command, folder: Path) -> None:
    for told, kind in (("[1]", "list"), ("{ a = 1 }", "dict")):
        (folder / "mine.toml").write_text(
            f'design = "pk.mine:Listed"\nw = {told}\nitems = 20\nrated = 5\nusers = 500\nepsilon = 1\n'
        )
        line = refused(blindrec, "run", "mine.toml", "--allow-code", "--backend", "inprocess")
        assert line == f"setting w is a {kind}; give a number, a text, or a tuple of them\n"
    listed = started().Listed
    for value in ([1], {"a": 1}, listed.__init__.__globals__["np"].ones(2)):
        with pytest.raises(InputError, match=r"setting w is a .*; give a number, a text, or a tuple of them"):
            own_of(settings_in(listed(w=value)))
