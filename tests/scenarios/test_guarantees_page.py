"""The page of guarantees: every promise names a module that enforces it and a test that would fail, and both exist."""

import re
from collections.abc import Iterator

from benchmarks.pages import ROOT

PAGE = (ROOT / "docs/explanation/guarantees.md").read_text(encoding="utf-8")


def rows(page: str) -> list[list[str]]:
    """The cells of the table's rows, without its heading."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in re.findall(r"^\|.*$", page, re.M)[2:]]


def faults(page: str) -> Iterator[str]:
    """Tests that do not exist, and promises without a module or a test; of modules `test_documented_modules` looks."""
    for promise, _, modules, tests, limit in rows(page):
        if not (promise and limit and "`" in modules and "`" in tests):
            yield f"{promise}: it names no module, no test or no limit"
        for test in tests.split("`")[1::2]:
            path, _, name = test.partition("::")
            file = ROOT / path
            if not file.is_file() or not re.search(rf"^(def|class) {name}\b", file.read_text(encoding="utf-8"), re.M):
                yield test


def test_every_promise_names_what_enforces_it_and_what_would_fail() -> None:
    assert len(rows(PAGE)) > 10
    assert list(faults(PAGE)) == []
    for right, wrong in (("::test_golden_on_ray", "::test_gold"), ("test_golden.py::", "test_olden.py::")):
        assert len(list(faults(PAGE.replace(right, wrong)))) >= 1
