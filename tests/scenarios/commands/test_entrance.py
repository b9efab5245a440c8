"""The entrance: commands load when they are called, and what ended in a trace, or not at all, ends in one line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import Command

from scenarios.cli import GRID, command_line, sweep
from scenarios.commands.entrance import LazyCommand
from scenarios.config.files import MOST_ECHOED, MOST_TOLD, brief, cut_short, one_line
from scenarios.studies.sweep.sweeps import KINDS, kind_of

BOUNDS = [sys.executable, "-m", "scenarios", "bounds", "--items", "1000", "--rated", "30"]
HERE = ["run", "--backend", "inprocess"]
FULL = "cannot be written (No space left on device)"


@pytest.mark.parametrize(
    ("redirection", "flags", "words"),
    [
        (">/dev/full", "", FULL),
        pytest.param(">/dev/full", "--json -", FULL, marks=pytest.mark.thorough),
        pytest.param(">/dev/full", "--help", FULL, marks=pytest.mark.thorough),
        (">&-", "", "is closed"),
    ],
)
def test_a_standard_output_that_takes_nothing_ends_in_one_line(redirection: str, flags: str, words: str) -> None:
    command = ["sh", "-c", f'"$@" {redirection}', "sh", *BOUNDS, *flags.split()]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert f"standard output {words}" in ended.stderr


def test_a_terminal_that_knows_few_characters_shows_others_plainly() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(Path.cwd())}
    script = r"print('.18\u00b1.01 \u2500 Caf\u00e9\u2026')"
    command = f"from scenarios.commands.entrance import enter; enter(lambda **_: {script}, [])"
    ended = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, env=environment, check=False
    )
    assert (ended.stdout, ended.stderr) == (".18+-.01 - Cafe...\n", "")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("redirection", "flags", "code"),
    [("2>&-", ("--json", "result.json"), 0), ("2>&-", ("--epsilon", "x"), 2), ("<&- >&- 2>&-", (), 2)],
)
def test_closed_descriptors_change_no_exit_code(
    redirection: str, flags: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    command = ["sh", "-c", f'"$@" {redirection}', "sh", *BOUNDS, *flags]
    ended = subprocess.run(
        command, capture_output=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, check=False
    )
    assert (ended.returncode, ended.stderr) == (code, b"")


def test_a_standard_output_that_nobody_reads_ends_in_one_line() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(BOUNDS, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "standard output cannot be written (Broken pipe)" in ended.stderr


def test_a_long_name_that_a_file_has_takes_results(blindrec: Command, tmp_path: Path) -> None:
    target = tmp_path / ("x" * 255)
    assert blindrec(*BOUNDS[3:], "--json", target).code == 0
    assert target.read_text().startswith("{")


def test_a_fault_of_ours_shows_its_trace(blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what users gave is told in one line."""

    def broken(**_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("scenarios.theory.bounds.all_bounds", broken)
    with pytest.raises(ZeroDivisionError, match="ours"):
        blindrec(*BOUNDS[3:])


def test_values_are_shortened_and_lines_are_one() -> None:
    assert brief("0.9") == "'0.9'"
    assert brief(1 << 20_000) == "<int>"
    for value in ("x" * 100_000, list(range(10_000)), {"a" * 500: 1}):
        assert len(brief(value)) <= MOST_ECHOED
    assert one_line("a\nb\x1b[31m\tc\u202e") == "a b\\x1b[31m c\\u202e"
    long = one_line(f"items is {'x' * 100_000} and {'y ' * 5000}; give a number")
    assert len(long) <= MOST_TOLD
    assert long.startswith("items is xxx")
    assert long.endswith("give a number")
    assert "(100,000 characters)" in long
    assert len(cut_short("x" * 10_000, 10)) < 40


def commands(tree: Any) -> Iterator[LazyCommand]:
    """All commands of a command line."""
    for command in tree.commands.values():
        if isinstance(command, LazyCommand):
            yield command
        else:
            yield from commands(command)


@pytest.mark.parametrize("command", list(commands(command_line())), ids=lambda command: command.name)
def test_lists_show_the_first_sentence_of_a_commands_own_help(command: LazyCommand) -> None:
    assert command.help == command.loaded.get_short_help_str(10_000)
    assert command.loaded.params


def test_a_kind_that_flags_can_tell_is_a_command() -> None:
    told = {name for name in KINDS if "grid" not in kind_of(name).fields}
    assert told == {*sweep.commands} - {GRID}
