"""docs/your-own-policy.md: its class is short, runs as it stands on every layout, and its errors are those told."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_pages import OwnPage, result
from runs import Command

from benchmarks.pages import folder_of_pages

PAGE = OwnPage("docs/your-own-policy.md", "halves.py")
RUN = ("run", "--design", "sign", "--policy", "halves:Halves", "--items", 200, "--rated", 20)
HERE = ("--backend", "inprocess")


@pytest.fixture(autouse=True)
def folder() -> Iterator[Path]:
    """A working directory with the page's module."""
    with folder_of_pages():
        yield Path.cwd()


def test_the_class_is_short_and_needs_nothing_else() -> None:
    assert PAGE.lines <= 30
    imported = [node for node in ast.walk(ast.parse(PAGE.code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    roots = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imported}
    assert roots == {"dataclasses", "numpy", "blindrec"}


def test_it_asks_the_same_on_every_layout(blindrec: Command) -> None:
    told = [
        result(blindrec, *RUN, "--users", 60_000, *HERE, *layout)["releases_sha256"]
        for layout in ((), ("--workers", 2, "--devices-per-actor", 7000))
    ]
    assert told[0] == told[1]


MISTAKES = {
    "no case for no round": ("number == 0", "number == -1"),
    "an unsorted pool": ('np.sort(np.argsort(-believed.doubt, kind="stable")[:many])', "np.argsort(believed.doubt)"),
    "a round by chance": ("state.devices // self.rounds", "np.random.default_rng().integers(1, 60_000)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_as_the_page_tells_it(mistake: str, blindrec: Command) -> None:
    PAGE.changed(*MISTAKES[mistake])
    ended = blindrec(*RUN, "--users", 60_000, *HERE, "--json", "-")
    assert ended.code == 2
    assert ended.err.strip() in PAGE.text.splitlines()
