"""A head started as the deploy page says: a job's result and exit code come back, a stopped one says so, runs join it.

The head starts once, and commands that do not disturb each other run there at the same time.
"""

import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mechanisms
import psutil
import pytest
import requests
from runs import Ended, free_ports, here, holds_within, of_file, planted_ratings, write_movielens

from benchmarks.victims import alive, below
from coordinator.server.fleet.coordinator_actor import GAUGES

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
PATIENCE = 300.0  # Seconds that a busy machine may take for a job; no test depends on how fast it is
NICE = "RAY_worker_niceness"
OWN = ["--design", "theirs:OUE", "--held-out", "0", "--workers", "1", "--json", "-"]
SLOW = """
class Slow(OUE):
    def sketch(self, *arguments):
        import time
        time.sleep(0.1)
        return super().sketch(*arguments)
"""
ENDLESS = ["run", "small.toml", "--design", "slow:Slow", "--policy", "fixed", "--rounds", "100000"]
ENDLESS += ["--answers-per-device", "100000", "--epsilon", "25", "--workers", "1", "--metrics"]


@dataclass(frozen=True)
class Cluster:
    """A head, and a working directory to submit from."""

    address: str
    folder: Path
    environment: dict[str, str]

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the command in the folder; it is told the dashboard's address."""
        return subprocess.Popen(
            [sys.executable, "-m", "scenarios", *words, "--address", self.address],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def blindrec(self, *words: str) -> Ended:
        """Run the command in the folder."""
        return ended(self.start(*words))


def ended(process: subprocess.Popen[str]) -> Ended:
    """What a command leaves."""
    with process:
        out, err = process.communicate(timeout=PATIENCE)
    return Ended(process.returncode, out, err)


def answers(port: int) -> bool:
    """Whether a dashboard or a node's agent is up; to whom it answers, and what, is its own matter."""
    try:
        return requests.get(f"http://127.0.0.1:{port}/api/version", timeout=2).status_code < 500
    except requests.RequestException:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head of one CPU with a dashboard and a token of its own; the folder's name is short, as sockets need it."""
    place = tmp_path_factory.mktemp("submission")
    (place / "key").write_text(secrets.token_hex(32))
    (place / "other").write_text(secrets.token_hex(32))
    (place / "work").mkdir()
    # fewer kernels than of a block model, and without a split, as each job compiles what it needs
    ratings = write_movielens(place / "ratings.csv", planted_ratings(users=200, items=20, each=6))
    (place / "work" / "small.toml").write_text(f"ratings = '{ratings}'\n")
    source = Path(mechanisms.__file__).read_text(encoding="utf-8")
    for name, more in (("theirs", ""), ("slow", SLOW)):
        (place / "work" / f"{name}.py").write_text(source + more, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_") or name == NICE}
    environment = kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(place / "key"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    port, dashboard, client, *agents = free_ports(7)
    flags = ["--num-cpus=1", "--dashboard-host=127.0.0.1", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    flags += ["--no-monitor", "--include-log-monitor=false"]  # a second of processor each, and no test looks at them
    ports = [f"--port={port}", f"--dashboard-port={dashboard}", f"--ray-client-server-port={client}"]
    with tempfile.TemporaryDirectory(prefix="ray") as folder, tempfile.TemporaryFile() as said:
        command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--temp-dir={folder}"]
        # jobs must get blindrec by submission, not from the head's own path
        bare = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
        bare |= {"RAY_metrics_report_interval_ms": "500", "RAY_raylet_start_wait_time_s": f"{PATIENCE:.0f}"}
        # the node waits no more than 15 s for ports that its agents choose themselves
        names = ("dashboard-agent-listen", "dashboard-agent-grpc", "metrics-export", "runtime-env-agent")
        whole = [*command, *flags, *ports, *(f"--{name}-port={one}" for name, one in zip(names, agents, strict=True))]
        with subprocess.Popen(whole, stdout=said, stderr=said, env=bare, cwd=folder) as process:
            mine = psutil.Process(process.pid)
            try:
                for server in (dashboard, agents[0]):  # the agent takes jobs, and may be up long after the dashboard
                    assert holds_within(PATIENCE, partial(answers, server))
                yield Cluster(f"http://127.0.0.1:{dashboard}", place / "work", environment)
            finally:
                started = below(mine)
                process.terminate()
                process.wait(PATIENCE)
                assert holds_within(20, lambda: not alive(started))


@pytest.fixture(scope="module")
def told(cluster: Cluster) -> Ended:
    """What a command leaves that submits a small run."""
    return cluster.blindrec("submit", "run", "small.toml", *OWN, "--out", str(cluster.folder.parent / "kept"))


def require_own_run(cluster: Cluster, said: Ended) -> None:
    """Its mechanism's file lies in the working directory; the cluster has never heard of it."""
    wanted = of_file(cluster.folder.parent / "ratings.csv", design=mechanisms.OUE(), held_out=0)
    assert (said.code, "Traceback" in said.err) == (0, False), said.err
    assert (said.result["backend"], said.result["workers"], said.result["answered"]) == ("ray", 1, 200)
    assert said.result["releases_sha256"] == here(wanted).outcome.releases_sha256


def test_a_job_brings_a_mechanism_of_ones_own_and_its_result_comes_here(cluster: Cluster, told: Ended) -> None:
    require_own_run(cluster, told)
    assert "blindrec run, theirs:OUE, ray" in told.err


def test_the_folder_of_a_job_is_fetched(cluster: Cluster, told: Ended) -> None:
    (job,) = re.findall(r"job (\S+) is submitted", told.err)
    said = cluster.blindrec("fetch", job, "--out", "here")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("7 files, ")
    assert "of all is verified" in said.out
    kept, here_ = cluster.folder.parent / "kept", cluster.folder / "here"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == {
        path.name: path.read_bytes() for path in here_.iterdir()
    }


def scraped(address: str) -> dict[str, float]:
    """What a scraper finds of ours, by name."""
    lines = requests.get(address, timeout=5).text.splitlines()
    return {line.partition("{")[0]: float(line.split()[-1]) for line in lines if line.startswith("ray_blindrec_")}


@pytest.mark.thorough  # 27 seconds of processor; tests/scenarios/cluster/test_heads.py holds each command by itself
def test_a_job_is_left_looked_at_scraped_and_stopped(cluster: Cluster) -> None:
    left = cluster.blindrec("submit", *ENDLESS, "--detach")
    assert (left.code, left.err) == (0, "")
    (job,) = left.out.split()

    with cluster.start("status", job, "--follow") as following:
        assert following.stdout
        found = (re.search(r"scraped at (http\S+)", line) for line in following.stdout)
        address = next(one[1] for one in found if one)
        assert any("answers are in" in line for line in following.stdout)  # up to the first such line
        assert holds_within(PATIENCE, lambda: scraped(address).get("ray_blindrec_asked", 0.0) > 0)
        names = {f"ray_{name}" for field, (name, _) in GAUGES.items() if field != "undecided"}
        assert scraped(address).keys() == names
        assert cluster.blindrec("stop", job).out == f"job {job} is stopping\n"
        rest, line = following.communicate(timeout=PATIENCE)
    assert following.returncode == 3
    assert "blindrec: interrupted; " in rest  # it had the time to say so
    assert line.startswith(f"blindrec: job {job} was stopped")
    watched = cluster.blindrec("watch", job)
    assert (watched.code, "of 20,000,000 answers" in watched.out) == (3, True)
    assert watched.err.startswith(f"blindrec: job {job} was stopped")
