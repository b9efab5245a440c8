"""A Ray instance that belongs to this process: it listens on loopback only, and its token is secret."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator.protocol.errors import BlindrecError, LostError
from coordinator.protocol.versions import require_tested

require_tested("ray")
import ray  # noqa: E402 (what follows is private to it)
from ray._private import ray_constants  # noqa: E402
from ray._raylet import (  # type: ignore[attr-defined] # noqa: E402 (compiled, without types)
    AuthenticationTokenLoader,
    Config,
)

_LISTENS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray 2.60 has no setting for this. It listens on loopback if it believes that the system supports no cluster."""
_TOKEN = "RAY_AUTH_TOKEN"
_ATTEMPTS, _PAUSE = 20, 0.1


@contextmanager
def alone() -> Iterator[None]:
    """Make Ray instances that are started in this context, and all their processes, unreachable for others.

    A token in the environment is meant for clusters that are joined, so it is ignored here and restored afterwards.
    Nothing is written to the user's home. If this process already has an instance, its token is kept.

    Notes
    -----
    Ray reads where to listen only once, when it is imported. The variable is for the processes that it starts, the
    attribute for this process. It caches the token, too, so the cache is emptied before and after. A test lists the
    open ports; a version of Ray with which it was not run is refused, because this might not be enough for it.
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
    """Set or remove variables, and make Ray read them again."""
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
    """Remove the folder of a session at the end of the ``with`` block: logs, sockets and Ray's own files.

    The folder is left if something was lost or our own code failed, because its logs may tell why.

    Parameters
    ----------
    session : Path or None
        Folder of an instance that this process started; None for an instance that was joined.
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
    """Remove a folder, and repeat that if processes that are just ending have written there meanwhile."""
    for _ in range(_ATTEMPTS):
        if session is None or not session.exists():
            return
        shutil.rmtree(session, ignore_errors=True)
        time.sleep(_PAUSE)
