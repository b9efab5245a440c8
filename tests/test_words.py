"""The field's words: names are nouns, a class name has one meaning, and participles do not come back."""

import ast
import re
import tokenize
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PARTICIPLES = frozenset({"told", "found", "asked", "wanted", "kept", "given", "chosen", "held", "known", "drawn"})
WRITTEN = re.compile(rf"\b({'|'.join(sorted(PARTICIPLES))})\b")
ROOMS = {"actors": 0, "coordinator": 20, "scenarios": 35, "blindrec": 2, "benchmarks": 12}
"""Participles as names of one room at most: keys and parameters that users see, and names of other libraries."""
PRONOUNS = frozenset(
    {"one", "own", "place", "over", "terms", "words", "listed", "told", "half", "half_of", "cast", "promise", "dose"}
    | {"crowd", "handed_rounds", "own_of", "own_settings", "own_designs", "half_of_class", "OwnSettings", "OwnHalf"}
)
"""Names that say nothing of a value, or several things: its own noun stands for it, `row`, `index`, `guarantee`."""
PRONOUN_ROOMS = {"actors": 0, "coordinator": 9, "scenarios": 6, "blindrec": 0, "benchmarks": 3}
"""Such names of variables, parameters, fields and definitions that are left in a room at most; none is added."""
HALVES = ("actors/", "coordinator/protocol/", "coordinator/server/")
"""Where the three parts of a two-tier mechanism stand, which share its name."""


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def participles(path: Path) -> Counter[str]:
    """How often each participle stands in a module as a name."""
    if not WRITTEN.search(path.read_text(encoding="utf-8")):
        return Counter()
    with path.open("rb") as lines:
        names = [part.string for part in tokenize.tokenize(lines.readline) if part.type == tokenize.NAME]
    return Counter(name for name in names if name in PARTICIPLES)


EVERY = [path for room in ("actors", "coordinator", "scenarios", "blindrec") for path in modules(room)]


@pytest.mark.parametrize("room", ROOMS)
def test_names_are_no_participles(room: str) -> None:
    counts = {path.relative_to(ROOT): participles(path) for path in modules(room)}
    worst = sorted(counts, key=lambda path: -counts[path].total())[:5]
    places = ", ".join(f"{path} {dict(counts[path])}" for path in worst)
    assert sum(count.total() for count in counts.values()) <= ROOMS[room], places


class Names(NamedTuple):
    """What a module gives names to."""

    pronouns: Counter[str]  # variables, parameters, fields, functions and classes that have such a name
    classes: list[str]


@cache
def names_of(path: Path) -> Names:
    tree, names = ast.parse(path.read_text(encoding="utf-8")), list[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.append(name)
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
    pronouns = Counter(name for name in (name.lstrip("_") for name in names) if name in PRONOUNS)
    return Names(pronouns, [part.name for part in tree.body if isinstance(part, ast.ClassDef)])


@pytest.mark.parametrize("room", PRONOUN_ROOMS)
def test_names_are_no_pronouns(room: str) -> None:
    counts = {path.relative_to(ROOT): names_of(path).pronouns for path in modules(room)}
    worst = sorted(counts, key=lambda path: -counts[path].total())[:5]
    places = ", ".join(f"{path} {dict(counts[path])}" for path in worst)
    assert sum(count.total() for count in counts.values()) <= PRONOUN_ROOMS[room], places


FACES = {"__main__", "errors"}  # Modules of `blindrec`, the public face, that are called as what they show


SAME = {"Mechanism", "SharedVector"}  # Bases of users' classes and ours, which an adapter makes one


def test_a_class_name_has_one_meaning() -> None:
    """But for the parts of a two-tier mechanism, which are one thing on three sides."""
    places = defaultdict(list)
    for path in EVERY:
        for name in names_of(path).classes:
            places[name].append(path.relative_to(ROOT).as_posix())
    several = {name: paths for name, paths in places.items() if len(paths) > 1 and not _halves(paths)}
    assert several.keys() <= SAME, several


def test_a_modules_name_has_one_meaning() -> None:
    """But for the parts of a two-tier mechanism, and packages, which are rooms."""
    places = defaultdict(list)
    for path in EVERY:
        if path.stem not in {"__init__", *FACES}:
            places[path.stem].append(path.relative_to(ROOT).as_posix())
    assert not {name: paths for name, paths in places.items() if len(paths) > 1 and not _halves(paths)}


def _halves(paths: list[str]) -> bool:
    """Whether the modules are on different sides, one each."""
    sides = [half for path in paths for half in HALVES if path.startswith(half)]
    return len(sides) == len(paths) == len(set(sides))
