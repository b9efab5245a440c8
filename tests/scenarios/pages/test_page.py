"""`blindrec report`: valid HTML that loads nothing and that everybody can read, the answer first.

It says loudly what is not private, names the command that repeats a run, and refuses what it cannot tell of.
"""

import html
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Trees

import html5lib
import pytest
from evidence import THOROUGH
from markupsafe import Markup
from runs import FAMILIES, Command, answer, curve, planted_ratings, refused, undrawn_report, write_movielens

import blindrec as face
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import CURATOR, LOCAL
from scenarios.pages.answer_page import _digest, page_style, policy
from scenarios.pages.page import ReportSection, report_of
from scenarios.pages.promises import KINDS
from scenarios.pages.subject import Subject
from scenarios.show.picture import COLOURS

pytestmark = pytest.mark.usefixtures("undrawn")
SVG = "{http://www.w3.org/2000/svg}"
PageOf = Callable[[str], str]
LEAST = 4.5  # Contrast of text, by the Web Content Accessibility Guidelines, level AA


def tree_of(page: str) -> Trees.Element:
    """Parse a page; whatever is not valid HTML raises."""
    found: Trees.Element = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    return found


def words_of(element: Trees.Element) -> str:
    """All text inside of an element."""
    return " ".join("".join(element.itertext()).split())


@pytest.fixture(scope="module", autouse=True)
def short_scripts() -> Iterator[None]:
    """What draws an answer takes seconds to be made, and is looked at in `test_answer_page`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.pages.answer_page._scripts", lambda: (Markup("draws()"), Markup("switches()")))
        yield


@pytest.fixture(scope="module")
def page(subjects: list[Path], unfitted: None) -> str:
    """One report of all of them, or by default of one of each family."""
    return report_of([path for path in subjects if THOROUGH or path.stem in FAMILIES])


@pytest.fixture
def pictureless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pictures be empty."""
    monkeypatch.setattr("scenarios.pages.page.inline", lambda *_: Markup("<svg></svg>"))


@pytest.fixture(scope="module")
def page_of(subjects: list[Path]) -> PageOf:
    """The page of one result by its name, made once, with empty pictures."""
    by_name = {path.stem: path for path in subjects}
    return cache(lambda name: undrawn_report([by_name[name]]))


@pytest.fixture(scope="module")
def tree(page: str) -> Trees.Element:
    """The page; the parser refuses what is not valid."""
    return tree_of(page)


def test_the_parser_refuses_what_is_not_valid(page: str) -> None:
    with pytest.raises(Exception, match=r"."):
        tree_of(page.replace("</table>", "", 1))


def test_nothing_is_loaded(page: str, tree: Trees.Element) -> None:
    """Scripts are those of the answer, which a policy allows by digest; their text is exempt."""
    assert not {"link", "img", "iframe", "object", "embed", "base"} & {one.tag for one in tree.iter()}
    loading = [one.attrib for one in tree.iter() if {"src", "srcset", "data", "action", "style"} & set(one.attrib)]
    assert loading == []
    targets = {one.get("href") for one in tree.iter() if one.get("href")}
    assert all(target and target.startswith("#") for target in targets)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    allowed = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    (sheet,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert allowed == policy(sheet, scripts)
    assert all(_digest(script) in allowed for script in scripts)
    rest = re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)
    assert "<script" not in rest
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org/(2000/svg|1999/xlink))", rest)


def test_without_an_answer_there_are_no_scripts(page_of: PageOf) -> None:
    assert "<script" not in page_of("run")
    assert "script-src &#39;none&#39;" in page_of("run")


def test_an_answer_stands_before_everything_else(tmp_path: Path, subjects: list[Path]) -> None:
    """Its rows are collapsed; what is wrong with it is one line."""
    study = answer(curve(CURATOR, {100: 0.1, 1000: 0.19}), curve(LOCAL, {100: 0.02, 1000: 0.05}))
    record = json.loads((subjects[2] / "result.json").read_text()) | {"answer": study.model_dump(mode="json")}
    (tmp_path / "a.json").write_text(json.dumps(record))
    made = undrawn_report([tmp_path / "a.json", subjects[0]])
    body = next(tree_of(made).iter("body"))
    assert [body[0].get("class"), body[1].tag] == ["answer", "header"]
    first, second = (one for one in tree_of(made).iter("section") if str(one.get("id")).startswith("subject"))
    assert [[one.get("open") for one in part.iter("details")] for part in (first, second)] == [[None], [""]]
    assert [words_of(one) for one in body.iter("h1")] == [study.by_epsilon[0].advice.headline]
    for place, value in (("people", "many"), ("share", 1e308)):
        (tmp_path / "a.json").write_text(json.dumps({**record, "answer": {**record["answer"], place: value}}))
        with pytest.raises(InputError, match=r"a\.json (cannot be shown|has)"):
            undrawn_report([tmp_path / "a.json"])


def test_names_are_unique_and_links_lead_somewhere(tree: Trees.Element) -> None:
    names = Counter(one.get("id") for one in tree.iter() if one.get("id"))
    assert [name for name, count in names.items() if count > 1] == []
    told = [one.get("href", "").removeprefix("#") for one in tree.iter() if one.get("href")]
    told += [name for one in tree.iter() for name in one.get("aria-labelledby", "").split()]
    told += re.findall(r"url\(#([^)]*)\)", " ".join(value for one in tree.iter() for value in one.attrib.values()))
    assert set(told) <= set(names)


def test_pictures_have_words_and_tables_have_headings(tree: Trees.Element) -> None:
    drawings = [one for one in tree.iter() if one.tag in ("svg", f"{SVG}svg")]
    assert len(drawings) >= 8
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


def test_text_can_be_read() -> None:
    """In every colour that text has, in light and dark, on what is behind it."""
    sheet = page_style()
    inks = {*re.findall(r"(?<![\w-])color: var\(--([\w-]+)\)", sheet)} - {"c"}
    inks |= set(re.findall(r"--c: var\(--([\w-]+)\)", sheet))
    assert len(inks) >= 8
    behind = {ink: ("warned",) if ink == "warning" else ("paper", "panel") for ink in inks}
    pairs = [(COLOURS[ink][theme], COLOURS[one][theme]) for ink in inks for one in behind[ink] for theme in (0, 1)]
    assert min(contrast(*pair) for pair in pairs) >= LEAST
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.few(3)
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
def test_what_is_not_private_says_so_on_the_first_screen(name: str, words: str, page_of: PageOf) -> None:
    header = next(tree_of(page_of(name)).iter("header"))
    warned = " ".join(words_of(one) for one in header.iter("p") if one.get("class") == "warning")
    assert words in warned


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run", ["devices answered questions of the design", "neighbours replace, delta 0"]),
        ("online", ["neighbours add-remove, delta 0", "add-remove"]),
        ("compare", ["each mechanism on the same", "nobody in the file is protected"]),
    ],
)
def test_headlines_warnings_and_relations_are_said_once(name: str, words: list[str], page_of: PageOf) -> None:
    shown = words_of(tree_of(page_of(name)))
    assert [shown.count(part) for part in words] == [1, 1]
    assert shown.count("nobody in the file is protected") == (name == "compare")
    assert name != "run" or "add-remove" not in shown


def test_no_guess_is_bounded_where_nothing_bounds_it(page_of: PageOf) -> None:
    heads = {
        name: words_of(next(tree_of(page_of(name)).iter("header")))
        for name in ("run", "copies", "online", "pmc", "silent", "item-query")
    }
    assert ["tells the true one" in heads[name] for name in ("pmc", "silent", "item-query")] == [False] * 3
    assert "tells the true one at most 96 of 100 times at epsilon 3 (one device); a coin" in heads["run"]
    assert "always at epsilon 34 (one person, all devices" in heads["copies"]


def test_the_same_results_make_the_same_page(subjects: list[Path]) -> None:
    one, other = (undrawn_report(subjects[:1]) for _ in range(2))
    assert one == other


def test_the_page_has_a_section_for_each_family(tree: Trees.Element, subjects: list[Path]) -> None:
    families = [words_of(one).rsplit(" ", 1)[-1] for one in tree.iter("h2")]
    families = [one for one in families if one != "protected"]  # of answers
    assert len(families) == (len(subjects) if THOROUGH else len(FAMILIES))
    assert {*families} == {*FAMILIES.values()}


# Results that liars are about.


RUN = {"design": "sign", "trust_model": "local", "guarantee": "epsilon-local differential privacy", "epsilon": 1.0}
LIARS = {"malicious": 0.05, "recommended": {"design": "sign", "pool_size": 2, "users": 1249251}}
PLAN: dict[str, object] = {"target": "all", "recommended": None}


def _warned(family: str, record: dict[str, object]) -> list[str]:
    subject = Subject(number=1, path=Path("result.json"), family=family, documents={"result": record}, sha256="")
    return ReportSection(subject=subject).warnings


def test_a_run_and_a_plan_with_liars_warn_of_them() -> None:
    assert _warned("run", dict(RUN)) == _warned("plan", PLAN) == []
    (of_run,) = _warned("run", {**RUN, "malicious": 0.1, "attack": "untargeted"})
    assert of_run.startswith("A share of 0.1 of the devices lied (attack untargeted)")
    (of_plan,) = _warned("plan", {**PLAN, "withstanding": LIARS})
    assert of_plan.endswith("If a share of 0.05 lies, sign in pools of 2 takes 1,249,251 users.")
    (none,) = _warned("plan", {**PLAN, "withstanding": {**LIARS, "recommended": None}})
    assert none.endswith("lies, no design is known to reach it.")


# The command, what it refuses, and the command on the page that repeats a run.


@pytest.mark.usefixtures("pictureless")
def test_the_page_of_a_run_repeats_it(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ["run", "--items", "12", "--rated", "4", "--users", "300", "--seed", "5", "--backend", "inprocess"]
    assert blindrec(*made, "--out", tmp_path / "one").code == 0
    assert blindrec("report", tmp_path / "one", "--out", tmp_path / "one.html").out == ""
    refusal = refused(blindrec, "report", tmp_path / "one", "--out", tmp_path / "one.html")
    assert "one.html is there already; name another file, or give --force to write over it" in refusal
    ended = blindrec("report", tmp_path / "one", "--out", tmp_path / "one.html", "--force")
    assert ended.code == 0
    assert "one.htmliswritten," in "".join(ended.err.split())
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    typed, again, scenario = (words_of(one) for one in tree_of(page).iter("pre"))
    assert shlex.split(typed) == ["blindrec", *made, "--out", str(tmp_path / "one")]
    (tmp_path / "scenario.json").write_text(scenario, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    repeated = blindrec(*shlex.split(again)[1:], "--json", "-").result
    assert repeated["releases_sha256"] in page
    assert repeated["accuracy"] == json.loads((tmp_path / "one" / "result.json").read_text())["accuracy"]


@pytest.mark.usefixtures("pictureless")
def test_a_file_of_json_says_which_command_made_it(blindrec: Command, tmp_path: Path) -> None:
    ratings = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=20, items=10, each=5))
    flags = ["data", str(ratings), "--json", str(tmp_path / "data.json")]
    assert blindrec(*flags).code == 0
    assert blindrec("report", tmp_path / "data.json", "--out", tmp_path / "data.html").code == 0
    page = (tmp_path / "data.html").read_text(encoding="utf-8")
    assert [words_of(one) for one in tree_of(page).iter("pre")] == [shlex.join(["blindrec", *flags])]
    assert "python" in {words_of(one) for one in tree_of(page).iter("th")}


@pytest.mark.usefixtures("pictureless")
def test_what_was_called_from_python_says_that_no_command_made_it(tmp_path: Path) -> None:
    scenario = face.Scenario(items=12, rated=4, users=300)
    face.run(scenario, face.InProcess(workers=1), out=tmp_path / "run", progress=False)
    assert face.report(tmp_path / "run", out=tmp_path / "a.html") == tmp_path / "a.html"
    assert "The command was not kept" in (tmp_path / "a.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.html is there already"):
        face.report(tmp_path / "run", out=tmp_path / "a.html")
    assert face.report(tmp_path / "run", out=tmp_path / "a.html", force=True) == tmp_path / "a.html"


def test_a_file_that_was_read_is_known_by_its_digest(subjects: list[Path]) -> None:
    told = json.loads((subjects[1] / "versions.json").read_text())
    assert re.fullmatch("[0-9a-f]{64}", told["source_sha256"])


@pytest.mark.usefixtures("pictureless")
def test_words_of_a_result_are_no_html(tmp_path: Path, subjects: list[Path]) -> None:
    told: dict[str, Any] = json.loads((subjects[0] / "result.json").read_text())
    told["design"], told["guarantee"] = "<script>alert(1)</script>", "none: <b onclick=1>"
    (tmp_path / "<i>.json").write_text(json.dumps({**told, "provenance": {"command": "</pre><script>"}}))
    face.report(tmp_path / "<i>.json", out=tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert not {"script", "i"} & {one.tag for one in next(tree_of(page).iter("header")).iter()}
    assert "<script" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("content", "out", "line"),
    [
        (None, "a.html", "cannot be read"),
        ("{", "a.html", "cannot be read (it is no JSON"),
        ('{"bounds": []}', "a.html", "holds a record that no report shows; name a result of audit, compare"),
        ("{}", "a.txt", "name a file that ends in .html"),
        ("{}", "nowhere/a.html", "name a file in an existing folder"),
    ],
)
def test_what_is_wrong_is_refused(content: str | None, out: str, line: str, blindrec: Command, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    assert line in refused(blindrec, "report", tmp_path / "a.json", "--out", tmp_path / out)
    assert not (tmp_path / out).exists()


def test_a_folder_whose_command_has_not_ended_is_refused(blindrec: Command, tmp_path: Path) -> None:
    assert "holds no result.json" in refused(blindrec, "report", tmp_path, "--out", tmp_path / "a.html")


# What sections are made of


def test_every_kind_of_promise_has_words_and_limits() -> None:
    assert {kind for kind, text in KINDS.items() if text.loud} == {"none", "deniability", "part"}
    assert all(text.trusted and text.meaning and text.limits for text in KINDS.values())
