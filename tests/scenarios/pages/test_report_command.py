"""`blindrec report`: the files that it writes, what it refuses, and the command on the page that repeats the run."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Trees

import pytest
from page_proof import faults_of, tree_of, words_of
from runs import Command, planted_ratings, refused, write_movielens

import blindrec as face


def test_the_page_of_a_run_repeats_it(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ["run", "--items", "12", "--rated", "4", "--users", "300", "--seed", "5", "--backend", "inprocess"]
    assert blindrec(*made, "--out", tmp_path / "one").code == 0
    assert blindrec("report", tmp_path / "one", "--out", tmp_path / "one.html").out == ""
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert faults_of(page, [tmp_path / "one"]) == []
    typed, again, scenario = (words_of(one) for one in tree_of(page).iter("pre"))
    assert shlex.split(typed) == ["blindrec", *made, "--out", str(tmp_path / "one")]
    (tmp_path / "scenario.json").write_text(scenario, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    repeated = blindrec(*shlex.split(again)[1:], "--json", "-").result
    assert repeated["releases_sha256"] in page
    assert repeated["accuracy"] == json.loads((tmp_path / "one" / "result.json").read_text())["accuracy"]


def test_a_file_of_json_says_which_command_made_it(no_pairs: None, blindrec: Command, tmp_path: Path) -> None:
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


def test_a_file_that_was_read_is_known_by_its_digest(subjects: list[Path]) -> None:
    told = json.loads((subjects[1] / "versions.json").read_text())
    assert re.fullmatch("[0-9a-f]{64}", told["source_sha256"])


def test_words_of_a_result_are_no_html(tmp_path: Path, subjects: list[Path]) -> None:
    told: dict[str, Any] = json.loads((subjects[0] / "result.json").read_text())
    told["design"], told["guarantee"] = "<script>alert(1)</script>", "none: <b onclick=1>"
    (tmp_path / "<i>.json").write_text(json.dumps({**told, "provenance": {"command": "</pre><script>"}}))
    face.report(tmp_path / "<i>.json", out=tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert not {"script", "i"} & {one.tag for one in _header(page).iter()}
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def _header(page: str) -> Trees.Element:
    return next(tree_of(page).iter("header"))


@pytest.mark.parametrize(
    ("content", "out", "line"),
    [
        (None, "a.html", "cannot be read"),
        ("{", "a.html", "cannot be read (it is no JSON"),
        ('{"bounds": []}', "a.html", "holds a record that no report tells of; name a result of audit, compare"),
        ("{}", "a.txt", "name a file that ends in .html"),
        ("{}", "nowhere/a.html", "name a file in an existing folder"),
    ],
)
def test_what_cannot_be_told_is_refused(
    content: str | None, out: str, line: str, blindrec: Command, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    assert line in refused(blindrec, "report", tmp_path / "a.json", "--out", tmp_path / out)
    assert not (tmp_path / out).exists()


def test_a_folder_whose_command_has_not_ended_is_refused(blindrec: Command, tmp_path: Path) -> None:
    assert "holds no result.json" in refused(blindrec, "report", tmp_path, "--out", tmp_path / "a.html")


def test_a_pdf_needs_its_extra(
    blindrec: Command, tmp_path: Path, subjects: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    files = ["--out", tmp_path / "a.html", "--pdf", tmp_path / "a.pdf"]
    assert "pip install 'blindrec[pdf]'" in refused(blindrec, "report", subjects[0], *files)
    assert not (tmp_path / "a.html").exists()


def test_a_pdf_is_the_page(tmp_path: Path, subjects: list[Path]) -> None:
    pytest.importorskip("weasyprint", reason="the package weasyprint is not installed; it is the extra `pdf`")
    face.report(subjects[0], out=tmp_path / "a.html", pdf=tmp_path / "a.pdf")
    content = (tmp_path / "a.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert len(content) > 10_000
