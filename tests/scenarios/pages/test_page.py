"""A report is valid HTML that loads nothing, can be read by everybody, and says loudly what is not private."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as Trees

import pytest
from page_proof import SVG, tree_of, words_of

from scenarios import show
from scenarios.show.html_report import report_of

SHEET = Path(show.__file__).parent / "templates" / "style.css"
LEAST = 4.5
"""Contrast of text, by the Web Content Accessibility Guidelines, level AA."""


@pytest.fixture(scope="module")
def record_of(subjects: list[Path]) -> Callable[[str], Path]:
    """The path of a result by its name."""
    by_name = {path.name.removesuffix(".json"): path for path in subjects}
    return lambda name: by_name[name]


@pytest.fixture(scope="module")
def tree(page: str) -> Trees.Element:
    """The page; the parser refuses what is not valid."""
    return tree_of(page)


def test_the_parser_refuses_what_is_not_valid(page: str) -> None:
    with pytest.raises(Exception, match=r"."):
        tree_of(page.replace("</table>", "", 1))


def test_nothing_is_loaded(page: str, tree: Trees.Element) -> None:
    assert not {"script", "link", "img", "iframe", "object", "embed", "base"} & {one.tag for one in tree.iter()}
    loading = [one.attrib for one in tree.iter() if {"src", "srcset", "data", "action"} & set(one.attrib)]
    assert loading == []
    targets = {one.get("href") for one in tree.iter() if one.get("href")}
    assert all(target and target.startswith("#") for target in targets)
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)", page)


def test_names_are_unique_and_links_lead_somewhere(tree: Trees.Element) -> None:
    names = Counter(one.get("id") for one in tree.iter() if one.get("id"))
    assert [name for name, count in names.items() if count > 1] == []
    told = [one.get("href", "").removeprefix("#") for one in tree.iter() if one.get("href")]
    told += [name for one in tree.iter() for name in one.get("aria-labelledby", "").split()]
    told += re.findall(r"url\(#([^)]*)\)", " ".join(value for one in tree.iter() for value in one.attrib.values()))
    assert set(told) <= set(names)


def test_pictures_have_words_and_tables_have_headings(tree: Trees.Element) -> None:
    drawings = [one for one in tree.iter() if one.tag in ("svg", f"{SVG}svg")]
    assert len(drawings) >= 12
    for one in drawings:
        assert one.get("role") == "img"
        assert all(len(words_of(child)) > 3 for child in list(one)[:2])
        assert [str(child.tag).removeprefix(SVG) for child in list(one)[:2]] == ["title", "desc"]
    for table in tree.iter("table"):
        assert words_of(table.find("caption") or Trees.Element("none")) or table.find("caption") is not None
        assert all(one.get("scope") in ("col", "row") for one in table.iter("th"))
    assert tree.get("lang") == "en"


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, ``#rrggbb``, from 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def contrasts(sheet: str) -> list[float]:
    """The contrast of every rule that gives text a colour; it must name what is behind it."""
    colours = dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", sheet))
    found = []
    for rule in re.findall(r"\{([^{}]*)\}", sheet):
        pair = [re.search(rf"(?<![\w-]){name}: var\((--[\w-]+)\)", rule) for name in ("color", "background")]
        if pair[0]:
            assert pair[1], f"a rule colours text, and does not say on what: {rule}"
            found.append(contrast(colours[pair[0][1]], colours[pair[1][1]]))
    return found


def test_text_can_be_read() -> None:
    found = contrasts(SHEET.read_text())
    assert len(found) >= 9
    assert min(found) >= LEAST


def test_pale_text_would_be_found() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert min(contrasts(SHEET.read_text().replace("--quiet: #48525d", "--quiet: #8a949e"))) < LEAST


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pmc", "not differential privacy"),
        ("laplace", "covers only a part"),
        ("pairwise", "covers only a part"),
        ("item-query", "There is no guarantee"),
        ("plurality", "There is no guarantee"),
        ("copies", "one person stands behind up to"),
        ("compare", "nobody in the file is protected"),
        ("leak", "measured at least 1.25"),
        ("online", "an even guess becomes certain"),
    ],
)
def test_what_is_not_private_says_so_on_the_first_screen(
    name: str, words: str, record_of: Callable[[str], Path]
) -> None:
    header = next(tree_of(report_of([record_of(name)])).iter("header"))
    warned = " ".join(words_of(one) for one in header.iter("p") if one.get("class") == "warning")
    assert words in warned


def test_no_belief_is_bounded_where_nothing_bounds_it(record_of: Callable[[str], Path]) -> None:
    for name, bounded in (("pmc", False), ("silent", False), ("item-query", True), ("run", True), ("copies", True)):
        page = report_of([record_of(name)])
        assert ("data-belief" in page) is bounded, name
        if name == "item-query":
            assert re.search(r'data-belief="at-most" data-prior="0.5">100.0 %<', page)
    assert "one person, all devices" in page


def test_the_same_results_make_the_same_page(page: str, subjects: list[Path]) -> None:
    assert report_of(subjects[:2]) == report_of(subjects[:2])
