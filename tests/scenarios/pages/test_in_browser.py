"""A report in Chromium: it asks nobody for anything, says nothing on the console, prints, and fits 400 pixels."""

from pathlib import Path

import pytest
from pages import FAMILIES, Seen, found, look
from thoroughness import THOROUGH

from scenarios.pages.page import report_of

BROWSER = found()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed; `make browser-test` says how to get it"),
]
WIDTHS = 1200, 400
CUT = """[...document.querySelectorAll("body *")].filter(one => !one.closest("svg, thead") &&
    one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"""
"""What stands outside of the window."""


@pytest.fixture(scope="module")
def page(subjects: list[Path]) -> str:
    """One report of all of them, or by default of one of each family."""
    return report_of([path for path in subjects if THOROUGH or path.stem in FAMILIES])


def _looked(page: str, folder: Path) -> Seen:
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    return look(str(BROWSER), file, WIDTHS, (CUT,))


def test_a_browser_shows_and_prints_it_and_loads_nothing(page: str, tmp_path: Path) -> None:
    seen = _looked(page, tmp_path)
    assert set(seen.requests) == {(tmp_path / "page.html").as_uri()}
    assert seen.complaints == []
    assert seen.widths == {width: width for width in WIDTHS}
    assert seen.answers == [[]]
    assert seen.pdf.startswith(b"%PDF-")
    assert all(picture.startswith(b"\x89PNG") for picture in seen.pictures.values())


def test_a_page_that_loads_logs_and_is_too_wide_is_found(tmp_path: Path) -> None:
    wrong = '<!DOCTYPE html><body><p style="width: 900px">wide</p><img src="missing.png"><script>console.error("no")'
    seen = _looked(wrong + "</script>", tmp_path)
    assert (tmp_path / "missing.png").as_uri() in seen.requests
    assert seen.complaints
    assert seen.widths[400] > 400
    assert seen.answers[0]
