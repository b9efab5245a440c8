"""The main job in nine steps: the functions that the page on architecture names are called in its order."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import blindrec
from scenarios import PACKAGES
from scenarios.cli import main

ROOT = Path(__file__).parents[1]
STEP = re.compile(r"^\d+\. \*\*`([\w/.]+)`\*\*, `([\w.]+)`", re.MULTILINE)
BACK = re.compile(r"^(?:The way back is|then) \*\*`([\w/.]+)`\*\*, `([\w.]+)`", re.MULTILINE)


NAMED = re.compile(r"`((?:actors|coordinator|scenarios)\.[\w.]+)`")


def steps() -> list[tuple[str, str]]:
    """The files and functions of the page, in its order, the way back last."""
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    return [*STEP.findall(page), *BACK.findall(page)]


def function(dotted: str) -> Any:
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            value = getattr(value, part)
        return value
    raise AssertionError(dotted)


def code_of(dotted: str) -> CodeType:
    code: CodeType = function(dotted).__code__
    return code


def follows(calls: list[CodeType], path: list[CodeType]) -> bool:
    """Whether the functions of a path were called in its order, whatever else was called between."""
    made: Iterator[CodeType] = iter(calls)
    return all(code in made for code in path)


@pytest.fixture(scope="module")
def calls() -> list[CodeType]:
    """The calls of a run of the command line in this process."""
    made: list[CodeType] = []

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            made.append(frame.f_code)

    words = "run --users 300 --items 12 --rated 4 --seed 1 --backend inprocess --workers 1 --json -"
    sys.setprofile(seen)
    try:
        with pytest.raises(SystemExit) as end:
            main(words.split())
    finally:
        sys.setprofile(None)
    assert not end.value.code
    return made


def test_there_are_nine_steps_and_the_functions_stand_in_them() -> None:
    assert len(steps()) == 9 + 2
    for file, name in steps():
        assert Path(code_of(name).co_filename).relative_to(ROOT).as_posix() == file


def test_the_command_calls_the_functions_in_the_order_of_the_page(calls: list[CodeType]) -> None:
    path = [code_of(name) for _, name in steps()]
    assert follows(calls, path)


def test_a_script_gets_the_same_job_from_the_public_name() -> None:
    assert function("scenarios.from_python.run") is blindrec.run


GUIDES = [
    *(path for room in PACKAGES for path in (ROOT / room).rglob("ADDING.md")),
    *ROOT.glob("benchmarks/**/ADDING.md"),
]
IN_A_FILE = re.compile(r"`([A-Za-z_]+)`\s+(?:of|in|there in)\s+`((?:\w+/)+\w+\.py)`")
A_FILE = re.compile(r"`((?:actors|coordinator|scenarios|tests|docs|benchmarks)/[\w./-]+)`")


def missing(text: str) -> list[str]:
    """Names and files of ours that a text names and that are not there; NAME stands for a reader's own."""
    files = [path for path in A_FILE.findall(text) if "NAME" not in path]
    absent = [path for path in files if not (ROOT / path).exists()]
    for dotted in NAMED.findall(text):
        try:
            function(dotted)
        except (AssertionError, AttributeError):
            absent.append(dotted)
    held = [(name, path) for name, path in IN_A_FILE.findall(text) if (ROOT / path).exists()]
    return absent + [name for name, path in held if not re.search(rf"\b{name}\b", (ROOT / path).read_text("utf-8"))]


@pytest.mark.parametrize(
    "page", [ROOT / "docs/explanation/architecture.md", *GUIDES], ids=lambda page: page.parent.name
)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8")) == []
