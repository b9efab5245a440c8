"""Runs, resumptions, sweeps, online and two-tier runs that are cut off at a file operation end alike."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from thoroughness import THOROUGH

SUPPORT = Path(__file__).parents[2] / "support"
# the packages first: the tests' folder has some of the same names
SCRIPT = """
import sys, actors, coordinator, scenarios
sys.path.append(sys.argv[1])
import crash_points
crash_points.main(*sys.argv[2:])
"""
TRIED = {"run": 60, "repeat": 18, "resume": 60, "sweep": 18, "online": 18, "two-tier": 12}
"""Different states at least: all that cuts of a run and of a sweep leave, and some of the others."""


def told_of(folder: Path, *families: str) -> dict[str, Any]:
    """What `crash_points` tells of families, in a process of its own that has no threads."""
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, "-c", SCRIPT, str(SUPPORT), str(folder), *families]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **one_thread}
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


@pytest.mark.slow
@pytest.mark.parametrize(
    "families",
    [
        ("run", "resume", "planted"),
        ("sweep", "online", "two-tier"),
        pytest.param(("repeat",), marks=pytest.mark.thorough),  # by default a repeat goes on in `test_journal`
    ],
)
def test_whatever_is_cut_off_goes_on_to_the_same_end(families: tuple[str, ...], tmp_path: Path) -> None:
    """Killed before, after and in the middle of operations on files; marks that are written in place are found."""
    for family, told in told_of(tmp_path, *families).items():
        if family == "planted":
            assert any("is damaged" in line for line in told["wrong"])
            continue
        assert told["wrong"] == [], family
        assert told["tried"] >= (TRIED[family] if THOROUGH else 3), family
        assert {*told["kinds"]} >= {"open", "write", "fsync", "mkdir", "replace"}, family
        assert {*told["kinds"]} >= {"unlink", "rmdir"} or family == "sweep", family
