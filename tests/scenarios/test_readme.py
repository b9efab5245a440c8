"""The README: its policy is short and runs as it stands, and what it says of worth is what was measured."""

import json
import re
from pathlib import Path

import pytest
from runs import Command, present

from benchmarks import worth
from benchmarks.pages import ROOT

README = ROOT / "README.md"


def test_the_readme_is_short() -> None:
    """Its prose and tables have at most 700 words, and its code is read at a glance."""
    text = README.read_text(encoding="utf-8")
    assert len(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split()) <= 700
    assert all(code.count("\n") <= 25 for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def test_all_pages_are_read_in_an_afternoon() -> None:
    """README, pages and tutorials have at most 25,000 words outside of tables, which are made from data."""
    texts = [file.read_text(encoding="utf-8") for file in (README, *ROOT.glob("docs/**/*.md"))]
    for file in ROOT.glob("docs/tutorials/*.ipynb"):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        texts += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    lines = [line for text in texts for line in text.splitlines() if not line.startswith("|")]
    assert sum(len(line.split()) for line in lines) <= 25_000


def test_it_ends_in_a_link_to_each_shelf() -> None:
    links = re.findall(r"\]\((.+?)\)", README.read_text(encoding="utf-8").partition("## Read on")[2])
    shelves = [f"docs/{shelf}" for shelf in ("tutorials", "how-to", "reference", "explanation")]
    assert links == [*shelves, "docs/explanation/architecture.md"]


def test_the_mechanism_in_the_readme_runs(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "mine.py").write_text(next(block for block in blocks if "mine.py" in block), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    world = ["--items", 20, "--rated", 5, "--users", 20_000, "--backend", "inprocess", "--json", "-"]
    ended = blindrec("run", "--design", "mine:Mine", "--epsilon", 2, *world)
    assert ended.code == 0
    assert ended.result["exact"]
    assert ended.result["channel"] == "checked exactly"


def test_picture_tables_and_sentences_of_what_it_is_worth_say_what_was_measured() -> None:
    """They are all made from docs/worth.json; `python -m benchmarks.worth` makes them anew."""
    data = json.loads((ROOT / worth.DATA).read_text(encoding="utf-8"))
    assert {page for page, *_ in worth.blocks(data)} == {worth.README, worth.PAGE, worth.LIARS}
    assert worth.differing(data) == []


def test_the_page_of_all_tables_has_every_cell() -> None:
    data = json.loads((ROOT / worth.DATA).read_text(encoding="utf-8"))
    before = worth.tables_page(data)
    assert before.count("\n## ") == 3
    row = next(row for row in data["jester"]["rows"] if row["trust_model"] == "local")
    row["ndcg"] = 0.999
    assert len(set(worth.tables_page(data).splitlines()) - set(before.splitlines())) == 1


EVERYWHERE = (worth.README, worth.PAGE, worth.LIARS, worth.PICTURE, worth.LADDER, worth.DATA)


@pytest.mark.usefixtures("unfitted")
@pytest.mark.few(1)
@pytest.mark.parametrize("place", EVERYWHERE)
def test_a_picture_a_table_or_a_sentence_that_says_something_else_is_found(place: str, tmp_path: Path) -> None:
    (tmp_path / "docs/explanation").mkdir(parents=True)
    for name in EVERYWHERE:
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    data = json.loads((ROOT / worth.DATA).read_text(encoding="utf-8"))
    worth.write(data, tmp_path)
    assert worth.differing(data, tmp_path) == []
    if place == worth.DATA:
        next(row for row in data["small"]["rows"] if row["mechanism"] == "EASE")["ndcg"] += 0.5
        assert worth.differing(data, tmp_path) == [worth.PICTURE]
        return
    if place == worth.LADDER:
        few = [row for row in data["ladder"]["people"] if row["trust_model"] != "shuffled"]
        worth.draw({**data["ladder"], "people": few}, tmp_path / place)
    elif place == worth.PICTURE:
        other = next(row for row in data["small"]["rows"] if row["trust_model"] == "curator")
        worth.draw({**data["small"], "rows": [other]}, tmp_path / place)
    else:
        text = (tmp_path / place).read_text(encoding="utf-8")
        number = present(re.search(rf"(?s)<!-- worth: .*?(\d\d){'k' if place != worth.LIARS else ' '}", text))
        changed = text[: number.start(1)] + f"{(int(number[1]) + 7) % 100:02}" + text[number.end(1) :]
        (tmp_path / place).write_text(changed, encoding="utf-8")
    (wrong,) = worth.differing(data, tmp_path)
    assert wrong.startswith(place)
