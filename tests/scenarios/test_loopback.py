"""What a local run starts is reached from this machine only, with a token of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ray._private import ray_constants

from scenarios.places.loopback import alone

NAMES = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_TOKEN")
LOOPBACK = ("127.", "::1", "::ffff:127.")


def seen() -> dict[str, str | None]:
    """What a process finds in its environment."""
    return {name: os.environ.get(name) for name in NAMES}


LOCAL_RUN = """
import json, os, signal, psutil, ray
from scenarios.places.cluster import on_ray
from scenarios.given.endings import ended_by_signals
names = %r

def listening():
    me = psutil.Process()
    every = [(one, process.name()) for process in (me, *me.children(recursive=True))
             for one in process.net_connections(kind="tcp")]
    return [(one.laddr.ip, one.laddr.port, whose) for one, whose in every if one.status == psutil.CONN_LISTEN]

try:
    with ended_by_signals(), on_ray(address=None, workers=1):
        context = ray.get_runtime_context()
        folder = os.path.join(context.get_temp_dir(), context.get_session_name())
        there = os.path.isdir(folder)
        seen = {name: os.environ.get(name) for name in names}
        task = ray.remote(num_cpus=0)(lambda: {name: os.environ.get(name) for name in names})
        theirs = ray.get(task.remote())
        ports = listening()
        lines = [" ".join(process.cmdline()) for process in psutil.Process().children(recursive=True)]
        signal.raise_signal(signal.SIGTERM)
except KeyboardInterrupt:
    print(json.dumps({"seen": seen, "theirs": theirs, "ports": ports, "lines": lines,
                      "folder": [there, os.path.exists(folder)]}))
"""
"""In a process of its own: another test's instance may run in this one."""


def test_the_environment_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where a user's own settings hold, for a cluster that is joined."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    before, clusters = seen(), ray_constants.ENABLE_RAY_CLUSTER
    with alone():
        token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        assert (token.stat().st_mode & 0o777, token.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert len(token.read_text()) == 64
        assert (seen()["RAY_AUTH_MODE"], seen()["RAY_AUTH_TOKEN"]) == ("token", None)
    assert (seen(), ray_constants.ENABLE_RAY_CLUSTER) == (before, clusters)
    assert not token.parent.exists()


@pytest.mark.cluster
def test_a_local_run_listens_on_loopback_only_and_writes_nothing_to_the_home(tmp_path: Path) -> None:
    mine = {name: value for name, value in os.environ.items() if name not in (*NAMES, "RAY_ADDRESS")}
    environment = {**mine, "HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-c", LOCAL_RUN % (NAMES,)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert ended.stderr == ""  # SIGTERM ended it as Ctrl-C does, not as Ray does, with a stack dump
    assert told["folder"] == [True, False]  # of Ray's session: while it runs, and afterwards
    assert told["seen"] == told["theirs"]
    assert told["seen"]["RAY_AUTH_MODE"] == "token"
    assert not told["seen"]["RAY_AUTH_TOKEN_PATH"].startswith(str(tmp_path))
    assert {whose for _, _, whose in told["ports"]} >= {"raylet", "gcs_server"}
    assert [one for one in told["ports"] if not one[0].startswith(LOOPBACK)] == []
    assert not list(tmp_path.rglob("auth_token"))
    programs = {Path(line.split(" --", maxsplit=1)[0].split()[-1]).name for line in told["lines"] if line}
    watching = {"dashboard.py", "agent.py", "main.py", "monitor.py", "log_monitor.py"}
    assert programs >= {"raylet", "gcs_server"}
    assert not programs & watching  # what a run has no use for, see `scenarios.places.lean`
    assert len([line for line in told["lines"] if "waiting.py" in line and "raylet" not in line]) == 2
