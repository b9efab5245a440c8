"""The page of guarantees: every promise names a module that enforces it and a test that would fail, and both exist."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.pages import ROOT

COLUMNS = 5
PAGE = (ROOT / "docs/explanation/guarantees.md").read_text(encoding="utf-8")


def rows(page: str) -> list[list[str]]:
    """The cells of the table's rows, without its heading."""
    found = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in page.splitlines() if line.startswith("|")
    ]
    return found[2:]


def named(cell: str) -> list[str]:
    return cell.split("`")[1::2]


def lost(row: list[str]) -> Iterator[str]:
    """What of a row is missing, or names a test that does not exist; of modules `test_documented_modules` looks."""
    if len(row) != COLUMNS or not all(row):
        yield f"{row[0]}: it has {len(row)} cells"
        return
    modules, tests = named(row[2]), named(row[3])
    if not modules or not tests:
        yield f"{row[0]}: it names no module or no test"
    yield from (test for test in tests if not exists(test))


def exists(test: str) -> bool:
    """Whether a test, ``path::name``, is defined in that file."""
    path, _, name = test.partition("::")
    file = ROOT / path
    if not file.is_file() or not Path(path).name.startswith("test_"):
        return False
    return any(getattr(node, "name", None) == name for node in ast.parse(file.read_text(encoding="utf-8")).body)


def test_every_promise_names_what_enforces_it_and_what_would_fail() -> None:
    assert len(rows(PAGE)) > 10
    assert not [told for row in rows(PAGE) for told in lost(row)]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("::test_golden_on_ray", "::test_golden_in_the_sky"),
        ("tests/test_golden.py", "tests/test_olden.py"),
        ("::test_golden_on_ray", ""),
    ],
)
def test_what_is_not_there_is_found(right: str, wrong: str) -> None:
    assert right in PAGE
    assert [told for row in rows(PAGE.replace(right, wrong)) for told in lost(row)]
