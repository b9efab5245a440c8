"""A silent command says now and then that it goes on, and what it does; whoever shows progress keeps it silent."""

import io
import threading
import time

import pytest
from rich.console import Console
from runs import Command

from scenarios import log

RUN = ("run", "--items", 40, "--rated", 10, "--users", 2000, "--backend", "inprocess")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is broken every hundredth of a second."""
    monkeypatch.setattr(log, "QUIET", 0.01)
    monkeypatch.setattr(log, "_LONGEST", 0.01)


class Sheet(io.StringIO):
    """A standard error that tells when a line is written, or refuses all."""

    def __init__(self, *, closed: bool = False) -> None:
        super().__init__()
        self.written, self._refuses = threading.Event(), closed

    def write(self, text: str) -> int:
        self.written.set()
        if self._refuses:
            raise OSError("closed")
        return super().write(text)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(("step", "line"), [("seed 2 of 3", "blindrec run, seed 2 of 3, 0 s so far"), ("", "")])
def test_a_line_names_the_command_and_what_it_does(step: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = Sheet()
    monkeypatch.setattr(log, "console", lambda: Console(file=sheet))
    with log.never_silent("run"), log.step(step):
        assert sheet.written.wait(10)
    assert sheet.getvalue().splitlines()[0] == (line or "blindrec run, 0 s so far")


@pytest.mark.usefixtures("often")
def test_a_bar_that_moves_and_progress_that_speaks_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = Sheet()
    monkeypatch.setattr(log, "console", lambda: Console(file=sheet))
    with log.never_silent("run"):
        with log.moving_bar():
            assert not sheet.written.wait(0.1)
        assert sheet.written.wait(10)
    monkeypatch.setattr(log, "QUIET", 1.0)
    sheet.written.clear()
    with log.never_silent("run"):
        for _ in range(3):
            assert not sheet.written.wait(0.4)
            log.spoke(time.monotonic())


@pytest.mark.usefixtures("often")
def test_a_closed_standard_error_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = Sheet(closed=True)
    monkeypatch.setattr(log, "console", lambda: Console(file=sheet))
    with log.never_silent("run"):
        assert sheet.written.wait(10)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ((*RUN, "--repeat", 3), {"seed 1 of 3", "seed 2 of 3", "seed 3 of 3"}),
        (("audit", "--design", "maxsense", "--releases", 20_000), {"maxsense, 1 of 1"}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_are_never_silent(command: tuple[object, ...], named: set[str], blindrec: Command) -> None:
    told = blindrec(*command)
    lines = [line for line in told.err.splitlines() if line.endswith(" s so far")]
    assert lines, told.err
    assert all(line.startswith(f"blindrec {command[0]}, ") for line in lines)
    assert all(any(words in line for line in lines) for words in named)


def test_a_check_is_named_with_its_mechanism() -> None:
    from scenarios.studies.scrutiny.checks import Check, conformance  # noqa: PLC0415 (numerical)
    from scenarios.studies.scrutiny.mechanism import subjects  # noqa: PLC0415 (same)

    steps: list[str] = []

    def look(_: object) -> str:
        steps.extend(log._silence.steps)
        return ""

    conformance(subjects("oue", None), [Check("levels", "", look)])
    assert steps
    assert all(step.startswith("levels of oue") for step in steps)


def test_a_job_that_is_watched_shows_itself() -> None:
    from scenarios.cli import COMMANDS  # noqa: PLC0415 (the command line)
    from scenarios.commands.entrance import _SHOWING  # noqa: PLC0415 (same)

    assert {one for one in _SHOWING if one} <= {command.name for command in COMMANDS}
