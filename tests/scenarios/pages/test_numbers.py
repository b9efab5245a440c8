"""Every number of a report stands in the JSON that the page names for it; and a wrong number is found."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from page_proof import faults_of, says, tree_of, words_of

from scenarios.show.html_report import report_of


def test_every_number_is_in_the_json(page: str, subjects: list[Path]) -> None:
    assert len(re.findall(r"<data value=", page)) > 1500
    assert faults_of(page, subjects) == []


def _changed(page: str, place: int) -> str:
    """The page with another digit in one of its numbers."""
    numbers = list(re.finditer(r"<data value=\"[^\"]*\"[^>]*>([^<]*\d[^<]*)</data>", page))
    one = numbers[place % len(numbers)]
    told = one[1]
    digit = next(at for at, sign in enumerate(told) if sign in "123456789") if re.search("[1-9]", told) else 0
    wrong = told[:digit] + str(10 - int(told[digit])) if told[digit] != "5" else told[:digit] + "7"
    return page[: one.start(1)] + wrong + told[digit + 1 :] + page[one.end(1) :]


@pytest.mark.parametrize("place", [0, 40, 777, 1500])
def test_one_wrong_digit_is_found(page: str, subjects: list[Path], place: int) -> None:
    wrong = _changed(page, place)
    assert wrong != page
    assert len(faults_of(wrong, subjects)) == 1


def test_a_number_without_a_place_is_found(page: str, subjects: list[Path]) -> None:
    wrong = page.replace("<h3>", "<p>It is 87 % better.</p><h3>", 1)
    assert faults_of(wrong, subjects) == ["digits from nowhere: 'It is 87 % better.'"]


def test_a_bound_of_a_belief_that_looks_better_is_found(page: str, subjects: list[Path]) -> None:
    """At epsilon 3 an even guess becomes 95.26 %: 95.2 % would promise too much, and 95.3 % stands there."""
    told = re.search(r'data-belief="at-most" data-prior="0.5">95.3 %<', page)
    assert told is not None
    for wrong in ("95.2 %", "95.4 %"):
        assert faults_of(page.replace(told[0], told[0].replace("95.3 %", wrong)), subjects)


def test_a_folder_that_was_changed_is_found(tmp_path: Path, subjects: list[Path]) -> None:
    page = report_of(subjects[:1])
    folder = tmp_path / "run"
    shutil.copytree(subjects[0], folder)
    told = json.loads((folder / "result.json").read_text())
    told["accuracy"] += 0.01
    (folder / "result.json").write_text(json.dumps(told))
    assert any("/accuracy is" in fault for fault in faults_of(page, [folder]))


@pytest.mark.parametrize(
    ("told", "value", "holds"),
    [
        ("0.9871", 0.98711, True),
        ("0.9871", 0.98761, False),
        ("98.7 %", 0.98711, True),
        ("98.7 %", 0.9881, False),
        ("1,234", 1234, True),
        ("1,235", 1234, False),
        ("infinite", "inf", True),
        ("yes", True, True),
        ("no", True, False),
        ("1", 1.0, True),
        ("1", 1.01, False),
    ],
)
def test_what_counts_as_the_same(told: str, value: object, holds: bool) -> None:
    assert says(told, value) is holds


def test_the_page_has_a_section_for_each_family(page: str, subjects: list[Path]) -> None:
    families = [words_of(one).rsplit(" ", 1)[-1] for one in tree_of(page).iter("h2")]
    assert len(families) == len(subjects)
    assert set(families) == {"run", "two-tier", "online", "sweep", "plan", "compare", "data", "audit"}
