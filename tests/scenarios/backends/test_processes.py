"""`blindrec` as a process: Ctrl-C ends what the run started, no more."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from runs import holds_within

from benchmarks.victims import alive, below

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
BLINDREC = [sys.executable, "-m", "scenarios"]
PATIENCE = 300.0  # Seconds that a busy machine may take to start Ray; no test depends on how fast it is


@pytest.fixture(autouse=True)
def no_ray_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands see no Ray instance but the one they are told."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture
def namesake() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else that is called like a device of ours."""
    name = ["ray::DeviceHost.ask", "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(name, executable=sys.executable) as process:
        yield process
        process.kill()


def is_answering(process: psutil.Process, seen: dict[psutil.Process, str]) -> bool:
    """Whether a device of the run is at work; ``seen`` gathers every process below it."""
    seen |= below(process)
    return any(line.startswith("ray::DeviceHost.ask") for line in seen.values())


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_processes_of_the_run_and_no_other(namesake: subprocess.Popen[bytes], tmp_path: Path) -> None:
    command = [*BLINDREC, "run", "--items", "2000", "--users", "1000000000", "--workers", "1", "--backend", "ray"]
    seen: dict[psutil.Process, str] = {}
    with subprocess.Popen(
        [*command, "--out", str(tmp_path / "out"), "--json", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that the signal reaches the whole group, as from a terminal
    ) as run:
        try:
            whole = psutil.Process(run.pid)
            assert holds_within(PATIENCE, lambda: is_answering(whole, seen) or run.poll() is not None)
            if run.poll() is None:  # one that failed says below why
                os.killpg(run.pid, signal.SIGINT)
            out, err = run.communicate(timeout=PATIENCE)
            assert holds_within(20, lambda: not alive(seen)), [seen[one] for one in alive(seen)]
        finally:
            for left in alive([*seen, whole]):
                left.kill()
    assert run.returncode == 130, err
    assert len(seen) > 4
    assert out == ""
    assert err.splitlines()[-1].startswith("blindrec: interrupted; what this run started has ended")
    assert not (tmp_path / "out").exists()
    assert namesake.poll() is None
