"""What is private to Ray stands in one file; what a local run starts is reached from here only, with a token."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import ray
from ray._private import ray_constants

from coordinator.protocol.errors import InputError
from scenarios.backends.on_ray import OnRay
from scenarios.backends.ray_private import alone, on_loopback

NAMES = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_TOKEN")
LOOPBACK = ("127.", "::1", "::ffff:127.")


def seen() -> dict[str, str | None]:
    """What a process finds in its environment."""
    return {name: os.environ.get(name) for name in NAMES}


def test_the_environment_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a user's own settings hold, for a cluster that is joined."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    before, clusters = seen(), ray_constants.ENABLE_RAY_CLUSTER
    with alone():
        token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        assert (token.stat().st_mode & 0o777, token.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert len(token.read_text()) == 64
        assert (seen()["RAY_AUTH_MODE"], seen()["RAY_AUTH_TOKEN"]) == ("token", None)
    assert (seen(), ray_constants.ENABLE_RAY_CLUSTER) == (before, clusters)
    assert not token.parent.exists()


def listening() -> Iterator[tuple[str, str]]:
    """Addresses at which this process and those below it listen, with a process's name."""
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            every = process.net_connections(kind="tcp")
            yield from ((one.laddr.ip, process.name()) for one in every if one.status == psutil.CONN_LISTEN)


@pytest.mark.cluster
def test_the_instance_that_tests_share_listens_on_loopback_only_and_its_token_is_not_in_the_home(
    ray_session: OnRay,
) -> None:
    """Its folder is gone afterwards, and signals mean what they did, as the fixture sees."""
    names, ports = NAMES, set(listening())
    task = ray.remote(num_cpus=0)(lambda: {name: os.environ.get(name) for name in names})
    assert ray.get(task.remote()) == seen()
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert Path.home() not in Path(os.environ["RAY_AUTH_TOKEN_PATH"]).parents
    assert {whose for _, whose in ports} >= {"raylet", "gcs_server"}
    assert [one for one in ports if not one[0].startswith(LOOPBACK)] == []


ROOT = Path(__file__).parents[3]
PRIVATE = re.compile(r"ray\._(private|raylet)|_skip_env_hook|_system_config")


def test_what_is_private_to_ray_stands_in_one_file() -> None:
    product = [
        file for name in ("actors", "blindrec", "coordinator", "scenarios") for file in (ROOT / name).rglob("*.py")
    ]
    assert len(product) > 100
    private = [file.name for file in product if PRIVATE.search(file.read_text(encoding="utf-8"))]
    assert private == ["ray_private.py"]


def test_a_port_that_others_reach_ends_ray_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr("ray.shutdown", lambda: ended.append(True))
    with socket.socket() as here, socket.socket() as everywhere:
        with on_loopback():
            here.bind(("127.0.0.1", 0))
            here.listen()
        assert not ended

        def listen() -> None:
            with on_loopback():
                everywhere.bind(("0.0.0.0", 0))
                everywhere.listen()

        with pytest.raises(InputError) as error:
            listen()
        port = everywhere.getsockname()[1]
        with on_loopback():  # what was open before is the caller's
            pass
    assert f"listens on 0.0.0.0 port {port} (" in str(error.value)
    assert "take --backend inprocess" in str(error.value)
    assert ended == [True]


def test_ports_that_cannot_be_looked_at_end_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr("ray.shutdown", lambda: ended.append(True))

    def denied(*_: object, **__: object) -> None:
        raise psutil.AccessDenied(7)

    with pytest.raises(InputError, match=r"process 7 cannot be looked at.*take --backend inprocess"), on_loopback():
        monkeypatch.setattr("psutil.Process.net_connections", denied)
    assert ended == [True]
