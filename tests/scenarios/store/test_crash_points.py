"""Runs, resumptions, sweeps, online and two-tier runs that are cut off at a file operation end alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[2]
# the packages first: the tests' folder has some of the same names
SCRIPT = """
import sys, actors, coordinator, scenarios
sys.path.append(sys.argv[1])
import crash_points
crash_points.main(*sys.argv[2:])
"""
POINTS = {"run": 100, "repeat": 12, "resume": 20, "sweep": 30, "online": 30, "two-tier": 16}
"""Cuts at least; before every operation and in every write of a run and of a sweep, at some of the others."""


def told_of(family: str, folder: Path) -> dict[str, Any]:
    """What `crash_points` tells of a family, in a process of its own that has no threads."""
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, "-c", SCRIPT, str(TESTS), family, str(folder)]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **one_thread}
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


@pytest.mark.slow
@pytest.mark.parametrize("family", POINTS)
def test_whatever_is_cut_off_goes_on_to_the_same_end(family: str, tmp_path: Path) -> None:
    """Killed before, after and in the middle of its operations on files, one after the other."""
    told = told_of(family, tmp_path)
    assert told["wrong"] == []
    assert told["points"] >= POINTS[family]
    kinds = {what.partition(" ")[0] for what in told["operations"]}
    assert kinds >= {"open", "write", "fsync", "mkdir", "replace"}
    assert kinds >= {"unlink", "rmdir"} or family == "sweep"


def test_files_that_are_written_in_place_are_found(tmp_path: Path) -> None:
    """What these cuts are for: a mark that is half there."""
    assert any("is damaged" in line for line in told_of("planted", tmp_path)["wrong"])
