"""Keys, tokens and passwords, which are never sent to a cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path

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


def secrets_in(folder: Path, passed_over: Collection[str]) -> list[Path]:
    """Return paths of files and folders below ``folder`` that are never sent, relative to it."""
    secrets = []
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in passed_over]
        for name in (*names, *files):
            path = Path(place, name)
            if is_secret(name) or (path.is_symlink() and any(map(is_secret, path.resolve().parts))):
                secrets.append(path.relative_to(folder))
        names[:] = [name for name in names if not is_secret(name)]
    return sorted(secrets)


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
