"""`blindrec` as a process: Ctrl-C ends what the run started, no more; a Ray that runs already is joined and left."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest
from runs import here, holds_within, small

from benchmarks.victims import alive, below

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
BLINDREC = [sys.executable, "-m", "scenarios"]
PATIENCE = 120.0
"""Seconds that a busy machine may take to start Ray; no test depends on how fast it is."""


@pytest.fixture(autouse=True)
def no_ray_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands see no Ray instance but the one they are told."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture
def namesake() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else that is called like a device of ours."""
    name = ["ray::DeviceHost.answer", "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(name, executable=sys.executable) as process:
        yield process
        process.kill()


def is_answering(process: psutil.Process, seen: dict[psutil.Process, str]) -> bool:
    """Whether a device of the run is at work; ``seen`` gathers every process below it."""
    seen |= below(process)
    return any(line.startswith("ray::DeviceHost.answer") for line in seen.values())


def test_ctrl_c_ends_the_processes_of_the_run_and_no_other(namesake: subprocess.Popen[bytes], tmp_path: Path) -> None:
    command = [*BLINDREC, "run", "--items", "2000", "--users", "1000000000", "--workers", "1"]
    run = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out"), "--json", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that the signal reaches the whole group, as from a terminal
    )
    seen: dict[psutil.Process, str] = {}
    try:
        assert holds_within(PATIENCE, lambda: is_answering(psutil.Process(run.pid), seen))
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=PATIENCE)
        assert holds_within(20, lambda: not alive(seen)), [seen[one] for one in alive(seen)]
    finally:
        for left in alive([*seen, *([psutil.Process(run.pid)] if run.poll() is None else [])]):
            left.kill()
    assert len(seen) > 4
    assert run.returncode == 130
    assert out == ""
    assert err.splitlines()[-1].startswith("blindrec: interrupted; what this run started has ended")
    assert list((tmp_path / "out").iterdir()) == []
    assert namesake.poll() is None


def free_ports(count: int) -> list[int]:
    """Ports where nothing listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of this test's own, for its head and whoever joins it: Ray listens to the whole network."""
    (tmp_path / "key").write_text(secrets.token_hex(32))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "key"))


@pytest.fixture
def head(key: None) -> Iterator[tuple[str, psutil.Process]]:
    """A Ray head of two CPUs that somebody else started; its folder's name is short, as sockets need it."""
    port, client, agent = free_ports(3)
    flags = ["--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    ports = [f"--port={port}", f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}"]
    with tempfile.TemporaryDirectory(prefix="ray") as folder, tempfile.TemporaryFile() as said:
        command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--temp-dir={folder}"]
        with subprocess.Popen([*command, *flags, *ports], stdout=said, stderr=said) as process:
            mine = psutil.Process(process.pid)
            try:
                assert holds_within(PATIENCE, lambda: any("raylet/raylet" in line for line in below(mine).values()))
                yield f"127.0.0.1:{port}", mine
            finally:
                started = below(mine)
                process.terminate()
                process.wait(PATIENCE)
                assert holds_within(20, lambda: not alive(started))


def test_a_ray_that_runs_already_is_joined_and_outlives_the_run(head: tuple[str, psutil.Process]) -> None:
    address, process = head
    before = {one: line for one, line in below(process).items() if "gcs_server" in line or "raylet/raylet" in line}
    command = [*BLINDREC, "run", "--items", "40", "--rated", "5", "--users", "3001", "--workers", "1"]
    said = subprocess.run(
        [*command, "--address", address, "--json", "-"], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (said.returncode, "Traceback" in said.stderr) == (0, False), said.stderr
    result = json.loads(said.stdout)
    assert (result["backend"], result["workers"], result["answered"]) == ("ray", 1, 3001)
    assert result["releases_sha256"] == here(small()).outcome.releases_sha256
    assert len(before) == 2
    assert set(alive(before)) == set(before)
    assert holds_within(20, lambda: not any("ray::DeviceHost" in line for line in below(process).values()))
