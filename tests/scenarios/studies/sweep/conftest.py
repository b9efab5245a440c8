"""What tests of sweeps share: `blindrec sweep` in this process, and its folder with what it showed beside it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import Command, Ended

from scenarios import cli

HERE = ("--backend", "inprocess", "--workers", 1)


@pytest.fixture
def swept(request: pytest.FixtureRequest, blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """`blindrec sweep` with a module's `SWEEP` in this process, without figures and progress."""
    monkeypatch.setattr("scenarios.show.tables.EVERY", math.inf)
    monkeypatch.setattr("scenarios.studies.sweep.sweep_folder.draw", lambda *_: None)

    def command(*more: object) -> Ended:
        name, *options = *getattr(request.module, "SWEEP", ()), *more
        return blindrec("sweep", name, *HERE, *options)

    return command


@pytest.fixture(scope="session")
def sweep_into() -> Callable[..., Path]:
    """Run a sweep into a folder; the text that it shows stands beside it."""

    def run(folder: Path, *arguments: object) -> Path:
        command = ["sweep", *arguments, *HERE, "--out", folder / "out"]
        with (folder / "shown.txt").open("w") as shown, contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
            cli.main([*map(str, command)])
        return folder / "out"

    return run
