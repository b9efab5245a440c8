"""A mechanism is its source and its settings, not its import path, folder or process; a run is known by its code."""

import hashlib
import importlib
import linecache
import shutil
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import mechanisms
import numpy as np
import pytest
from runs import Command, refused

import actors
import blindrec
import coordinator
import scenarios
from coordinator.protocol.errors import InputError, PolicyError
from scenarios.config import mechanism_settings
from scenarios.config.custom_kinds import custom_of, packages_of
from scenarios.config.identity import build_mechanism, identity, import_class

SOURCE = Path(mechanisms.__file__)


def package(folder: Path, name: str, **files: str) -> ModuleType:
    """A package of some files; ``mine`` is a copy of the foreign mechanisms unless it is given."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("", encoding="utf-8")
    shutil.copy(SOURCE, folder / name / "mine.py")
    for file, text in files.items():
        (folder / name / f"{file}.py").write_text(text, encoding="utf-8")
    return anew(f"{name}.mine")


def anew(module: str, *beside: str) -> ModuleType:
    """A module as a process that starts now imports it, with all of its package and of modules beside it."""
    tops = {module.partition(".")[0], *beside}
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        del sys.modules[name]
    importlib.invalidate_caches()
    return importlib.import_module(module)


def test_neither_path_nor_folder_counts(importable: Path) -> None:
    there = package(importable, "elsewhere")
    assert identity(there.GRR()) == identity(mechanisms.GRR())
    assert identity(there.OUE()) != identity(there.GRR())
    assert len(identity(mechanisms.OUE())) == 32


def test_a_changed_line_is_another_mechanism(importable: Path) -> None:
    there = package(importable, "changed", mine=SOURCE.read_text(encoding="utf-8").replace("1e-12", "1e-11"))
    assert identity(there.OUE()) != identity(mechanisms.OUE())


def test_other_ends_of_lines_are_no_change(importable: Path) -> None:
    there = package(importable, "windows")
    file = importable / "windows" / "mine.py"
    before = identity(there.OUE())
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert identity(anew("windows.mine").OUE()) == before


def test_settings_count() -> None:
    assert identity(mechanisms.GRR(shift=1)) != identity(mechanisms.GRR())
    assert identity(mechanisms.GRR(shift=0)) == identity(mechanisms.GRR())


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


def test_settings_are_read_as_they_are_annotated(importable: Path) -> None:
    package(importable, "typed", mine=TYPED)
    build = partial(build_mechanism, import_class("typed.mine:Mine"))
    texts = {"share": "0.25", "rounds": "3", "exact": "2/7", "sharp": "true", "word": "7"}
    mechanism = build(texts)
    told = {name: getattr(mechanism, name) for name in texts}
    assert told == {"share": 0.25, "rounds": 3, "exact": Fraction(2, 7), "sharp": True, "word": "7"}
    assert identity(build({"share": 0.25})) == identity(build({"share": "0.25"}))
    with pytest.raises(InputError, match="setting rounds of design Mine is 'many': "):
        build({"rounds": "many"})
    with pytest.raises(InputError, match="design Mine has no setting nothing; it has exact, rounds, share, sharp"):
        build({"nothing": 1})


def test_what_is_no_mechanism_is_refused(importable: Path) -> None:
    package(importable, "third")
    with pytest.raises(PolicyError, match=r"design third.nowhere:Mine cannot be imported: ModuleNotFoundError"):
        build_mechanism(import_class("third.nowhere:Mine"), {})
    with pytest.raises(PolicyError, match=r"nothing called Nobody that makes a design; it has OUE, Liar"):
        build_mechanism(import_class("third.mine:Nobody"), {})
    with pytest.raises(InputError, match=r"design third.mine:independent_bits is no mechanism"):
        build_mechanism(import_class("third.mine:independent_bits"), {})


OUE = Path(mechanisms.__file__).read_text(encoding="utf-8")
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
def packages(importable: Path) -> Path:
    """A folder with a package of one's own, and modules beside it."""
    (importable / "pk").mkdir()
    for name, text in FILES.items():
        (importable / name).write_text(text, encoding="utf-8")
    return importable


def started() -> ModuleType:
    return anew("pk.mine", *TOPS)


def test_all_that_it_imports_counts_wherever_it_does(packages: Path) -> None:
    names = [identity(started().Mine())]
    assert identity(started().Mine()) == names[0]
    for file in ("pk/__init__.py", "pk/consts.py", "pk/tools.py", "pk/deep.py", "helperm.py", "oue.py"):
        (packages / file).write_text(FILES[file] + "MORE = 12345\n", encoding="utf-8")
        names.append(identity(started().Mine()))
        assert names[-1] not in names[:-1], file


def test_what_it_does_not_import_does_not_count_unless_its_package_is_named(packages: Path) -> None:
    before = identity(started().Mine()), identity(started().Mine(helpers=("pk",)))
    (packages / "pk" / "unused.py").write_text("other = 1\n", encoding="utf-8")
    assert identity(started().Mine()) == before[0]
    assert identity(started().Mine(helpers=("pk",))) != before[1]


def test_modules_beside_it_travel_too(packages: Path) -> None:
    assert packages_of(started().Mine) == TOPS


def test_a_class_that_is_made_in_a_function_is_refused(packages: Path) -> None:
    with pytest.raises(InputError, match=r"^design Made is made in a function; define it in a module, with settings$"):
        identity(started().make(1)())


def test_equal_settings_of_other_kinds_are_other_mechanisms(packages: Path) -> None:
    either = started().Either
    assert len({custom_of(either(w=value)).name for value in (1, 1.0, True)}) == 3
    assert [type(vars(custom_of(either(w=value)).mechanism)["w"]) for value in (1.0, True)] == [
        float,
        bool,
    ]


def test_settings_that_can_change_are_one_line(blindrec: Command, packages: Path) -> None:
    for told, kind in (("[1]", "list"), ("{ a = 1 }", "dict")):
        (packages / "mine.toml").write_text(
            f'design = "pk.mine:Listed"\nw = {told}\nitems = 20\nrated = 5\nusers = 500\nepsilon = 1\n'
        )
        line = refused(blindrec, "run", "mine.toml", "--allow-code", "--backend", "inprocess")
        assert line == f"setting w is a {kind}; give a number, a text, or a tuple of them\n"
    listed = started().Listed
    for value in ([1], {"a": 1}, np.ones(2)):
        with pytest.raises(InputError, match=r"setting w is a .*; give a number, a text, or a tuple of them"):
            custom_of(listed(w=value))


@pytest.mark.parametrize("package", [actors, blindrec, coordinator, scenarios])
def test_every_module_counts(package: object) -> None:
    folder = Path(str(getattr(package, "__file__"))).parent  # noqa: B009 (modules are typed without it)
    held = set(mechanism_settings._our_code())
    found = sorted(folder.rglob("*.py"))
    assert len(found) > 2
    assert all(hashlib.sha256(path.read_bytes()).digest() in held for path in found)


def test_another_code_is_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = mechanism_settings.code_digest("")
    assert before == mechanism_settings.code_digest("")
    ours = mechanism_settings._our_code()
    for place in (0, len(ours) - 1):
        changed = (*ours[:place], ours[place] + b"\n", *ours[place + 1 :])
        monkeypatch.setattr(mechanism_settings, "_our_code", lambda changed=changed: changed)
        assert mechanism_settings.code_digest("") != before
