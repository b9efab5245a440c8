"""A command on Ray is terminated; its resumption loses Ray's head: a line each, and the run ends as an undisturbed one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from runs import Command, holds_within

from scenarios.journal import kept_rounds

SLOWLY = """
import sys, time
from scenarios import journal
from scenarios.cli import main
keep = journal.Journal.keep
def slowly(self, over):
    keep(self, over)
    time.sleep(0.3)
journal.Journal.keep = slowly
main(sys.argv[1:])
"""
RUN = ["run", "--items", "40", "--rated", "5", "--users", "900", "--design", "sign", "--policy", "fixed"]
RUN += ["--rounds", "300"]
ON_RAY = ["--workers", "1"]


def ended(number: signal.Signals, victim: str, out: Path, *arguments: str) -> tuple[int, str, list[Path]]:
    """Signal a process of a command once it has kept two more rounds; return code, last line, Ray's session folders."""
    before = kept_rounds(out)
    command = [sys.executable, "-c", SLOWLY, *arguments, *ON_RAY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert holds_within(120, lambda: kept_rounds(out) >= before + 2 or run.poll() is not None)
            ours = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
            told = [
                word.partition("=")[2] for one in ours for word in one.cmdline() if word.startswith("--session_dir=")
            ]
            next(one for one in ours if victim in one.name()).send_signal(number)
            _, err = run.communicate(timeout=60)
        finally:
            run.kill()
    return run.returncode, err.splitlines()[-1], [Path(one) for one in told]


@pytest.mark.cluster
@pytest.mark.slow
def test_sigterm_and_a_dead_head_end_in_a_line_and_lose_nothing(
    blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    out = tmp_path / "out"
    code, line, sessions = ended(signal.SIGTERM, "python", out, *RUN, "--out", str(out))
    kept = f"{kept_rounds(out)} rounds are kept in {out}, the same command or blindrec resume {out} goes on"
    assert (code, line) == (3, f"blindrec: interrupted; {kept}")
    assert sessions
    assert not any(one.exists() for one in sessions)
    code, line, _ = ended(signal.SIGKILL, "gcs_server", out, "resume", str(out))
    kept = f"{kept_rounds(out)} rounds are kept in {out}, the same command or blindrec resume {out} goes on"
    assert (code, line.partition(" 127.0.0.1:")[0]) == (3, "blindrec: the Ray head at")
    assert line.endswith(f" died; {kept}")
    resumed = blindrec("resume", out, "--backend", "inprocess", "--json", "-")
    whole = blindrec(*RUN, "--backend", "inprocess", "--json", "-")
    assert resumed.result["releases_sha256"] == whole.result["releases_sha256"]
