"""Environments of the rivals: made once from pinned versions, and scripts run in them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INSTALLING = 600.0  # Seconds that one installation may take
RUNNING = 300.0  # Seconds that one rival may take
FINISHED = "finished"
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
_QUIET = {"OPENBLAS_NUM_THREADS": "1"}


def pinned(name: str) -> Path:
    """Return the file of exact versions of a rival and all it needs."""
    return HERE / "requirements" / f"{name}.txt"


def environment(name: str) -> Path:
    """Return the Python of a rival's environment in the user's cache, which is made if it is not there in full.

    Its folder's name tells rival, versions and Python, so that a change makes a new one.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blindrec" / "rivals"
    key = f"{sys.version_info[:2]} {pinned(name).read_text(encoding='utf-8')}"
    home = (folder / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}").absolute()
    python = home / "bin" / "python"
    if not (home / FINISHED).exists():
        shutil.rmtree(home, ignore_errors=True)
        _completed([sys.executable, "-m", "venv", str(home)], INSTALLING)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
        _completed([str(python), *install, "--only-binary=:all:", "-r", str(pinned(name))], INSTALLING)
        (home / FINISHED).touch()
    return python


def outside(python: Path, script: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a script of `benchmarks.rivals.inside` with a rival's Python; return the JSON of its last line."""
    out = _completed([str(python), "-m", f"benchmarks.rivals.inside.{script}", json.dumps(job)], RUNNING)
    figures: dict[str, Any] = json.loads(out.strip().rpartition("\n")[2])
    return figures


def _completed(command: Sequence[str], seconds: float) -> str:
    """Run a command from the project's folder, without our environment's settings; return its standard output."""
    settings = {name: value for name, value in os.environ.items() if name not in _OURS} | _QUIET
    ran = subprocess.run(
        command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, text=True, timeout=seconds, check=True
    )
    return ran.stdout
