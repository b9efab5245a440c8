"""The answer on a page: one file that loads nothing and runs no script but its own, whatever names a result has."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from markupsafe import Markup
from pages import answer, curve, found, look, undrawn_report, worth

from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.pages.answer_page import _digest, answer_section, page_style, policy, script_json
from scenarios.pages.answer_picture import resolved, specification
from scenarios.show.palette import COLOURS
from scenarios.studies.answer import VOLUNTEERS, Answer

BROWSER = found()
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
SECOND = 4.0


@pytest.fixture(scope="module")
def hostile() -> Answer:
    """An answer of two epsilons whose names are markup."""
    curves = [
        curve(CURATOR, {100: 0.1, 1000: worth(0.19, 0.002), 10_000: 0.195}, mechanism="pairs with EASE"),
        curve(TWO_SERVERS, {100: 0.05, 1000: worth(0.179, 0.01), 10_000: 0.19}, unguaranteed=[10_000]),
        curve(SHUFFLED, {1000: 0.19, 10_000: 0.19}, device=6.57),
        curve(LOCAL, {1000: 0.05, 10_000: 0.1}, mechanism=HOSTILE),
        curve(LOCAL, {1000: 0.1, 5000: 0.17, 10_000: 0.19}, mechanism=HOSTILE, epsilon=SECOND),
        curve(VOLUNTEERS, {1000: 0.18}, epsilon=None, mechanism=HOSTILE),
    ]
    return answer(*curves, file=HOSTILE, best_name=HOSTILE, others=HOSTILE)


@pytest.fixture(scope="module")
def page(hostile: Answer, subjects: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a comparison that ends in it."""
    record = json.loads((subjects[2] / "result.json").read_text()) | {"answer": hostile.model_dump(mode="json")}
    file = tmp_path_factory.mktemp("hostile") / "result.json"
    file.write_text(json.dumps(record))
    return undrawn_report([file])


def test_scripts_are_those_of_the_policy_and_nothing_is_loaded(page: str) -> None:
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    allowed = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    (sheet,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert allowed == policy(sheet, scripts)
    assert all(_digest(script) in allowed for script in scripts)
    rest = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\b(src|srcset|action|onerror|onclick)=(?!x onerror)", rest.replace(html.escape(HOSTILE), ""))
    assert not re.search(r"https?://(?!www\.w3\.org/)", rest)
    assert not re.search(r'href="(?!#)', rest)


def test_the_bundle_cannot_end_its_element_or_change_its_digest(page: str) -> None:
    for script in re.findall(r"<script>(.*?)</script>", page, re.DOTALL):
        assert not re.search(r"</script|<!--|\r", script)


def test_json_cannot_end_its_element() -> None:
    text = script_json({"name": HOSTILE, "also": "<!-- & -->"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"name": HOSTILE, "also": "<!-- & -->"}


def test_every_cell_with_a_guarantee_is_drawn_and_no_other(hostile: Answer) -> None:
    spec = specification(hostile)
    drawn = {(cell["rung"], cell["people"]) for cell in spec["datasets"]["cells"]}
    assert (TWO_SERVERS, 1000) in drawn
    assert (TWO_SERVERS, 10_000) not in drawn
    needs = {(bar["rung"], bar["epsilon"]): bar for bar in spec["datasets"]["needs"]}
    assert needs[LOCAL, 1.0]["right"]
    assert not needs[LOCAL, 1.0]["value"]  # more than 10k people: an arrow, and no point
    assert needs[LOCAL, SECOND]["value"]


def test_a_picture_for_notebooks_knows_no_style_sheet(hostile: Answer) -> None:
    spec = specification(hostile)
    assert "var(--curator)" in json.dumps(spec)
    for theme in (0, 1):
        text = json.dumps(resolved(spec, theme))
        assert "var(" not in text
        assert COLOURS["curator"][theme] in text


def test_without_the_extra_the_picture_is_still_and_a_line_says_so(
    hostile: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.pages.answer_page.has_interactive", lambda: False)
    section = answer_section(hostile, 1, Markup("<svg id='still'></svg>"))
    assert section.scripts == ()
    assert "<svg id='still'></svg>" in section.body
    assert "pip install 'blindrec[page]'" in html.unescape(section.body)
    assert "<script" not in section.body.replace(html.escape(HOSTILE), "")


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed; `make browser-test` says how to get it")
def test_a_browser_draws_it_loads_nothing_and_switches_epsilon(page: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    scripts = (
        "document.querySelectorAll('.picture svg').length",
        "document.querySelector('.still').hidden",
        f"document.querySelector('[value=\"{SECOND:g}\"]').click(); document.querySelector('h1').textContent",
        "[...document.querySelectorAll('h1')].filter(one => one.offsetParent).map(one => one.textContent)",
        "document.querySelectorAll('script').length",
    )
    seen = look(str(BROWSER), file, (1200, 400), scripts)
    assert set(seen.requests) == {file.as_uri()}
    assert seen.complaints == []
    assert seen.widths == {1200: 1200, 400: 400}
    pictures, hidden, _, headlines, elements = seen.answers
    assert (pictures, hidden, elements) == (1, True, 3)
    assert len(headlines) == 1
    assert f"epsilon {SECOND:g}" in headlines[0].replace("\N{NO-BREAK SPACE}", " ")


def test_the_style_sheet_has_the_palette_for_light_dark_and_print() -> None:
    sheet = page_style()
    for name, pair in COLOURS.items():
        assert [sheet.count(f"--{name}:{colour};") for colour in pair] == [2, 1]


def test_twelve_askings_are_counted_under_the_widest_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.pages.answer_page.has_interactive", lambda: False)
    epsilon = 0.1
    cells = {1000: 0.19}
    relations: tuple[tuple[Literal["replace", "add-remove"], str], ...]
    relations = ("replace", "77 of 100"), ("add-remove", "92 of 100")
    for relation, times in relations:
        made = replace(curve(CURATOR, cells, epsilon=epsilon), neighbours=relation, delta={1000: 0.0})
        assert f"a guess right at most {times} times" in answer_section(answer(made), 1, Markup()).body
