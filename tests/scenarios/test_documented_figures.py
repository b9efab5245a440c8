"""README and docs: every command that they show is listed, and figures of quick ones are measured."""

import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from thoroughness import sample

from benchmarks import documented, measured
from benchmarks.measured import measured_tables
from benchmarks.pages import (
    Printed,
    Shown,
    commands,
    folder_of_pages,
    modules,
    pages,
    printed_blocks,
    programs,
    read,
    shown,
)
from coordinator.protocol.errors import InputError
from scenarios.backends.selection import Ray
from scenarios.cli import command_line
from scenarios.cluster.job_request import parsed

REMOTE = ("submit", "status", "watch", "fetch", "stop")  # Commands to a cluster's head: tests/deploy parses them
ROOT = Path(__file__).parents[2]
TABLE = documented.table()
SHOWN = shown()


RUNS = ("compare", "demo", "online", "run", "sweep", "two-tier")  # Commands that open a backend
ON_RAY = (
    "make demo",
    "blindrec run --items 1000 --rated 30 --users 2000000 --epsilon 1 --like 0.9,0.1 --repeat 20 --json result.json",
    "blindrec sweep accuracy --out sweep",
)
"""Commands of pages that choose Ray, as they stand there."""


def words_of(entry: dict[str, Any]) -> list[str]:
    """The words of what is run of a quick entry."""
    return shlex.split(entry.get("run", entry["command"]))[1:]


def quick(*, on_ray: bool) -> pytest.MarkDecorator:
    """Quick entries that run on Ray, or that do not."""
    some = [one for one in TABLE["quick"] if on_ray == (one["command"] in ON_RAY)]
    return pytest.mark.parametrize(
        "entry", sample(some, 1) if on_ray else some, ids=lambda entry: f"{entry['page']}: {entry['command']}"
    )


@pytest.mark.cluster
@quick(on_ray=True)
def test_a_quick_command_runs_on_ray_and_measures_the_figures_beside_it(lent: None, entry: dict[str, Any]) -> None:
    """On the backend that a reader gets who types what the page shows."""
    words = [word for word in words_of(entry) if word not in ("--backend", "ray")]
    check_figures({**entry, "run": shlex.join(["blindrec", *words, "--backend", "ray"])})


@pytest.mark.parametrize(
    "entry", [one for one in TABLE["quick"] if words_of(one)[0] in RUNS], ids=lambda entry: str(entry["command"])
)
def test_a_page_says_what_chooses_its_backend(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def opening(backend: object) -> None:
        opened.append(backend)
        raise InputError("chosen")

    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setattr("scenarios.backends.selection.opened", opening)
    demo = "blindrec demo --backend ray"
    assert f"$(BIN)/{demo}" in (ROOT / "Makefile").read_text(encoding="utf-8")
    typed = {**entry, "run": demo if entry["command"] == "make demo" else entry["command"]}
    with folder_of_pages(), pytest.raises(ValueError, match="chosen"):
        documented.run_entry(typed)
    assert [isinstance(one, Ray) for one in opened] == [entry["command"] in ON_RAY]


@pytest.mark.few(8)
@quick(on_ray=False)
def test_figures_beside_a_quick_command_are_measured(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS")  # nothing is predicted where a cluster is named
    check_figures(entry)


def check_figures(entry: dict[str, Any]) -> None:
    """Run an entry's command; hold the page's figures and tables against what it says."""
    with folder_of_pages():
        result, output = documented.run_entry(entry)
    faults = [
        documented.compare(entry["page"], entry["command"], template, result) for template in entry.get("says", ())
    ]
    assert not any(faults := [*faults, *documented.untrue(entry, output)]), "\n".join(filter(None, faults))


@pytest.mark.few(2)
@pytest.mark.parametrize("entry", TABLE["program"], ids=lambda entry: str(entry.get("program", entry.get("command"))))
def test_a_page_states_what_its_program_prints(entry: dict[str, Any]) -> None:
    (one,) = [one for one in SHOWN if documented.stands_for(entry, one)]
    with folder_of_pages():
        output = documented.printed(one.text)
    faults = [documented.differing(one.page, template, output) for template in entry.get("says", ())]
    assert not any(faults := [*faults, *documented.untrue(entry, output)]), "\n".join(filter(None, faults))


def test_every_command_and_program_is_listed_once() -> None:
    """So no figure is added that nobody can refresh."""
    assert len(SHOWN) > 100
    assert not (lost := unlisted(SHOWN)), "docs/figures.toml must list each once:\n" + "\n".join(lost)


def unlisted(every: Iterable[Shown]) -> list[str]:
    """What is not listed once."""
    return [
        f"{one.page}: {one.text[:200]!r} is listed {len(kinds)} times"
        for one in every
        if len(kinds := documented.listed_as(one)) != 1
    ]


def test_what_a_page_gains_must_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in blocks and in the text, lines of shell of any program, programs, and tables that nothing prints."""
    gained = "```\nblindrec run --users 7\nkubectl get pods\n```\n`make nothing` `python -m benchmarks.nothing`\n"
    gained += "```python\nx = 1\n```\n```\n│ users │ 7 │\n```\n"
    monkeypatch.setattr("benchmarks.pages.read", lambda _: gained)
    new = [Shown("README.md", one) for find in (commands, programs) for one in find(gained)]
    assert len(unlisted(new)) == len(new) == 5
    (table_of_nobody,) = printed_blocks("README.md")
    assert table_of_nobody.commands == ("blindrec run --users 7", "kubectl get pods")
    assert not held(table_of_nobody)


def held(block: Printed) -> bool:
    """Whether a test compares it with what a command prints, or the list says what else it is."""
    said = [
        one for one in TABLE["picture"] if one["page"] == block.page and block.text.strip().startswith(one["begins"])
    ]
    runs = [one for kind in ("quick", "program") for one in TABLE[kind] if one["page"] == block.page]
    return len(said) == 1 or (not said and bool({*block.commands} & {one.get("command") for one in runs}))


def test_every_table_is_compared_and_every_picture_is_listed() -> None:
    blocks = [block for page in pages() for block in printed_blocks(page)]
    assert len(blocks) > 8
    assert not [(block.page, block.text) for block in blocks if not held(block)]
    for one in TABLE["picture"]:
        assert any(b.page == one["page"] and b.text.strip().startswith(one["begins"]) for b in blocks), one


def test_modules_of_pages_can_be_imported() -> None:
    names = [name for page in pages() for name, _ in modules(read(page))]
    assert len(names) == len(set(names)) >= 5
    with folder_of_pages():
        for name in names:
            importlib.import_module(name.removesuffix(".py"))


def test_a_table_that_a_command_does_not_print_is_found() -> None:
    output = "title\n┌────┐\n│ users  │ 7 │\n│ right │ 0.9 │\n│ seconds │ 1 │\n└──┘\n"
    assert documented.strangers("│ users │ 7 │\n│ seconds │ 2 │\n", output, ["seconds"]) == []
    assert documented.strangers("│ users │ 8 │\n", output) == ["│ users │ 8 │"]
    assert documented.strangers("│ right │ 0.9 │\n│ users │ 7 │\n", output) == ["│ users │ 7 │"]


def test_the_list_holds_nothing_that_no_page_shows() -> None:
    entries = [entry for kind, some in TABLE.items() for entry in some if kind != "picture"]
    texts = {
        (entry["page"], one) for entry in entries for one in (*entry.get("commands", ()), entry.get("command")) if one
    }
    assert texts <= {(one.page, one.text) for one in SHOWN}
    assert all(any(documented.stands_for(entry, one) for one in SHOWN) for entry in entries)
    assert all(entry["figures"] and entry["ran"] for entry in TABLE["long"])
    assert all(entry["ran"] <= datetime.now(UTC).date() for entry in entries if "ran" in entry)
    assert all(entry["why"] for kind in ("long", "example", "picture") for entry in TABLE[kind])


@pytest.mark.parametrize(
    "one", [one for one in SHOWN if not one.text.count("\n")], ids=lambda one: f"{one.page}: {one.text}"
)
def test_every_command_is_one_that_there_is(one: Shown) -> None:
    words = [re.sub("^[A-Z]$", "1", word) for word in shlex.split(one.text)]
    if one.text.startswith("python -m"):
        assert importlib.util.find_spec(words[2]) is not None
    elif words[0] == "make":
        assert f"\n{words[1]}:" in read("Makefile")
    elif words[0] == "blindrec" and not {"[", "...", "--help"} & {*words, *one.text} and words[1] not in REMOTE:
        parsed(command_line(), words[1:])


FORMULAS = ("formulas-of-one-value", "formulas-of-bits-and-sets", "groups-of-pairs", "what-one-liar-moves")
"""Tables of docs/measured.json that nobody measures."""


def test_every_measured_table_names_the_command_that_made_it_and_the_day() -> None:
    tables = measured_tables()
    assert len(tables) > 50
    assert (ROOT / measured.DATA).read_text(encoding="utf-8") == measured.text(tables)
    assert sorted(name for name, entry in tables.items() if "command" not in entry) == sorted(FORMULAS)
    for name, entry in tables.items():
        assert date.fromisoformat(entry["ran"]) <= datetime.now(UTC).date()
        assert {len(row) for row in entry["rows"]} == {len(entry["columns"])}
        assert all(isinstance(cell, str) for row in entry["rows"] for cell in row)
        if name in FORMULAS:
            assert entry["why"]
        elif "commit" not in entry:  # there the program stood that is gone now
            test_every_command_is_one_that_there_is(Shown(measured.DATA, entry["command"]))


def test_rows_of_a_table_that_was_measured_again_are_those_that_its_command_printed(tmp_path: Path) -> None:
    """A Markdown table among other lines, or a CSV; the page of all tables and its CSV have them, and the new day."""
    (tmp_path / "docs").mkdir()
    old = {"command": "blindrec plan", "also": "twice", "ran": "2020-01-01", "columns": ["a"], "rows": [["1"]]}
    (tmp_path / measured.DATA).write_text(measured.text({"some-table": old, "other": old}), encoding="utf-8")
    printed_rows = "seconds: 3\n| f* | now, then |\n|---|---|\n| 7 | .1 [.0, .2] |\n"
    for content in (printed_rows, 'f*,"now, then"\n7,".1 [.0, .2]"\n'):
        (tmp_path / "printed").write_text(content, encoding="utf-8")
        measured.measured_anew("some-table", tmp_path / "printed", None, tmp_path)
        tables = measured_tables(tmp_path)
        today = datetime.now(UTC).date().isoformat()
        rows = {"columns": ["f*", "now, then"], "rows": [["7", ".1 [.0, .2]"]]}
        assert tables == {"some-table": {**old, "ran": today, **rows}, "other": old}
        page = measured.page(tables)
        assert f"## Some table\n\n`blindrec plan` (twice), {today}" in page
        assert "| f\\* | now, then |\n|---|---|\n| 7 | .1 [.0, .2] |" in page
        assert measured.csv_of(tables["some-table"]) == 'f*,"now, then"\n7,".1 [.0, .2]"\n'
    with pytest.raises(SystemExit, match="--command"):
        measured.measured_anew("new", tmp_path / "printed", None, tmp_path)


NO_MEASUREMENT = ("C_T about 4.2 to 5.6", "here 3.11, also", "to the digit: 2.60.0", "the first 100,000 devices")
"""What typed tables say with numbers: a constant of a proof, versions, how much is stored."""


def typed(text: str) -> list[str]:
    """Lines of Markdown tables that no command made, with a number that looks measured outside of code."""
    made = re.sub(r"<!-- worth: .*?<!-- end -->", "", text, flags=re.DOTALL)
    lines = [re.sub(r"`[^`]*`", "", line) for line in re.findall(r"^\|.*$", made, re.MULTILINE)]
    return [line for line in lines if re.search(r"\d[.,]\d|(?<!\w)\.\d|\d ?%|±|\d k?B\b", line)]


def test_no_page_has_a_typed_table_of_measurements() -> None:
    """Tables of measurements are made from JSON files (`python -m benchmarks.measured`), between marks of pages."""
    faults = [f"{page}: {line}" for page in pages() for line in typed(read(page))]
    assert not [line for line in faults if not any(one in line for one in NO_MEASUREMENT)]
    assert typed("| set | .97 |\n| pairs | 1,200 |\n| `0.5` | a |\n") == ["| set | .97 |", "| pairs | 1,200 |"]
    assert typed("<!-- worth: x -->\n| set | .97 |\n<!-- end -->\n") == []


def test_a_wrong_figure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "Some words.\n│ items right │ 0.95 │\n│ users       │ 74,480 │\nand 1,000 of them.\n"
    monkeypatch.setattr("benchmarks.documented.read", lambda _: page)
    right = {"accuracy": 0.95, "users": 74480, "rows": [{"answered": 1000}]}
    for template in ("right │ {accuracy:.2f} │ users │ {users:,} │", "and {rows[0][answered]:,} of them."):
        assert documented.compare("p", "c", template, right) == ""
    differences = documented.compare("p", "c", "users │ {users:,} │", {"users": 69334})
    assert differences == "p: 'users │ {users:,} │' of `c`: documented 74,480, measured 69,334"
    assert "stands there 0 times" in documented.compare("p", "c", "users were {users:,}", right)
    assert documented.differing("p", "right │ {1} │ users │ {0} │", "74480 and 0.951, 1000") == ""
    assert documented.differing("p", "right │ {1} │ users │ {0} │", "74481 and 0.956").endswith(
        "documented 0.95, printed 0.956; documented 74,480, printed 74481.0"
    )
