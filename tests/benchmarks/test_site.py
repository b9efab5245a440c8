"""The documentation site, not built, which `make docs` does: navigation, links, and that nothing may be loaded."""

import re
from typing import Any

import yaml

import blindrec
from benchmarks import site
from benchmarks.pages import ROOT, notebooks

CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
NAV = list(site.nav_pages(CONFIG["nav"]))
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/README.md", "examples/README.md")
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r" {0,3}(?:[-*+]|\d+\.) ")


MADE = site.pages_made()


def read(place: str) -> str:
    if place in MADE:
        return MADE[place]
    return site.shown(place) if place.endswith(".md") else site.source(place).read_text(encoding="utf-8")


def test_every_page_stands_in_the_navigation_once() -> None:
    checklists = [
        path for room in ("benchmarks", "coordinator", "scenarios") for path in (ROOT / room).rglob("ADDING.md")
    ]
    pages = [*(ROOT / "docs").rglob("*.md"), *notebooks(), *(ROOT / page for page in OUTSIDE), *checklists]
    made = [place for place in MADE if place.endswith(".md")]
    assert sorted(NAV) == sorted([*made, *map(site.stands_at, pages)])


def test_the_navigation_leads_a_newcomer() -> None:
    assert [name for section in CONFIG["nav"] for name in section] == [
        "Start",
        "Tutorials",
        "How-to",
        "Reference",
        "Explanation",
        "Contribute",
    ]
    assert NAV[0] == "README.md"


def torn(text: str) -> list[str]:
    """Lists that are none for Python-Markdown, because no empty line stands before them."""
    blocks = [block.strip("\n").split("\n") for block in re.split(r"\n\s*\n", BLOCK.sub("", text))]
    prose = [rest for first, *rest in blocks if not ITEM.match(first) and not first.startswith(" ")]
    return [line for rest in prose for line in rest if ITEM.match(line)]


def test_lists_are_lists() -> None:
    """That links lead somewhere, to pages, headings and files, the strict build of `make docs` sees."""
    assert {place: found for place in NAV if (found := torn(read(place)))} == {}
    assert torn("# A title\n\n- a\n- b\n\nWords.\n- A point.") == ["- A point."]


def test_links_to_measurements_lead_to_their_page_and_each_table_can_be_downloaded() -> None:
    assert site.moved("explanation/worth.md", "[a](../measured.json#audits)") == "[a](../reference/measured.md#audits)"
    assert MADE["measured/audits.csv"].startswith("mechanism,claimed,exact,")
    assert all(f'href="../{place}"' in MADE["reference/measured.md"] for place in MADE if place.endswith(".csv"))


def test_links_follow_pages_to_their_places() -> None:
    assert site.moved("README.md", "[a](docs/reference/coins.md), [b](deploy), [c](LICENSE)") == (
        "[a](reference/coins.md), [b](deploy/README.md), [c](LICENSE)"
    )
    page = "[a](../docs/reference/api.md#run), [b](job.yaml)"
    assert site.moved("deploy/README.md", page) == "[a](../reference/api.md#run), [b](job.yaml)"
    page = "[a](../../README.md), [b](../reference/coins.md)"
    assert site.moved("explanation/worth.md", page) == "[a](../README.md), [b](../reference/coins.md)"


def test_the_reference_has_every_public_name_once() -> None:
    told = re.findall(r"^::: blindrec\.(\w+)$", read("reference/reference.md"), re.MULTILINE)
    assert sorted(told) == sorted(set(blindrec.__all__) - {"__version__"})


def test_nothing_is_loaded_by_the_configuration() -> None:
    assert CONFIG["theme"]["font"] is False
    assert CONFIG["strict"] is True
    assert {"privacy": {"assets_fetch": False, "assets_exclude": ["unpkg.com/*"]}} in CONFIG["plugins"]
    for file in ("mkdocs.yml", ".pre-commit-config.yaml"):
        assert "://" not in (ROOT / file).read_text(encoding="utf-8")


def test_before_a_commit_make_check_runs() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == ["make check"]
