"""A silent command says now and then that it goes on, and what it does; whoever shows progress keeps it silent."""

import io
import threading
import time
from contextlib import AbstractContextManager, nullcontext

import pytest
from rich.console import Console
from runs import Command

from coordinator.protocol.errors import InputError
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


def test_every_seed_of_a_command_is_a_step(blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def record(words: str) -> AbstractContextManager[None]:
        steps.append(words)
        return nullcontext()

    monkeypatch.setattr("scenarios.experiment.experiment.step", record)
    blindrec(*RUN, "--repeat", 3)
    assert steps == [f"seed {number} of 3" for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("command", "name"),
    [(("report", "missing", "--out", "a.html"), "report"), (("sweep", "missing.toml", "--out", "a"), "sweep GRID")],
)
def test_a_command_is_named_as_it_is_called(
    command: tuple[str, ...], name: str, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    def record(words: str) -> AbstractContextManager[None]:
        names.append(words)
        return nullcontext()

    monkeypatch.setattr("scenarios.commands.entrance.never_silent", record)
    assert blindrec(*command).code == 2
    assert names == [name.replace("GRID", "sample-complexity")]


def test_the_start_of_ray_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from scenarios.backends.ray_instance import on_ray  # noqa: PLC0415 (Ray)

    steps: list[str] = []

    def start(*_: object, **__: object) -> None:
        steps.extend(line() for line in log._silence.steps)
        raise InputError("Ray does not start")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("scenarios.backends.ray_instance._start", start)
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # the instance that other tests of this process share
    with pytest.raises(InputError, match="does not start"), on_ray(address=None, workers=1):
        pass
    assert steps == ["Ray starts"]
    assert log._silence.steps == []


def test_a_job_that_is_watched_shows_itself() -> None:
    from scenarios.cli import COMMANDS  # noqa: PLC0415 (the command line)
    from scenarios.commands.entrance import _SHOWING  # noqa: PLC0415 (same)

    assert {one for one in _SHOWING if one} <= {command.name for command in COMMANDS}


@pytest.mark.usefixtures("often")
def test_a_step_says_how_much_is_over_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = Sheet()
    monkeypatch.setattr(log, "console", lambda: Console(file=sheet))
    with log.counted_step("splitting", 4) as over:
        over()
        with log.never_silent("data"):
            assert sheet.written.wait(10)
    assert sheet.getvalue().startswith("blindrec data, splitting, 25% done, about 0 s left, ")
