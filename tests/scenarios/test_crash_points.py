"""Runs, resumptions, sweeps and online runs that are cut off at a file operation end as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# the packages first: the tests' folder has some of the same names
SCRIPT = """
import sys, actors, coordinator, scenarios
sys.path.append(sys.argv[1])
import crash_points
crash_points.main(*sys.argv[2:])
"""
POINTS = {"run": 100, "repeat": 12, "resume": 20, "sweep": 30, "online": 18}
"""Cuts at least; before every operation and in every write of a run and of a sweep, at some of the others."""


@pytest.mark.slow
@pytest.mark.parametrize("family", POINTS)
def test_whatever_is_cut_off_goes_on_to_the_same_end(family: str, tmp_path: Path) -> None:
    """Killed before, after and in the middle of its operations on files, one after the other."""
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, "-c", SCRIPT, str(TESTS), family, str(tmp_path)]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, **one_thread}
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["wrong"] == []
    assert told["points"] >= POINTS[family]
    kinds = {what.partition(" ")[0] for what in told["operations"]}
    assert kinds >= {"open", "write", "fsync", "mkdir", "replace"}
    assert kinds >= {"unlink", "rmdir"} or family in ("sweep", "online")
