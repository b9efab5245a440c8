"""Jobs on a head started as the deploy page says: the result comes back, the exit code too, a stopped one says so."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests
from runs import alive, below, here, holds_within, small

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
PATIENCE = 300.0
"""Seconds that a busy machine may take for a job; no test depends on how fast it is."""
ENDLESS = ["run", "--users", "100000000000", "--items", "40", "--rated", "5", "--backend", "inprocess"]


@dataclass(frozen=True)
class Cluster:
    """A head, and a working directory to submit from."""

    address: str
    folder: Path
    environment: dict[str, str]

    def blindrec(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command in the folder."""
        return subprocess.run(
            [sys.executable, "-m", "scenarios", *words, "--address", self.address],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


def free_ports(count: int) -> list[int]:
    """Ports where nothing listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def answers(url: str) -> bool:
    """Whether a dashboard is up; to whom it answers is its own matter."""
    try:
        return requests.get(f"{url}/api/version", timeout=2).status_code in (200, 401)
    except requests.RequestException:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head of two CPUs with a dashboard and a token of its own; the folder's name is short, as sockets need it."""
    place = tmp_path_factory.mktemp("submission")
    (place / "key").write_text(secrets.token_hex(32))
    (place / "other").write_text(secrets.token_hex(32))
    (place / "work").mkdir()
    (place / "work" / "small.toml").write_text("items = 40\nrated = 5\nusers = 3001\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment = kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(place / "key"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    port, dashboard, client, agent = free_ports(4)
    flags = ["--num-cpus=2", "--dashboard-host=127.0.0.1", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    ports = [f"--port={port}", f"--dashboard-port={dashboard}", f"--ray-client-server-port={client}"]
    with tempfile.TemporaryDirectory(prefix="ray") as folder, tempfile.TemporaryFile() as said:
        command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--temp-dir={folder}"]
        # jobs must get blindrec by submission, not from the head's own path
        bare = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
        whole = [*command, *flags, *ports, f"--dashboard-agent-listen-port={agent}"]
        with subprocess.Popen(whole, stdout=said, stderr=said, env=bare, cwd=folder) as process:
            mine = psutil.Process(process.pid)
            try:
                url = f"http://127.0.0.1:{dashboard}"
                assert holds_within(PATIENCE, lambda: answers(url))
                yield Cluster(url, place / "work", environment)
            finally:
                started = below(mine)
                process.terminate()
                process.wait(PATIENCE)
                assert holds_within(20, lambda: not alive(started))


def test_a_job_runs_on_the_cluster_and_its_result_comes_here(cluster: Cluster) -> None:
    said = cluster.blindrec("submit", "run", "small.toml", "--workers", "1", "--json", "-")
    assert (said.returncode, "Traceback" in said.stderr) == (0, False), said.stderr
    result = json.loads(said.stdout)
    assert (result["backend"], result["workers"], result["answered"]) == ("ray", 1, 3001)
    assert result["releases_sha256"] == here(small()).outcome.releases_sha256
    assert "blindrec run, maxsense, ray" in said.stderr


def test_a_failing_jobs_exit_code_comes_back(cluster: Cluster) -> None:
    said = cluster.blindrec("submit", "run", "small.toml", "--epsilon", "-3")
    assert said.returncode == 2
    assert "\nblindrec: epsilon is -3; it must be above 0" in said.stdout
    assert said.stderr.splitlines()[-1].endswith("failed with exit code 2")


def test_data_that_the_cluster_does_not_have(cluster: Cluster) -> None:
    said = cluster.blindrec("submit", "run", "--ratings", "/no/such/ratings.csv")
    assert said.returncode == 2
    assert "\nblindrec: /no/such/ratings.csv is not on the cluster (node " in said.stdout


def test_a_job_is_left_looked_at_and_stopped(cluster: Cluster) -> None:
    left = cluster.blindrec("submit", *ENDLESS, "--detach")
    assert (left.returncode, left.stderr) == (0, "")
    (job,) = left.stdout.split()

    def state() -> str:
        return cluster.blindrec("status", job).stdout.splitlines()[1].split()[1]

    assert holds_within(PATIENCE, lambda: state() == "RUNNING")
    early = cluster.blindrec("status", job, "--json", "-")
    assert (early.returncode, early.stdout) == (2, "")
    assert early.stderr.startswith(f"blindrec: job {job} is RUNNING; its result is there when it is over")
    assert cluster.blindrec("stop", job).stdout == f"job {job} is stopping\n"
    followed = cluster.blindrec("status", job, "--follow")
    assert followed.returncode == 3
    assert followed.stderr.startswith(f"blindrec: job {job} was stopped")
    assert cluster.blindrec("stop", job).stdout == f"job {job} was not running; it is STOPPED\n"


def test_another_token_is_refused(cluster: Cluster) -> None:
    other = cluster.folder.parent / "other"
    said = cluster.blindrec("submit", "run", "small.toml", RAY_AUTH_TOKEN_PATH=str(other))
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith(f"blindrec: the head at {cluster.address} refuses the token")
    assert said.stderr.count("\n") == 1
