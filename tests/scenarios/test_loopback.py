"""What a local run starts is reached from this machine only, with a token of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray._private import ray_constants
from runs import holds_within

from scenarios.cluster import on_ray
from scenarios.loopback import alone

NAMES = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_TOKEN")
LOOPBACK = ("127.", "::1", "::ffff:127.")


def seen() -> dict[str, str | None]:
    """What a process finds in its environment."""
    return {name: os.environ.get(name) for name in NAMES}


def listening() -> dict[int, tuple[str, str]]:
    """Ports on which this process and those below it listen: the address, and whose it is."""
    found = {}
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        for one in process.net_connections(kind="tcp"):
            if one.status == psutil.CONN_LISTEN:
                found[one.laddr.port] = (one.laddr.ip, process.name())
    return found


def test_the_environment_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where a user's own settings hold, for a cluster that is joined."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    before, clusters = seen(), ray_constants.ENABLE_RAY_CLUSTER
    with alone():
        token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        assert (token.stat().st_mode & 0o777, token.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert len(token.read_text()) == 64
        assert (seen()["RAY_AUTH_MODE"], seen()["RAY_AUTH_TOKEN"]) == ("token", None)
    assert (seen(), ray_constants.ENABLE_RAY_CLUSTER) == (before, clusters)
    assert not token.parent.exists()


@pytest.mark.cluster
def test_a_local_run_listens_on_loopback_only_and_writes_nothing_to_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    names = NAMES  # what a function refers to in this module would have to be imported in the worker
    with on_ray(address=None, workers=1):
        task: Any = ray.remote(num_cpus=0)(lambda: {name: os.environ.get(name) for name in names})
        assert ray.get(task.remote()) == seen()
        assert seen()["RAY_AUTH_MODE"] == "token"
        assert not str(seen()["RAY_AUTH_TOKEN_PATH"]).startswith(str(tmp_path))
        assert holds_within(60, lambda: any("Agent" in whose for _, whose in listening().values()))
        ports = listening()
        assert {whose for _, whose in ports.values()} >= {"raylet", "gcs_server"}
        outside = {port: one for port, one in ports.items() if not one[0].startswith(LOOPBACK)}
        assert not outside
    assert not list(tmp_path.rglob("auth_token"))
