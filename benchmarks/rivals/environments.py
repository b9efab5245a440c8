"""Environments of the rivals: made once from pinned versions, and scripts run in them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INSTALLING = 600.0  # Seconds that one installation may take
RUNNING = 300.0  # Seconds that one rival may take
FINISHED = "finished"
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "RAY_ADDRESS")
_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "OPENBLAS_NUM_THREADS": "1"}


def default_folder() -> Path:
    """Return where environments are kept: in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blindrec" / "rivals"


def pinned(name: str) -> Path:
    """Return the file of exact versions of a rival and all it needs."""
    return HERE / "requirements" / f"{name}.txt"


def environment(name: str, folder: Path) -> Path:
    """Return the Python of a rival's environment, which is made if it is not there in full.

    Its folder's name tells rival, versions and Python, so that a change makes a new one. What is there of one that
    cannot be made (`InputError`) is made anew the next time.
    """
    key = f"{sys.version_info[:2]} {pinned(name).read_text(encoding='utf-8')}"
    home = (folder / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}").absolute()
    python = home / "bin" / "python"
    if (home / FINISHED).exists():
        return python
    failing = f"the environment of {name} in {home} cannot be made"
    try:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{failing}: {error.strerror}; give another folder as --environments") from None
    remedy = "see that pip reaches a package registry and the disk has 2 GB, and run the command again"
    _completed([sys.executable, "-m", "venv", str(home)], INSTALLING, failing, remedy)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
    _completed([str(python), *install, "--only-binary=:all:", "-r", str(pinned(name))], INSTALLING, failing, remedy)
    (home / FINISHED).touch()
    return python


def outside(name: str, python: Path, script: str, job: dict[str, Any]) -> dict[str, Any]:
    """Run a script of `benchmarks.rivals.inside` with a rival's Python; return the JSON of its last line.

    It fails (`InputError`) if the script takes longer than `RUNNING` or does not end with JSON.
    """
    command = [str(python), "-m", f"benchmarks.rivals.inside.{script}", json.dumps(job)]
    remedy = f"remove {python.parents[1]} to have the environment made anew"
    out = _completed(command, RUNNING, f"{name} failed", remedy)
    last = out.strip().rpartition("\n")[2]
    try:
        figures = json.loads(last)
    except ValueError:
        figures = None
    if not isinstance(figures, dict):
        raise InputError(f"{name} ended with {last[:80]!r} instead of its figures as JSON; {remedy}")
    return figures


def _completed(command: Sequence[str], seconds: float, failing: str, remedy: str) -> str:
    """Run a command from the project's folder, without our environment's settings; return its standard output."""
    settings = {name: value for name, value in os.environ.items() if name not in _OURS} | _QUIET
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{failing}: it took more than {seconds:g} seconds; {remedy}") from None
    except OSError as error:
        raise InputError(f"{failing}: {command[0]}: {error.strerror}; {remedy}") from None
    if ran.returncode:
        lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()] or lines or [f"exit code {ran.returncode}"]
        raise InputError(f"{failing}: {errors[-1][:200]}; {remedy}")
    return ran.stdout
