"""A Ray instance of this process's own: it listens on loopback only, with a token that nobody else has."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray
from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined] # compiled, without types

from coordinator.protocol.errors import BlindrecError, LostError

_LISTENS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray 2.60 knows no setting for this: it listens on loopback where it thinks that a machine can have no cluster."""
_TOKEN = "RAY_AUTH_TOKEN"
_ATTEMPTS, _PAUSE = 20, 0.1


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


@contextmanager
def without_folder(session: Path | None) -> Iterator[None]:
    """Remove the folder of a session that ends with the block: logs, sockets and what Ray noted down.

    Where something was lost, or by a fault of ours, it is left: its logs may tell why.

    Parameters
    ----------
    session : Path or None
        Of an instance of this process's own; None for one that was joined, whose folder is not ours.
    """
    try:
        yield
    except LostError:
        raise
    except (BlindrecError, KeyboardInterrupt):
        _remove(session)
        raise
    _remove(session)


def _remove(session: Path | None) -> None:
    """Remove a folder, again where processes that are just ending have written there meanwhile."""
    for _ in range(_ATTEMPTS):
        if session is None or not session.exists():
            return
        shutil.rmtree(session, ignore_errors=True)
        time.sleep(_PAUSE)
