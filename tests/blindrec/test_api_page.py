"""docs/reference/api.md: every public name has a section with examples; these run, and sessions of all other pages."""

import doctest
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import blindrec
from benchmarks.pages import blocks, folder_of_pages, pages, read
from coordinator.protocol.messages import Query, Release

PAGE = read("docs/reference/api.md")
SECTIONS: dict[str, str] = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
OTHERS = {page: read(page) for page in pages() if page != "docs/reference/api.md" and list(blocks(read(page), "pycon"))}
SESSIONS = SECTIONS | OTHERS


def examples(title: str) -> doctest.DocTest:
    """The examples of a section, or of another page."""
    text = "\n".join(blocks(SESSIONS[title], "pycon"))
    return doctest.DocTestParser().get_doctest(text, {"__name__": "page"}, title, "docs/reference/api.md", 0)


LONG = {
    "PlanResult",
    "Result",
    "audit",
    "check",
    "compare",
    "plan",
    "SweepResult",
}  # Seconds each; their commands have tests
ON_RAY = (pytest.mark.cluster, pytest.mark.thorough)  # by default a tutorial calls Ray as this example does


@pytest.mark.parametrize(
    "title",
    [
        pytest.param(one, marks=ON_RAY if "Ray(" in text else [pytest.mark.thorough] * (one in LONG))
        for one, text in SESSIONS.items()
    ],
)
@pytest.mark.few(8)
@pytest.mark.usefixtures("headless")
def test_examples_run(title: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if "Ray(" in SESSIONS[title]:
        request.getfixturevalue("lent")
    told: list[str] = []
    found = examples(title)
    assert found.examples
    with folder_of_pages():
        monkeypatch.syspath_prepend(Path.cwd())
        runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
        failed = runner.run(found, out=told.append).failed
    for name in ("halving", "unary"):
        sys.modules.pop(name, None)
    assert not failed, "".join(told)


def test_every_public_name_has_an_example() -> None:
    told = "".join(one.source for title in SECTIONS for one in examples(title).examples) + PAGE
    table = set(re.findall(r"`(\w+)`", "".join(line for line in PAGE.splitlines() if line.startswith("| `"))))
    assert set(blindrec.__all__) <= table
    for name in set(blindrec.__all__) - {"__version__"}:
        assert name in SECTIONS or re.search(rf"\b{name}\b", told), name
    assert {name for name in SECTIONS if name not in blindrec.__all__} == set()


def test_every_error_is_told() -> None:
    assert all(name in SECTIONS["errors"] for name in blindrec.errors.__all__)


@pytest.mark.parametrize(
    "kind",
    [blindrec.Question, blindrec.Catalogue, blindrec.Tally, blindrec.Likelihood, blindrec.Setting, Query, Release],
)
def test_help_lists_all_fields(kind: type[Any]) -> None:
    """As the page of mechanisms promises of Python's `help`, which shows docstrings and no comments."""
    assert {one.name for one in fields(kind)} <= set(re.findall(r"\w+", kind.__doc__ or ""))
