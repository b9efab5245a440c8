"""`blindrec report`: valid HTML that loads nothing and that everybody can read, whose numbers all stand in the JSON.

It says loudly what is not private, names the command that repeats a run, and refuses what it cannot tell of.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Trees

import pytest
from page_proof import SVG, faults_of, says, tree_of, words_of
from runs import Command, planted_ratings, present, refused, write_movielens

import blindrec as face
from coordinator.protocol.errors import InputError
from scenarios import pages
from scenarios.pages.page import people_in_words, report_of, section_of_experiment, section_of_plan
from scenarios.pages.schema import SCHEMAS, Subject
from scenarios.pages.traced import KINDS, PrivacyPromise, Traced, sentence

pytestmark = pytest.mark.usefixtures("undrawn")
SHEET = Path(pages.__file__).parent / "templates" / "style.css"
PageOf = Callable[[str], str]
LEAST = 4.5  # Contrast of text, by the Web Content Accessibility Guidelines, level AA


@pytest.fixture(scope="module")
def page_of(subjects: list[Path]) -> PageOf:
    """The page of one result by its name, made once."""
    by_name = {path.name.removesuffix(".json"): path for path in subjects}
    return cache(lambda name: report_of([by_name[name]]))


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


def test_no_belief_is_bounded_where_nothing_bounds_it(page_of: PageOf) -> None:
    for name in ("pmc", "silent"):
        assert "data-belief" not in page_of(name), name
    assert re.search(r'data-belief="at-most" data-prior="0.5">100.0 %<', page_of("item-query"))
    assert "data-belief" in page_of("run")
    assert re.search(r"one person, all devices.*data-belief", page_of("copies"), re.DOTALL)


def test_the_same_results_make_the_same_page(page_of: PageOf, subjects: list[Path]) -> None:
    assert report_of(subjects[:1]) == page_of("run")


# Every number stands in the JSON that the page names for it; and a wrong number is found.


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


@pytest.mark.few(1)
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
    match = present(re.search(r'data-belief="at-most" data-prior="0.5">95.3 %<', page))
    for wrong in ("95.2 %", "95.4 %"):
        assert faults_of(page.replace(match[0], match[0].replace("95.3 %", wrong)), subjects)


@pytest.mark.parametrize(
    ("told", "value", "other"),
    [
        *(("0.9871", 0.98711, 0.98761), ("98.7 %", 0.98711, 0.9881), ("1,234", 1234, 1235), ("1", 1.0, 1.01)),
        *(("yes", True, False), ("no", False, True), ("infinite", "inf", 1.0)),
    ],
)
def test_what_counts_as_the_same(told: str, value: object, other: object) -> None:
    assert says(told, value)
    assert not says(told, other)


def test_the_page_has_a_section_for_each_family(page: str, subjects: list[Path]) -> None:
    families = [words_of(one).rsplit(" ", 1)[-1] for one in tree_of(page).iter("h2")]
    assert len(families) == len(subjects)
    assert set(families) == {"run", "two-tier", "online", "sweep", "plan", "compare", "data", "audit"}


# Results that liars are about.


RUN = {"design": "sign", "trust_model": "local", "guarantee": "epsilon-local differential privacy", "epsilon": 1.0}
LIARS = {"malicious": 0.05, "recommended": {"design": "sign", "pool_size": 2, "users": 1249251}}


def _made(family: str, record: dict[str, object]) -> Subject:
    return Subject(number=1, path=Path("result.json"), schema=SCHEMAS[family], documents={"result": record})


def test_each_trust_model_and_epsilon_has_a_sentence_from_nobody_to_a_curator() -> None:
    """That of the mechanism which takes the fewest people, features included; rows without noise are none of these."""
    common: dict[str, Any] = {"features": False, "share": 0.95, "at_most": False, "trust_model": "local"}
    common |= {"epsilon": 1.0, "mechanism": "set", "users": 590_000, "users_low": 400_000, "users_high": 860_000}
    common |= {"least": 610, "most": 10**6}
    rows = [
        {**common, "trust_model": "curator", "users": 610, "at_most": True},
        common,
        {**common, "mechanism": "pairs", "users": 700_000},
        {**common, "mechanism": "sign", "users": None},
        {**common, "users": 25_000, "features": True, "users_low": 20_000, "users_high": None, "epsilon": 4.0},
        {**common, "users": 7, "epsilon": "inf"},
        {**common, "epsilon": 0.5, "users": None},
        {**common, "epsilon": 2.0, "users": 29_455, "users_low": None, "users_high": None},
    ]
    traced = Traced(rows, "1/result#/people").rows()
    said = [re.sub(r"<[^>]+>", "", one) for one in people_in_words(traced)]
    lines = [
        ("nobody", "1", "590,000 [400,000, 860,000] people make"),
        ("nobody", "4", "25,000 [20,000, more than 1,000,000] people make"),
        ("nobody", "0.5", "no number of people up to 1,000,000 makes"),
        ("nobody", "2", "29,000 [fewer than 610, more than 1,000,000] people make"),
        ("a curator", "1", "at most 610 people make"),
    ]
    list_of = "a list as good as 95.0 % of popularity (set"
    assert said == [
        f"If {who} is trusted, at epsilon {epsilon}, {many} {list_of}{' with features' * (epsilon == '4')})."
        for who, epsilon, many in lines
    ]


def test_a_run_with_liars_warns_of_them() -> None:
    assert not section_of_experiment(_made("run", dict(RUN))).warnings
    (warning,) = section_of_experiment(_made("run", {**RUN, "malicious": 0.1, "attack": "untargeted"})).warnings
    assert "1/result#/malicious" in str(warning)
    assert "of the devices lied" in str(warning)


def test_a_plan_with_liars_says_what_they_take() -> None:
    assert not section_of_plan(_made("plan", {"target": "all"})).warnings
    (warning,) = section_of_plan(_made("plan", {"target": "all", "withstanding": LIARS})).warnings
    assert "1,249,251</data> users" in str(warning)
    (none,) = section_of_plan(_made("plan", {"target": "all", "withstanding": {**LIARS, "recommended": None}})).warnings
    assert "no design is known to reach the target" in str(none)


# The command, what it refuses, and the command on the page that repeats a run.


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
    assert faults_of(page, [tmp_path / "one"]) == []
    typed, again, scenario = (words_of(one) for one in tree_of(page).iter("pre"))
    assert shlex.split(typed) == ["blindrec", *made, "--out", str(tmp_path / "one")]
    (tmp_path / "scenario.json").write_text(scenario, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    repeated = blindrec(*shlex.split(again)[1:], "--json", "-").result
    assert repeated["releases_sha256"] in page
    assert repeated["accuracy"] == json.loads((tmp_path / "one" / "result.json").read_text())["accuracy"]


def test_a_file_of_json_says_which_command_made_it(blindrec: Command, tmp_path: Path) -> None:
    ratings = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=20, items=10, each=5))
    flags = ["data", str(ratings), "--json", str(tmp_path / "data.json")]
    assert blindrec(*flags).code == 0
    assert blindrec("report", tmp_path / "data.json", "--out", tmp_path / "data.html").code == 0
    page = (tmp_path / "data.html").read_text(encoding="utf-8")
    assert [words_of(one) for one in tree_of(page).iter("pre")] == [shlex.join(["blindrec", *flags])]
    assert "python" in {words_of(one) for one in tree_of(page).iter("th")}
    assert faults_of(page, [tmp_path / "data.json"]) == []


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
    """Of a kind without words a page would say nothing."""
    parts = (SHEET.parent / "parts.html").read_text(encoding="utf-8")
    told = parts.split("{% macro meaning")[1]
    for kind in KINDS:
        assert told.count(f'kind == "{kind}"') == 2
        assert PrivacyPromise(kind=kind).loud == (kind in ("none", "deniability", "part"))


def test_a_sentence_names_the_place_of_each_value_and_escapes_its_words() -> None:
    record = Traced({"best": {"users": 1234, "users_low": 1000.0}, "name": "<b>", "share": 0.5}, "1/result#")
    told = sentence("{best/users:+people} by {name}, {share:percent}; {missing/there} {other}", record, other="<i>")
    assert told == (
        '<data value="1/result#/best/users">1,234</data> <span class="interval">[<data '
        'value="1/result#/best/users_low">1,000</data>, &ndash;]</span> by <data '
        'value="1/result#/name">&lt;b&gt;</data>, '
        '<data value="1/result#/share">50.0 %</data>; &ndash; &lt;i&gt;'
    )
