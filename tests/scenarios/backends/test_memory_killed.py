"""Ray kills processes of a run because its node runs out of memory: they were lost, like any others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from runs import here, small

pytestmark = [pytest.mark.cluster, pytest.mark.thorough]  # other tests kill processes by default
USERS, ROUNDS = 100_000, 40
HUNGRY = """
import os, sys, time
import psutil

STEP, ROOM, MOST = 2**28, 5 * 2**28, 32
memory = psutil.virtual_memory()
os.environ["RAY_memory_usage_threshold"] = str(min(.95, (memory.total - memory.available + ROOM) / memory.total))
os.environ["RAY_memory_monitor_refresh_ms"] = "100"

from scenarios.cli import main
from scenarios.store.journal import Journal

keep, meals = Journal.keep, iter([1])

def hungry(self, over):
    if not next(meals, 0):
        return keep(self, over)
    running = [one for one in psutil.Process().children(recursive=True) if "ray::" in " ".join(one.cmdline())]
    eaten = []
    while all(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in running) and len(eaten) < MOST:
        eaten.append(b"x" * STEP)
        time.sleep(.15)
    print("killed" if len(eaten) < MOST else "spared", file=sys.stderr)
    eaten.clear()
    keep(self, over)

Journal.keep = hungry
main(sys.argv[1:])
"""
"""A driver that takes memory once a round is over until Ray kills one of its processes; then it gives it back."""


def test_a_run_goes_on_after_ray_has_killed_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine has no memory left even then, the run ends by a line, and can be resumed."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "hungry.py").write_text(HUNGRY, encoding="utf-8")
    run = ["--items", "300", "--rated", "30", "--users", str(USERS), "--workers", "1", "--out", str(tmp_path / "out")]
    run += ["--backend", "ray"]
    command = [sys.executable, str(tmp_path / "hungry.py"), "run", *run, "--policy", "fixed", "--rounds", str(ROUNDS)]
    ended = subprocess.run([*command, "--json", "-"], capture_output=True, text=True, check=False, timeout=120)
    lines = ended.stderr.splitlines()
    assert "Traceback" not in ended.stderr
    assert any(line.startswith("killed") for line in lines), lines
    assert ended.returncode in (0, 3), lines
    if ended.returncode:
        assert lines[-1].startswith("blindrec: ")
        assert "resume" in lines[-1]
        return
    told = json.loads(ended.stdout)
    assert told["retries"] + told["restarts"] > 0
    alike = here(small(items=300, rated=30, users=USERS, policy="fixed", rounds=ROUNDS), workers=2)
    assert told["releases_sha256"] == alike.outcome.releases_sha256
