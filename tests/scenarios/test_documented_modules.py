"""README, CONTRIBUTING, docs and deploy: every file and module that they name exists. Links are those of test_site."""

import pydoc
import re
from collections.abc import Iterator

import pytest

from benchmarks.pages import ROOT, pages

ROOMS = ("actors", "benchmarks", "blindrec", "coordinator", "deploy", "docs", "examples", "scenarios", "tests")
PAGES = pages()
FILES = {path.name for room in ROOMS for path in (ROOT / room).rglob("*.py")}
_ROOM = rf"(?<![\w/.-])(?:{'|'.join(ROOMS)})"
_PATH = re.compile(rf"{_ROOM}/[\w./-]*")
_MODULE = re.compile(rf"{_ROOM}(?:\.\w+)+(?![\w(/-])")
_BARE = re.compile(r"`(\w+\.py)`")
_SHOWN = re.compile(r"^# (\w+\.py)$", re.MULTILINE)


def is_there(dotted: str) -> bool:
    """Whether a dotted name is a module of ours, or something in one; what looks like a file name is no module."""
    place = ROOT.joinpath(*dotted.split("."))
    if place.is_dir() or place.with_suffix(".py").is_file() or place.name in {"md", "py", "sbatch", "toml"}:
        return True
    return pydoc.locate(dotted) is not None


def lost(text: str) -> Iterator[str]:
    """What a page names and nobody finds: paths and modules of ours, bare names of files."""
    for path in _PATH.findall(text):
        place = ROOT / path.rstrip(".")
        if not (place.parent if "NAME" in place.name else place).exists():
            yield path
    yield from (name for name in _MODULE.findall(text) if not is_there(name))
    yield from (
        name for name in _BARE.findall(text) if "NAME" not in name and name not in {*FILES, *_SHOWN.findall(text)}
    )


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    assert not set(lost((ROOT / page).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "planted",
    ["coordinator/designs.py", "coordinator.server.rounds.state.Asks", "coordinator.designs", "`multi_moments.py`"],
)
def test_what_does_not_exist_is_found(planted: str) -> None:
    right = "`coordinator/protocol/mechanisms/NAME.py` and coordinator.server.rounds.state.Ask, `emulated_runs.py`, "
    right += "`mine.py`\n```\n# mine.py\n```\n"
    assert not list(lost(right))
    assert len(list(lost(right + planted))) == 1
