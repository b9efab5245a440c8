"""A local Ray instance with the processes that a run needs: a head, a node and workers, and none that watch them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from coordinator.protocol.versions import require_tested

require_tested("ray")
from ray._private import ray_constants, services, utils  # noqa: E402
from ray._private.node import Node  # noqa: E402

_AGENT = "--dashboard_agent_command=", "--runtime_env_agent_command="
_WAITING = subprocess.list2cmdline([sys.executable, "-I", "-S", str(Path(__file__).with_name("waiting.py"))])
_PORTS = (
    "--metrics-agent-port=-1",
    "--metrics_export_port=-1",
    "--dashboard_agent_listen_port=-1",
    "--runtime_env_agent_port=-1",
)
"""That nobody listens there, as Ray says where it was installed without its dashboard."""


@contextmanager
def lean() -> Iterator[None]:
    """Start an instance in this context without dashboard, autoscaler, log monitor, and agents of the node.

    Together they take as much processor time as all else that Ray starts, and the node waits until its agents have
    loaded all that they could do. Nobody asks a local instance for what they do: it has no dashboard, exports no
    metrics, is one node, its logs are not shown, and its workers run in the environment of this process.

    Notes
    -----
    Ray has no setting for this, so that four of its functions are replaced while it starts. A test counts the
    processes of a local instance.
    """
    with ExitStack() as replaced:
        for name in ("start_api_server", "start_monitor", "start_log_monitor"):
            replaced.enter_context(mock.patch.object(Node, name, _nothing))
        start = services.start_ray_process
        replaced.enter_context(mock.patch.object(services, "start_ray_process", lambda *a, **k: _start(start, *a, **k)))
        replaced.enter_context(mock.patch.object(utils, "get_dashboard_dependency_error", _nothing))
        replaced.enter_context(mock.patch.object(ray_constants, "RAY_ENABLE_UV_RUN_RUNTIME_ENV", new=False))
        yield


def _nothing(*_: Any, **__: Any) -> None:
    """Stand for a function that starts something."""


def _start(start: Any, command: list[str], kind: str, **told: Any) -> Any:
    """Start one of Ray's processes; a node starts `waiting` twice for its agents, and waits for no port of theirs."""
    if kind == ray_constants.PROCESS_TYPE_RAYLET:
        flags = {flag.partition("=")[0] for flag in _PORTS}
        command = [flag for flag in command if not flag.startswith(_AGENT) and flag.partition("=")[0] not in flags]
        command += [*_PORTS, *(f"{agent}{_WAITING}" for agent in _AGENT)]
    return start(command, kind, **told)
