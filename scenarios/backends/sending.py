"""The files that are sent with a job, without data, runs, caches, keys, tokens and passwords."""

import importlib.util
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError
from scenarios import PACKAGES, runtime

SECRETS = (
    ".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
    "*.gpg", "*.asc", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".yarnrc",
    ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".htpasswd", ".dockercfg", ".vault*", "kubeconfig*",
    "*.kubeconfig", "*token*", "*secret*", "*credential*", "*password*", "*passwd*", "service-account*.json",
    "*.tfstate*", "*.tfvars", ".aws", ".azure", ".gcloud", ".ssh", ".gnupg", ".kube", ".docker", ".ray", "*.ovpn",
)  # fmt: skip
"""Patterns of the names of files and folders, in upper or lower case."""
_SHOWN = 5


def is_secret(name: str) -> bool:
    """Return whether a file or folder of that name is never sent."""
    return any(fnmatch(name.lower(), pattern) for pattern in SECRETS)


def excluding(path: Path) -> str:
    r"""Return the pattern, as in `.gitignore`, of one file or folder.

    >>> excluding(Path("a/my [old].KEY"))
    '/a/my\\ \\[old\\].KEY'
    """
    return "/" + re.sub(r"([\\\[\]*?!# ])", r"\\\1", path.as_posix())


def secrets_warning(left: list[Path]) -> str:
    """Return a line that names what was left out, or an empty text."""
    if not left:
        return ""
    names = ", ".join(map(str, left[:_SHOWN])) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
    return f"not sent, since the name is that of a key, a token or a password: {names}; rename what the job needs"


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
_GRACE = 20  # Seconds that a stopped job has to end by itself


def environment(folder: Path) -> dict[str, Any]:
    """Return Ray's description of the files that are sent with a job."""
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
    """Return what lies below a folder and is named like a key, a token or a password, relative to it."""
    secrets = []
    for directory, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in _NOT_WALKED]
        for name in (*names, *files):
            path = Path(directory, name)
            if is_secret(name) or (path.is_symlink() and any(map(is_secret, path.resolve().parts))):
                secrets.append(path.relative_to(folder))
        names[:] = [name for name in names if not is_secret(name)]
    return sorted(secrets)


def run_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders below ``folder`` that hold a run, finished or not."""
    for directory, names, _ in os.walk(folder):
        names[:] = [name for name in names if name not in _NOT_WALKED]
        here = Path(directory)
        if here != folder and any((here / mark).is_file() for mark in _RUN):
            names.clear()
            yield here
        elif len(here.relative_to(folder).parts) >= _DEEP:
            names.clear()


def entrypoint(arguments: Sequence[str]) -> str:
    """Return the shell command that a job runs; it refuses another Python or Ray than these."""
    return shlex.join(["exec", "python", "-m", "scenarios.job", runtime(), *arguments])


def check_folder(folder: Path) -> None:
    """Refuse to send a whole disk or home."""
    if folder.resolve() in (Path("/"), Path.home().resolve()):
        raise InputError(f"the working directory {folder} would be sent whole; submit from a folder of its own")
