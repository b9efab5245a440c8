"""A Ray instance of this process's own: it listens on loopback only, with a token that nobody else has."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray
from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined] # compiled, without types

_LISTENS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray 2.60 knows no setting for this: it listens on loopback where it thinks that a machine can have no cluster."""
_TOKEN = "RAY_AUTH_TOKEN"


@contextmanager
def alone() -> Iterator[None]:
    """Let Ray instances that are started meanwhile, and all their processes, be reached by nobody else.

    What the environment says of a token is for clusters that are joined: it does not count here, and counts again
    afterwards. Nothing is written to the user's home. Where this process has an instance already, its token stays.

    Notes
    -----
    Ray reads the setting that decides where it listens once, as it is imported; the variable is for the processes that
    it starts, the attribute for this one. The token is read once too, so that its cache is emptied at both ends. A test
    lists the ports, and would notice a version of Ray for which this is not enough.
    """
    if ray.is_initialized():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="blindrec-token-") as folder:
        token = Path(folder) / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32), encoding="ascii")
        wanted = {_LISTENS: "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        before = {name: os.environ.get(name) for name in (*wanted, _TOKEN)}
        clusters = ray_constants.ENABLE_RAY_CLUSTER
        try:
            _become({**wanted, _TOKEN: None}, clusters=False)
            yield
        finally:
            _become(before, clusters=clusters)


def _become(environment: dict[str, str | None], *, clusters: bool) -> None:
    """Set or remove variables, and let Ray look at them again."""
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    ray_constants.ENABLE_RAY_CLUSTER = clusters
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
