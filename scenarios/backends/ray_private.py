"""All that is private to Ray and used: an instance of this process listens on loopback only, with its own token."""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

import psutil

from coordinator.protocol.errors import InputError
from coordinator.protocol.losses import require_tested

require_tested("ray")
import ray  # noqa: E402 (what follows is private to it)
from ray._private import ray_constants  # noqa: E402
from ray._raylet import (  # type: ignore[attr-defined] # noqa: E402 (compiled, without types)
    AuthenticationTokenLoader,
    Config,
)

_LISTENS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray has no setting for this. It listens on loopback if it believes that the system supports no cluster."""
_TOKEN = "RAY_AUTH_TOKEN"
_OFTEN = {"metrics_report_interval_ms": 1000}
"""How often processes of a local instance report; of others their owner decides, and Ray's own setting is 10 s."""


def local_settings(*, measured: bool) -> dict[str, Any]:
    """Return arguments of `ray.init` for a local instance: no hook of the user's clusters, and metrics come often."""
    return {"_skip_env_hook": True, "_system_config": _OFTEN if measured else None}


@contextmanager
def alone() -> Iterator[None]:
    """Make Ray instances that are started in this context, and all their processes, unreachable for others."""
    # A token in the environment is meant for clusters that are joined: it is ignored and restored. Ray reads where to
    # listen when it is imported: the variable is for the processes that it starts, the attribute for this one; it
    # caches the token, so that the cache is emptied before and after. `on_loopback` looks at the open ports all the
    # same, and other versions of Ray than those that the tests ran with are refused.
    if ray.is_initialized():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="blindrec-token-") as folder:
        token = Path(folder) / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32), encoding="ascii")
        settings = {_LISTENS: "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        before = {name: os.environ.get(name) for name in (*settings, _TOKEN)}
        clusters = ray_constants.ENABLE_RAY_CLUSTER
        try:
            _become({**settings, _TOKEN: None}, clusters=False)
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
def on_loopback() -> Iterator[None]:
    """Look at the ports that are opened in the ``with`` block, by this process and those that it has started."""
    before = _listening()
    yield
    try:
        reached = sorted(port for port in _listening() - before if not _is_loopback(port[0]))
    except psutil.AccessDenied as error:
        ray.shutdown()
        raise InputError(
            f"open ports of Ray's process {error.pid} cannot be looked at, so that it may be reached from other "
            "machines; take --backend inprocess"
        ) from None
    if reached:
        ray.shutdown()
        address, port, whose = reached[0]
        raise InputError(
            f"Ray {ray.__version__} listens on {address} port {port} ({whose}), where other machines reach it; take "
            "--backend inprocess, or the newest Ray that blindrec is tested with"
        )


def _listening() -> set[tuple[str, int, str]]:
    """Return where this process and those that it has started listen: address, port, and the program's name."""
    this, ports = psutil.Process(), set()
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            for connection in process.net_connections(kind="tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    ports.add((connection.laddr.ip, connection.laddr.port, process.name()))
    return ports


def _is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address; one of IPv4 may be written as one of IPv6."""
    read = ip_address(address)
    return bool((read.ipv4_mapped or read).is_loopback if isinstance(read, IPv6Address) else read.is_loopback)
