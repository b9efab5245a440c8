"""README and docs: every command that they show is listed, and figures of quick ones are measured."""

from __future__ import annotations

import importlib.util
import re
import shlex
from typing import Any

import pytest

from benchmarks.documented import (
    Shown,
    compare,
    differing,
    folder_of_pages,
    listed_as,
    printed,
    run,
    shown,
    stands_for,
    table,
)
from scenarios.cli import command_line
from scenarios.submission.request import parsed

TABLE = table()
SHOWN = shown()


@pytest.mark.parametrize("entry", TABLE["quick"], ids=lambda entry: f"{entry['page']}: {entry['command']}")
def test_figures_beside_a_quick_command_are_what_it_measures(entry: dict[str, Any]) -> None:
    words = shlex.split(entry.get("run", entry["command"]))
    assert words[0] == "blindrec"
    with folder_of_pages():
        result = run(words[1:])
    faults = [compare(entry["page"], entry["command"], template, result) for template in entry["says"]]
    assert not any(faults), "\n".join(filter(None, faults))


@pytest.mark.parametrize("entry", TABLE["program"], ids=lambda entry: str(entry.get("program", entry.get("command"))))
def test_a_page_states_what_its_program_prints(entry: dict[str, Any]) -> None:
    (one,) = [one for one in SHOWN if stands_for(entry, one)]
    program = shlex.split(one.text)[2] if "command" in entry else one.text
    output = printed(program)
    faults = [differing(one.page, template, output) for template in entry["says"]]
    assert not any(faults), "\n".join(filter(None, faults))


def test_every_command_and_program_is_listed_once() -> None:
    """So no figure is added that nobody can refresh."""
    assert len(SHOWN) > 40
    lost = [
        f"{one.page}: {one.text[:200]!r} is listed {len(kinds)} times"
        for one in SHOWN
        if len(kinds := listed_as(one)) != 1
    ]
    assert not lost, "docs/figures.toml must list each once:\n" + "\n".join(lost)


def test_the_list_holds_nothing_that_no_page_shows() -> None:
    entries = [entry for kind in TABLE.values() for entry in kind]
    texts = {
        (entry["page"], one) for entry in entries for one in (*entry.get("commands", ()), entry.get("command")) if one
    }
    assert texts <= {(one.page, one.text) for one in SHOWN}
    assert all(any(stands_for(entry, one) for one in SHOWN) for entry in entries)
    assert all(entry["figures"] for entry in TABLE["long"])


@pytest.mark.parametrize(
    "one", [one for one in SHOWN if not one.text.count("\n")], ids=lambda one: f"{one.page}: {one.text}"
)
def test_every_command_is_one_that_there_is(one: Shown) -> None:
    words = [re.sub("^[A-Z]$", "1", word) for word in shlex.split(one.text)]
    if one.text.startswith("python -m"):
        assert importlib.util.find_spec(words[2]) is not None
    elif words[0] == "blindrec" and not {"[", "...", "--help"} & {*words, *one.text} and words[1] != "submit":
        parsed(command_line(), words[1:])


def test_a_wrong_figure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "Some words.\n│ items right │ 0.95 │\n│ users       │ 74,480 │\nand 1,000 of them.\n"
    monkeypatch.setattr("benchmarks.documented.read", lambda _: page)
    right = {"accuracy": 0.95, "users": 74480, "rows": [{"answered": 1000}]}
    for template in ("right │ {accuracy:.2f} │ users │ {users:,} │", "and {rows[0][answered]:,} of them."):
        assert compare("p", "c", template, right) == ""
    told = compare("p", "c", "users │ {users:,} │", {"users": 69334})
    assert told == "p: 'users │ {users:,} │' of `c`: documented 74,480, measured 69,334"
    assert "stands there 0 times" in compare("p", "c", "users were {users:,}", right)
    assert differing("p", "right │ {1} │ users │ {0} │", "74480 and 0.951, 1000") == ""
    assert differing("p", "right │ {1} │ users │ {0} │", "74481 and 0.956").endswith(
        "documented 0.95, printed 0.956; documented 74,480, printed 74481.0"
    )
