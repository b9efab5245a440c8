"""Ray addresses that lead nowhere are refused at once, in one line, before any device is asked."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import ray
from runs import Command, free_ports, refused

from coordinator.protocol.errors import InputError, LostError
from scenarios.backends import ray_instance as cluster
from scenarios.backends.on_ray import await_capacity, wait_patiently
from scenarios.backends.ray_instance import on_ray

pytestmark = pytest.mark.usefixtures("nobody_asks")


@pytest.fixture
def port() -> int:
    """A port where nothing listens."""
    (number,) = free_ports(1)
    return number


@pytest.fixture
def stranger() -> Iterator[int]:
    """A port where something listens that is no Ray head: it answers whatever it is told with a line of text."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            line, _ = server.accept()
            with closing(line):
                line.recv(100)
                line.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(timeout=10)


def test_a_ray_address_where_nothing_listens(blindrec: Command, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is given, or that of the environment."""
    line = refused(blindrec, "run", "--users", 100, "--address", f"127.0.0.1:{port}")
    assert f"Ray address 127.0.0.1:{port} does not answer" in line
    assert "give the host:port of a running head" in line
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    assert refused(blindrec, "run", "--users", 100) == line


def test_a_ray_address_where_something_else_listens(blindrec: Command, stranger: int) -> None:
    line = refused(blindrec, "run", "--users", 100, "--address", f"127.0.0.1:{stranger}")
    assert f"Ray address 127.0.0.1:{stranger}" in line
    assert "something else listens there" in line


@pytest.mark.parametrize("address", ["127.0.0.1:head", "127.0.0.1:99999", "no such host:6379"])
def test_a_ray_address_that_is_none(address: str, blindrec: Command) -> None:
    line = refused(blindrec, "run", "--users", 100, "--address", address)
    assert f"Ray address {address} does not answer" in line


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A cluster of two CPUs that seems to be joined."""
    monkeypatch.setattr(cluster, "_join", lambda _, ship_code: ship_code)
    monkeypatch.setattr(cluster, "_head", lambda: "127.0.0.1:1")
    monkeypatch.setattr(cluster, "cpus_of_cluster", lambda: 2.0)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    return monkeypatch


def test_more_workers_than_an_instance_has_are_refused(joined: pytest.MonkeyPatch) -> None:
    """They would wait for CPUs that never come; where there is none, nobody can work."""
    with pytest.raises(InputError, match=r"^workers is 3, but Ray at head:1 has 2 CPUs; ask for that many"):
        on_ray(address="head:1", workers=3).__enter__()
    with on_ray(address="head:1", workers=None) as session:
        assert session.workers == 2
    joined.setattr(cluster, "cpus_of_cluster", lambda: 0.0)
    with pytest.raises(InputError, match=r"^Ray at head:1 has no CPU for a single worker; add a node to it$"):
        on_ray(address="head:1", workers=None).__enter__()


def test_a_busy_cluster_is_given_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless it makes room after a while: then it is used."""
    waited: list[float] = []
    patience = 600

    def wait(_: object, timeout: float) -> None:
        waited.append(timeout)
        if timeout < patience:
            raise ray.exceptions.GetTimeoutError(f"{timeout} s")

    monkeypatch.setattr("ray.get", wait)
    monkeypatch.setattr("ray.available_resources", lambda: {"CPU": 0.5})
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 4.0})
    free = "(0.5 of 4 CPUs are free)"
    with pytest.raises(LostError) as given_up:
        await_capacity([], 4)
    assert str(given_up.value) == (
        f"the cluster had no room for the run's actors for 600 s {free}; free CPUs, add a node or lower workers"
    )
    told = f"blindrec: some of the run's actors have not started after 60 s {free}; waiting 540 s more\n"
    assert capsys.readouterr().err == told
    patience = 540
    await_capacity([], 4)
    assert capsys.readouterr().err == told
    assert waited == [60, 540] * 2


def test_a_cluster_that_lost_a_node_is_given_up_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start of a coordinator, and where devices are asked what they spent or would recommend."""
    waited: list[float] = []

    def wait(answers: list[object], num_returns: int, timeout: float) -> tuple[list[object], list[object]]:
        waited.append(timeout)
        return [], answers

    def get(_: object, timeout: float) -> None:
        waited.append(timeout)
        raise ray.exceptions.GetTimeoutError

    monkeypatch.setattr("ray.wait", wait)
    monkeypatch.setattr("ray.get", get)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 1.0})
    for waiting in (await_capacity, wait_patiently):
        with pytest.raises(LostError, match=r"^the cluster has 1 CPUs left, the run needs 2; add a node, then resume$"):
            waiting([object()], 2)
    assert waited == [60, 60]


def test_answers_that_take_long_are_waited_for_while_the_cluster_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0, 0, 1])
    monkeypatch.setattr("ray.wait", lambda answers, **_: (answers[: next(times)], []))
    monkeypatch.setattr("ray.get", lambda answers: [f"{one}'s" for one in answers])
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 2.0})
    assert wait_patiently(["a device"], 2) == ["a device's"]
    assert next(times, None) is None
