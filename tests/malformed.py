"""Input that nobody means, and what must become of it: an exit code, a few short lines, never a trace or a hang."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from runs import Command, Ended

from coordinator.protocol.errors import InputError

HANGS = 60  # Seconds after which a call hangs; calls take milliseconds
LINES, LONGEST = 3, 1200  # Of standard error: progress of a small run, or the line that says what is wrong

TEXTS = (
    "-1", "0", "nan", "inf", "-inf", "1e308", "1e-308", "1e400", "1/0", "0x10", "", " ", "½", "\u202e☃", "\udcff",
    "a\0b", "\x1b[31m", "1,", "1;2", "1:2:0", "nan,nan", "9" * 19, "9" * 5000, "x" * 100_000, "../..",
    "/dev/null/x", "--",
)  # fmt: skip
"""Values of flags. Processes cannot be given zero bytes; who calls `scenarios.cli.main` can."""


class HungError(BaseException):
    """A call took too long."""


@contextmanager
def bounded() -> Iterator[None]:
    """Break off what hangs."""

    def late(*_: object) -> NoReturn:
        raise HungError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(HANGS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fault(blindrec: Command, arguments: list[str]) -> str:
    """What is wrong with how a command ends; nothing, if it ends as it should."""
    try:
        with bounded():
            ended: Ended = blindrec(*arguments)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{_told(arguments)}: {type(error).__name__}: {str(error)[:200]}"
    lines = ended.err.count("\n")
    if ended.code not in (0, 2, 3):
        return f"{_told(arguments)}: exit code {ended.code}"
    if (
        lines > LINES
        or len(ended.err) > LONGEST
        or (ended.code and not ended.err.splitlines()[-1].startswith("blindrec: "))
    ):
        return f"{_told(arguments)}: says {lines} lines, {len(ended.err)} characters: {ended.err[:200]}"
    return ""


def _told(arguments: list[str]) -> str:
    return " ".join(repr(one)[:60] for one in arguments)


def begin_no_run(patch: pytest.MonkeyPatch, scratch: Path) -> None:
    """Stop where a long computation would begin: what is fuzzed is the way there."""

    def begun(*_: object, **__: object) -> NoReturn:
        raise InputError("a run would begin")

    for name in (
        "scenarios.backends.selection.InProcess.run", "scenarios.backends.selection.InProcess.each",
        "scenarios.backends.ray_instance.on_ray",
        "scenarios.experiment.experiment.run_seeds", "scenarios.studies.planner.request.plan",
        "scenarios.commands.job_commands.head_at",
    ):  # fmt: skip
        patch.setattr(name, begun)
    patch.setattr("scenarios.studies.planner.request.learnable_of", lambda *_: [])
    patch.delenv("RAY_ADDRESS", raising=False)
    patch.chdir(scratch)


def ratings_file(folder: Path) -> Path:
    """A small file of ratings."""
    rows = [f"{user},{item},{(user * item) % 5 + 1}\n" for user in range(30) for item in range(12) if (user + item) % 2]
    (folder / "ratings.csv").write_text("user,item,rating\n" + "".join(rows), encoding="utf-8")
    return folder / "ratings.csv"
