"""Two Ray nodes in two network namespaces, the link between them cut in the middle of a round. Opt in; needs root."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from runs import holds_within

from benchmarks.kills import FAMILIES
from benchmarks.victims import actors_below

HOW = "BLINDREC_NETNS=1 python -m pytest tests/scenarios/backends/test_network_cut.py"
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("BLINDREC_NETNS") != "1", reason=f"makes network namespaces, as root: {HOW}"),
]
PATIENCE = 300.0
USERS = 1_500_000
HEAD, WORKER = "10.77.0.1", "10.77.0.2"
PORT = 6399
MISSED = {"health_check_period_ms": 1000, "health_check_failure_threshold": 6, "health_check_timeout_ms": 2000}
"""A node that is silent for six seconds and more is dead, one that is silent for three is not."""
READY = "Ray runtime started"  # What Ray says once a node is up
RUN = FAMILIES["run"].flags(USERS)
LASTING = ("releases_sha256", "accuracy", "answered", "spent_max", "spent_mean", "rounds")


def ip(*arguments: str) -> str:
    """Run `ip`; its complaint fails the test."""
    ended = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"ip {' '.join(arguments)}: {ended.stderr}"
    return ended.stdout


class Nodes:
    """Two namespaces with a link between them, and a Ray node in each; all is gone at exit."""

    def __init__(self, folder: Path, head_cpus: int) -> None:
        self._folder, self._head_cpus, self._stack = folder, head_cpus, ExitStack()
        self._head, self._worker = (f"blindrec-{side}-{os.getpid()}" for side in ("head", "worker"))
        self._here, self._there = (f"br{side}{os.getpid()}" for side in ("h", "w"))
        self._started: list[tuple[str, subprocess.Popen[bytes]]] = []
        (folder / "token").write_text(secrets.token_hex(32))
        (folder / "said.log").touch()
        auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
        self._environment = {**os.environ, **auth, "RAY_USAGE_STATS_ENABLED": "0"}
        self._environment.pop("RAY_ADDRESS", None)  # nodes start without; blindrec is told by it

    def __enter__(self) -> Nodes:
        short = tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)  # as sockets need it
        self._temporary = Path(self._stack.enter_context(short))
        try:
            self._connect()
            settings = ["--head", f"--port={PORT}", "--include-dashboard=false", f"--num-cpus={self._head_cpus}"]
            self._node(self._head, HEAD, *settings, f"--system-config={json.dumps(MISSED)}")
            self.worker = self._node(self._worker, WORKER, f"--address={HEAD}:{PORT}", "--num-cpus=1")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _connect(self) -> None:
        """Make the namespaces and the link."""
        for name in (self._head, self._worker):
            ip("netns", "add", name)
            self._stack.callback(ip, "netns", "del", name)
            self._stack.callback(self._end_all_in, name)
        link = ["link", "add", self._here, "netns", self._head, "type", "veth", "peer", self._there]
        ip(*link, "netns", self._worker)
        for name, end, address in ((self._head, self._here, HEAD), (self._worker, self._there, WORKER)):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", end, "up")

    def _node(self, name: str, address: str, *flags: str) -> psutil.Process:
        """Start a Ray node and wait until it runs.

        Ray gives a node half a minute, which a busy machine may not keep: then it is started again.
        """
        ray = str(Path(sys.executable).with_name("ray"))
        for attempt in range(4):
            ready = self.said().count(READY) + 1
            where = [f"--node-ip-address={address}", f"--temp-dir={self._temporary / f'{address[-1]}{attempt}'}"]
            process = self._inside(name, ray, "start", "--block", *where, *flags)
            if self._runs(process, ready):
                return psutil.Process(process.pid)
            self._end_all_in(name)
        raise AssertionError(self.said()[-3000:])

    def _runs(self, process: subprocess.Popen[bytes], ready: int) -> bool:
        """Whether a node comes up: so many of them have said so then."""
        holds_within(PATIENCE, lambda: process.poll() is not None or self.said().count(READY) == ready)
        return process.poll() is None

    def _inside(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a command in a namespace; what it says is in a file."""
        inside = ["ip", "netns", "exec", name, *command]
        with (self._folder / "said.log").open("ab") as said:
            process = subprocess.Popen(inside, stdout=said, stderr=said, env=self._environment)
        self._started.append((name, process))
        return process

    def _end_all_in(self, name: str) -> None:
        """End what still runs in a namespace, which is this test's own: first kindly, then not."""
        for how in (psutil.Process.terminate, psutil.Process.kill):
            for pid in ip("netns", "pids", name).split():
                with suppress(psutil.Error):
                    how(psutil.Process(int(pid)))
            if holds_within(20, lambda: self._is_empty(name)):
                return

    def _is_empty(self, name: str) -> bool:
        """Whether nothing runs in a namespace any more; what has ended is waited for on the way."""
        ended = [process.poll() for where, process in self._started if where == name]
        return None not in ended and not ip("netns", "pids", name)

    def blindrec(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start blindrec on the head's side."""
        told = ["env", f"RAY_ADDRESS={HEAD}:{PORT}"]
        return self._inside(self._head, *told, sys.executable, "-m", "scenarios", *arguments)

    def link(self, how: str) -> None:
        """Let the link be ``up`` or ``down``."""
        ip("-n", self._worker, "link", "set", self._there, how)

    def said(self) -> str:
        """What blindrec and Ray said."""
        return (self._folder / "said.log").read_text(errors="replace")


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    """The result of a run in process that nothing disturbs."""
    command = [sys.executable, "-m", "scenarios", *RUN, "--backend", "inprocess", "--json", "-"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    result: dict[str, Any] = json.loads(ended.stdout)
    return {name: result[name] for name in LASTING}


def result_of(run: subprocess.Popen[bytes], nodes: Nodes, out: Path, undisturbed: dict[str, Any]) -> dict[str, Any]:
    """What a run's folder tells at its end, which is that of a run that nothing disturbs."""
    assert run.wait(PATIENCE) == 0, nodes.said()[-3000:]
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    assert {name: result[name] for name in LASTING} == undisturbed
    return result


def begun(nodes: Nodes, out: Path) -> subprocess.Popen[bytes]:
    """A run on both nodes that is in the middle of its second round."""
    run = nodes.blindrec(*RUN, "--workers", "2", "--out", str(out))
    half = USERS * 3 // 2
    assert holds_within(PATIENCE, lambda: run.poll() is not None or FAMILIES["run"].far(out) > half), nodes.said()[
        -3000:
    ]
    assert run.poll() is None, nodes.said()[-3000:]
    assert actors_below(nodes.worker, "devices"), "no device lives on the node that is cut off"
    return run


@pytest.fixture
def nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """Two nodes; the head has as many CPUs as the test asks for."""
    with Nodes(tmp_path, request.param) as started:
        yield started


@pytest.mark.parametrize("nodes", [2], indirect=True)
def test_a_link_that_is_down_for_seconds_changes_nothing(
    nodes: Nodes, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    run = begun(nodes, tmp_path / "out")
    devices = actors_below(nodes.worker, "devices")
    nodes.link("down")
    time.sleep(2.5)
    nodes.link("up")
    result = result_of(run, nodes, tmp_path / "out", undisturbed)
    assert (result["retries"], result["restarts"]) == (0, 0)
    assert devices


@pytest.mark.parametrize("nodes", [2], indirect=True)
def test_a_node_that_is_cut_off_for_good_is_replaced_where_there_is_room(
    nodes: Nodes, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    run = begun(nodes, tmp_path / "out")
    nodes.link("down")
    result = result_of(run, nodes, tmp_path / "out", undisturbed)
    assert result["retries"] + result["restarts"] > 0


@pytest.mark.parametrize("nodes", [1], indirect=True)
def test_without_room_the_run_stops_and_is_resumed(nodes: Nodes, tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    run = begun(nodes, tmp_path / "out")
    nodes.link("down")
    assert run.wait(PATIENCE) == 3, nodes.said()[-3000:]
    assert "rounds are kept in" in nodes.said()
    resumed = nodes.blindrec("resume", str(tmp_path / "out"), "--workers", "1")
    result_of(resumed, nodes, tmp_path / "out", undisturbed)
