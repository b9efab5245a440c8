"""Ray's head is killed under a run: it ends in a line with what is kept, and goes on to the same end as others."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from runs import Command, holds_within

from scenarios.store.manifest import FOLDER, PROGRESS
from scenarios.store.record_log import count_records


def rounds_over(out: Path) -> int:
    """How many rounds are over of a run that lives, as its folder tells whoever watches it."""
    path = out / FOLDER / PROGRESS
    return int(json.loads(path.read_text())["rounds"]) if path.exists() else 0


SLOWLY = """
import sys, time
from scenarios.backends import ray_instance
from scenarios.store import journal
from scenarios.cli import main
keep = journal.Journal.keep
def slowly(self, over):
    keep(self, over)
    time.sleep(.2)
ray_instance.EVERY = .2
journal.Journal.keep = slowly
main(sys.argv[1:])
"""
RUN = ["run", "--items", "40", "--rated", "5", "--users", "900", "--design", "sign", "--policy", "fixed"]
RUN += ["--rounds", "90"]
PATIENCE = 300.0  # Seconds that a busy machine may take to start Ray; no test depends on how fast it is


@pytest.mark.thorough  # ten seconds of Ray; test_ray kills processes by default, and runs resume in process
@pytest.mark.cluster
def test_a_run_whose_head_died_goes_on(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds are slowed down, so that the head dies long before the last one; that it died is seen in a second."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    out = tmp_path / "out"
    command = [sys.executable, "-c", SLOWLY, *RUN, "--backend", "ray", "--workers", "1", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert holds_within(PATIENCE, lambda: rounds_over(out) >= 2 or run.poll() is not None)
            for one in [] if run.returncode is not None else psutil.Process(run.pid).children(recursive=True):
                if one.name() == "gcs_server":
                    one.kill()
            said, err = run.communicate(timeout=PATIENCE)
        finally:
            run.kill()
    kept = f"{count_records(out)} rounds are kept in {out}, the same command or blindrec resume {out} goes on"
    assert (run.returncode, said) == (3, ""), err
    line = err.splitlines()[-1]
    assert line.partition(" 127.0.0.1:")[0] == "blindrec: the Ray head at"
    assert line.endswith(f" died; {kept}")
    resumed = blindrec("resume", out, "--backend", "inprocess", "--json", "-")
    whole = blindrec(*RUN, "--backend", "inprocess", "--json", "-")
    assert resumed.result["releases_sha256"] == whole.result["releases_sha256"]
