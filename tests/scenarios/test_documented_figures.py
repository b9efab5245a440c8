"""What pages say that commands print is what they print, and every command of a page is one that there is."""

import importlib
import importlib.util
import pydoc
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from evidence import sample

from benchmarks import documented, measured
from benchmarks.measured import measured_tables
from benchmarks.pages import MODULE, ROOT, SHELL, blocks, commands, folder_of_pages, lines_of, modules, pages, read
from scenarios.backends import ray_instance
from scenarios.cli import command_line
from scenarios.cluster.job_request import parsed

CLAIMS = documented.claims()
COMMANDS = [(page, command) for page in pages() for command in commands(read(page))]
REMOTE = ("submit", "status", "watch", "fetch", "stop")  # Commands to a cluster's head: tests/deploy parses them
ON_RAY = ("make demo", "blindrec sweep accuracy --out sweep")
"""Commands with claims that choose Ray, as they stand there."""
DEAR = ("blindrec adversary slow-halving",)
"""Commands of seconds, whose results golden results hold, too."""
PICTURES = (
    "E[Q_ij S]",
    "U_c =",
    "E[H_i S",
    "one vector:",
    "blindrec/ ",
    "run seed ──",
    "#!/bin/bash",
    "run: 5 rounds over",
)
"""How blocks begin that no quick command prints: formulas, drawings, a script, what a long run said."""


def claims(*, on_ray: bool) -> pytest.MarkDecorator:
    """What pages claim of commands that run on Ray, or that do not."""
    some = [one for one in CLAIMS if on_ray == (one.program in ON_RAY)]
    return pytest.mark.parametrize(
        "claim",
        [
            pytest.param(
                claim,
                id=f"{claim.page}: {claim.program[:80]}",
                marks=[pytest.mark.thorough] * (claim.program in DEAR),
            )
            for claim in (sample(some, 1) if on_ray else some)
        ],
    )


def wrong_claims(claim: documented.Claim, result: dict[str, Any], output: str) -> list[str]:
    """Return what a page says otherwise than its command."""
    where = f"{claim.page}: `{claim.program}`"
    lost = [line for block in claim.blocks for line in strangers(block, output)]
    wrong = [(figure["figure"], documented.measured(figure, result)) for figure in claim.figures]
    return [f"{where} does not print {line!r}" for line in lost] + [
        f"{where}: documented {stated}, measured {now}" for stated, now in wrong if stated != now
    ]


def strangers(block: str, output: str) -> Iterator[str]:
    """Yield the lines of a block that a command does not print in this order."""
    now = iter([_tokens(line) for line in output.splitlines()])
    return (line for line in block.splitlines() if _tokens(line) and _tokens(line) not in now)


def _tokens(line: str) -> str:
    """Return a line without the characters that draw a table."""
    return " ".join(re.sub("[─━│┃┌┐└┘├┤┬┴┼┏┓┗┛┡┩╇]", " ", line).split())


@pytest.mark.cluster
@claims(on_ray=True)
def test_what_a_page_says_of_a_command_on_ray_is_what_it_prints(
    lent: None, claim: documented.Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the backend that a reader gets who types what the page shows."""
    monkeypatch.setattr(ray_instance, "on_ray", joined := Mock(wraps=ray_instance.on_ray))
    with folder_of_pages():
        told = documented.outcome(claim.program)
    joined.assert_called_once()
    assert wrong_claims(claim, *told) == []


@pytest.mark.few(5)  # half a minute together
@claims(on_ray=False)
def test_what_a_page_says_is_what_its_command_prints(claim: documented.Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS")  # nothing is predicted where a cluster is named
    monkeypatch.setattr(ray_instance, "on_ray", lambda **_: pytest.fail("it chooses Ray"))
    with folder_of_pages():
        told = documented.outcome(claim.program)
    assert wrong_claims(claim, *told) == []


def test_a_page_that_says_something_else_is_found() -> None:
    page = "```\nblindrec run\nblindrec x\n```\n```text\n│ users │ 7 │\n```\n"
    page += "`blindrec y --z` <!--rows.0.a:,-->1,000 <!--b-->2.\n"
    first, second = documented.claims_of("p", page)
    assert [one.program for one in (first, second)] == ["blindrec x", "blindrec y --z"]
    output = "title\n┌────┐\n│ users  │ 7 │\n│ right │ 0.9 │\n└──┘\n"
    assert wrong_claims(first, {}, output) == []
    assert wrong_claims(first, {}, output.replace("7", "8")) == ["p: `blindrec x` does not print '│ users │ 7 │'"]
    assert list(strangers("│ right │ 0.9 │\n│ users │ 7 │\n", output)) == ["│ users │ 7 │"]
    assert wrong_claims(second, {"rows": [{"a": 1000}], "b": 2}, "") == []
    (fault,) = wrong_claims(second, {"rows": [{"a": 1001}], "b": 2}, "")
    assert fault == "p: `blindrec y --z`: documented 1,000, measured 1,001"


def test_every_program_runs_and_every_printed_block_is_compared_or_is_a_picture() -> None:
    assert len(CLAIMS) > 15
    assert all(claim.program for claim in CLAIMS)
    for page in pages():
        for block in blocks(read(page), *SHELL):
            assert lines_of(block) or block.strip().startswith(PICTURES), (page, block)
        for block in blocks(read(page), "python"):
            assert MODULE.match(block) or block in {claim.program for claim in CLAIMS}, (page, block)


def test_modules_of_pages_can_be_imported() -> None:
    names = [name for page in pages() for name, _ in modules(read(page))]
    assert len(names) == len(set(names)) >= 5
    with folder_of_pages():
        for name in names:
            importlib.import_module(name.removesuffix(".py"))


def require_command(page: str, command: str) -> None:
    words = [re.sub("^[A-Z]$", "1", word) for word in shlex.split(command)]
    if command.startswith("python -m"):
        assert importlib.util.find_spec(words[2]) is not None, (page, command)
    elif words[0] == "make":
        assert f"\n{words[1]}:" in read("Makefile"), (page, command)
    elif words[0] == "blindrec" and not {"[", "...", "--help"} & {*words, *command} and words[1] not in REMOTE:
        parsed(command_line(), words[1:])  # an error names the word


def test_every_command_is_one_that_there_is() -> None:
    for page, command in COMMANDS:
        require_command(page, command)


def test_figures_that_take_minutes_have_the_day_on_which_they_were_measured() -> None:
    days = [day for page in pages() for day in re.findall(r"<!-- ran (.*?) -->", read(page))]
    assert len(days) > 20
    assert all(date.fromisoformat(day) <= datetime.now(UTC).date() for day in days)
    assert f"$(BIN)/{documented.DEMO}" in read("Makefile")


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
            require_command(measured.DATA, entry["command"])


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


def test_measured_tables_in_pages_are_those_of_the_file() -> None:
    for name, place in measured.IN_PAGES.items():
        text, tables = read(place), measured_tables()
        assert measured.in_page(text, tables, name) == text
        changed = {name: {**tables[name], "rows": [["local", "1"], *tables[name]["rows"][1:]]}}
        assert measured.in_page(text, changed, name) != text


# README, CONTRIBUTING, docs and deploy: every file and module that they name exists. Links are those of test_site.


ROOMS = ("actors", "benchmarks", "blindrec", "coordinator", "deploy", "docs", "examples", "scenarios", "tests")
PAGES = pages()
FILES = {path.name for room in ROOMS for path in (ROOT / room).rglob("*.py")}
_ROOM = rf"(?<![\w/.-])(?:{'|'.join(ROOMS)})"
_PATH = re.compile(rf"{_ROOM}/[\w./-]*")
_MODULE = re.compile(rf"{_ROOM}(?:\.\w+)+(?![\w(/-])")
_BARE = re.compile(r"`(\w+\.py)`")
_SHOWN = re.compile(r"^# (\w+\.py)$", re.MULTILINE)


def is_there(dotted: str) -> bool:
    """Whether a dotted name is a module of ours, or something in one; what looks like a file name is no module."""
    place = ROOT.joinpath(*dotted.split("."))
    if place.is_dir() or place.with_suffix(".py").is_file() or place.name in {"md", "py", "sbatch", "toml"}:
        return True
    return pydoc.locate(dotted) is not None


def lost(text: str) -> Iterator[str]:
    """What a page names and nobody finds: paths and modules of ours, bare names of files."""
    for path in _PATH.findall(text):
        place = ROOT / path.rstrip(".")
        if not (place.parent if "NAME" in place.name else place).exists():
            yield path
    yield from (name for name in _MODULE.findall(text) if not is_there(name))
    yield from (
        name for name in _BARE.findall(text) if "NAME" not in name and name not in {*FILES, *_SHOWN.findall(text)}
    )


def test_what_pages_name_exists() -> None:
    missing = {page: {*lost((ROOT / page).read_text(encoding="utf-8"))} for page in PAGES}
    assert {page: names for page, names in missing.items() if names} == {}


@pytest.mark.parametrize(
    "planted",
    ["coordinator/designs.py", "coordinator.server.rounds.state.Asks", "coordinator.designs", "`multi_moments.py`"],
)
def test_what_does_not_exist_is_found(planted: str) -> None:
    right = "`coordinator/protocol/mechanisms/NAME.py` and coordinator.server.rounds.state.Ask, `emulated_runs.py`, "
    right += "`mine.py`\n```\n# mine.py\n```\n"
    assert not list(lost(right))
    assert len(list(lost(right + planted))) == 1


# The page of guarantees: every promise names a module that enforces it and a test that would fail, and both exist.


PAGE = (ROOT / "docs/explanation/guarantees.md").read_text(encoding="utf-8")


def rows(page: str) -> list[list[str]]:
    """The cells of the table's rows, without its heading."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in re.findall(r"^\|.*$", page, re.M)[2:]]


def faults(page: str) -> Iterator[str]:
    """Tests that do not exist, and promises without a module or a test; modules are looked for above."""
    for promise, _, enforcing, tests, limit in rows(page):
        if not (promise and limit and "`" in enforcing and "`" in tests):
            yield f"{promise}: it names no module, no test or no limit"
        for test in tests.split("`")[1::2]:
            path, _, name = test.partition("::")
            file = ROOT / path
            if not file.is_file() or not re.search(rf"^(def|class) {name}\b", file.read_text(encoding="utf-8"), re.M):
                yield test


def test_every_promise_names_what_enforces_it_and_what_would_fail() -> None:
    assert len(rows(PAGE)) > 10
    assert list(faults(PAGE)) == []
    for right, wrong in (("::test_ray_repeats", "::test_rays"), ("test_ray.py::", "test_tray.py::")):
        assert len(list(faults(PAGE.replace(right, wrong)))) >= 1
