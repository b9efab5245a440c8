"""The files that are sent with a job: the working directory without data, runs and caches, and blindrec's code."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError
from scenarios import PACKAGES
from scenarios.places.withheld import SECRETS, excluding, secrets_in

_TOOLS = (
    ".git/", ".venv*/", "venv/", ".hypothesis/", ".*_cache/", "__pycache__/", "*.py[co]", "*.nb[ic]", "*.egg-info/",
    "build/", "dist/",
)  # fmt: skip
_DATA = (
    "*.csv", "*.tsv", "*.dat", "*.data", "*.parquet", "*.zip", "*.gz", "*.bz2", "*.xz", "*.tar", "*.xls", "*.xlsx",
    "*.np[yz]", "*.pkl", "*.h5", "*.sqlite",
)  # fmt: skip
EXCLUDES = (*_TOOLS, *_DATA, *SECRETS, "runs/")
"""Patterns in the style of `.gitignore` of files that are never sent; `.gitignore` and `.rayignore` apply as well."""
_NOT_WALKED = {".git", ".venv", ".venv-oldest", "venv", "node_modules", "__pycache__"}
_RUN = ("versions.json", "rounds/scenario.json")
"""Every folder of a run or sweep holds one of these files, whether it is finished or not."""
_DEEP = 6
_GRACE = 20
"""Seconds that a stopped job has to end by itself."""


def environment(folder: Path) -> dict[str, Any]:
    """Return Ray's description of the files that are sent with a job.

    The working directory is sent without `EXCLUDES`, without keys, tokens and passwords (`left_out`) and without
    folders of runs. If it does not hold blindrec's packages, these are sent as well, so that both sides run the same
    code.
    """
    runs = [f"/{run.relative_to(folder).as_posix()}/" for run in run_folders(folder)]
    described: dict[str, Any] = {
        "working_dir": str(folder),
        "excludes": [*EXCLUDES, *runs, *map(excluding, left_out(folder))],
        "env_vars": {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": str(_GRACE)},
    }
    if not all((folder / name / "__init__.py").is_file() for name in PACKAGES):
        described["py_modules"] = own_packages()
    return described


def own_packages() -> list[str]:
    """Return the folders of blindrec's packages."""
    specs = [importlib.util.find_spec(name) for name in PACKAGES]
    return [folder for spec in specs if spec for folder in spec.submodule_search_locations or ()]


def left_out(folder: Path) -> list[Path]:
    """Return files below the working directory whose names are those of keys, tokens or passwords."""
    return secrets_in(folder, _NOT_WALKED)


def run_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders below ``folder`` that hold a run, finished or not."""
    for place, names, _ in os.walk(folder):
        names[:] = [name for name in names if name not in _NOT_WALKED]
        here = Path(place)
        if here != folder and any((here / mark).is_file() for mark in _RUN):
            names.clear()
            yield here
        elif len(here.relative_to(folder).parts) >= _DEEP:
            names.clear()


def entrypoint(arguments: Sequence[str]) -> str:
    """Return the shell command that a job runs; it refuses a Python that is not this one."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return python("scenarios.submitted", version, *arguments)


def python(module: str, *arguments: str) -> str:
    """Return the shell command that runs one of our modules on the cluster."""
    return shlex.join(["exec", "python", "-m", module, *arguments])


def check_folder(folder: Path) -> None:
    """Refuse to send a whole disk or home."""
    if folder.resolve() in (Path("/"), Path.home().resolve()):
        raise InputError(f"the working directory {folder} would be sent whole; submit from a folder of its own")
