"""Heads that do not answer, refuse the token, run other versions or know no such job: one line each, exit code 2."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import ray
from runs import Command, refused

from scenarios.cluster import head
from scenarios.cluster.job_log import result_line

BOUNDS = ["bounds", "--items", "1000", "--rated", "30"]
VERSION = "/api/version"
Answers = dict[str, tuple[int, object]]  # Status and JSON (or text) by path


class Service(ThreadingHTTPServer):
    """Something that speaks HTTP and says what it is told."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        held = self.path.startswith("/api/packages/")  # no package needs to be sent
        status, value = self.server.answers.get(self.path, (200, {}) if held else (404, "not found"))
        content = (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory, and no head or token of the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def service() -> Iterator[Service]:
    """A head of our versions that knows no job."""
    answers: Answers = {
        VERSION: (200, {"version": "4", "ray_version": ray.__version__}),
    }
    with Service(answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "word"), [(401, "Missing"), (403, "Invalid")])
@pytest.mark.parametrize("command", [("submit", *BOUNDS), ("status", "job1"), ("stop", "job1")])
def test_refused_tokens(service: Service, status: int, word: str, command: tuple[str, ...], blindrec: Command) -> None:
    service.answers[VERSION] = (status, f"{word} authentication token")
    line = refused(blindrec, *command, "--address", service.url)
    assert line.startswith(f"the head at {service.url} refuses the token (Authentication ")
    assert line.endswith("set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to the cluster's token file\n")


def test_a_head_whose_agent_has_no_port(service: Service, blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another head runs on the machine: Ray's own words have no remedy."""
    monkeypatch.setattr(head, "AGENT", 0.0)
    said = "Traceback (most recent call last): No available agent to submit job, please try again later."
    service.answers["/api/jobs/"] = (500, said)
    line = refused(blindrec, "submit", *BOUNDS, "--address", service.url)
    assert "does not take the job (" in line
    assert "No available agent to submit job" in line
    assert line.endswith("start the head with a free port as --dashboard-agent-listen-port\n")


def test_a_job_that_is_unknown(service: Service, blindrec: Command) -> None:
    line = refused(blindrec, "status", "job1", "--address", service.url)
    assert line.startswith(f"job job1 is unknown to the head at {service.url}; ")


@pytest.mark.parametrize("answer", [(200, "<html>"), (200, []), (200, {}), (404, "no"), (500, "oh")])
def test_something_else_that_answers(service: Service, answer: tuple[int, object], blindrec: Command) -> None:
    service.answers[VERSION] = answer
    line = refused(blindrec, "status", "x", "--address", service.url)
    assert line.startswith(f"no Ray head answers at {service.url} (")


@pytest.fixture
def job(service: Service) -> Answers:
    """A job that the head knows: over, with a result in its log."""
    service.answers["/api/jobs/job1"] = (200, {
        "type": "SUBMISSION", "submission_id": "job1", "status": "SUCCEEDED", "entrypoint": "exec python",
        "driver_exit_code": 0, "start_time": 1000, "end_time": 3500,
        "metadata": {"blindrec": "run --out /data/a", "out": "/data/a"},
        "driver_agent_http_address": "http://10.0.0.5:52365",
    })  # fmt: skip
    log = "\n".join(["begun", result_line(b'{"users": 5}\n'), "over", ""])
    service.answers["/api/jobs/job1/logs"] = (200, {"logs": log})
    return service.answers


def test_the_state_of_a_job(service: Service, job: Answers, blindrec: Command) -> None:
    said = blindrec("status", "job1", "--address", service.url)
    assert (said.code, said.err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in said.out.replace("exit code", "exit_code").splitlines())
    assert rows == {
        "job": "job1", "status": "SUCCEEDED", "command": "run --out /data/a", "seconds": "2.5", "exit_code": "0",
        "out": "/data/a on node 10.0.0.5",
    }  # fmt: skip


def test_the_result_of_a_job_that_is_over(service: Service, job: Answers, blindrec: Command, tmp_path: Path) -> None:
    assert blindrec("status", "job1", "--json", "-", "--address", service.url).result == {"users": 5}
    file = tmp_path / "result.json"
    followed = blindrec("status", "job1", "--follow", "--json", file, "--address", service.url)
    assert (followed.code, followed.out) == (0, "begun\nover\n")
    assert followed.err == "blindrec: /data/a is a folder of the cluster's node 10.0.0.5, not of this machine\n"
    assert file.read_bytes() == b'{"users": 5}\n'


def test_a_job_that_left_no_result(service: Service, job: Answers, blindrec: Command) -> None:
    job["/api/jobs/job1/logs"] = (200, {"logs": "begun\n"})
    line = refused(blindrec, "status", "job1", "--json", "-", "--address", service.url)
    assert line.startswith("job job1 left no result in its log; ")


def test_a_result_that_is_damaged_or_has_no_place_can_be_fetched_again(
    service: Service, job: Answers, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = ["status", "job1", "--follow", "--address", service.url, "--json"]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("scenarios.commands.job_commands.write_bytes", full)
        said = blindrec(*follow, tmp_path / "result.json")
    assert said.code == 3
    assert "No space left on device; job job1 is over, `blindrec status job1 --json FILE` fetches" in said.err
    job["/api/jobs/job1/logs"] = (200, {"logs": result_line(b"{}")[:-6] + "\n"})
    said = blindrec(*follow, "-")
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith("blindrec: what was sent is damaged in the job's log: ")


def test_the_result_of_a_job_that_is_not_over(service: Service, job: Answers, blindrec: Command) -> None:
    job["/api/jobs/job1"] = (200, {"type": "SUBMISSION", "status": "RUNNING", "entrypoint": "exec python"})
    line = refused(blindrec, "status", "job1", "--json", "-", "--address", service.url)
    assert line == "job job1 is RUNNING; its result is there when it is over, or use --follow\n"


@pytest.mark.parametrize(
    ("stopped", "line"), [(True, "job job1 is stopping\n"), (False, "job job1 was not running; it is SUCCEEDED\n")]
)
def test_stopping(service: Service, job: Answers, stopped: bool, line: str, blindrec: Command) -> None:
    job["/api/jobs/job1/stop"] = (200, {"stopped": stopped})
    said = blindrec("stop", "job1", "--address", service.url)
    assert (said.code, said.out) == (0, line)


def test_something_that_listens_and_never_answers(blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """And, once it is gone, nothing."""
    monkeypatch.setattr(head, "CONNECT", 0.2)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert refused(blindrec, "stop", "x", "--address", address).startswith(f"no Ray head answers at {address} (")
    assert refused(blindrec, "submit", *BOUNDS, "--address", address).startswith(f"no Ray head answers at {address} (")


@pytest.mark.parametrize("address", ["ray://head:10001", "http://", "http://head:port", "ftp://head:8265"])
def test_an_address_that_is_none(address: str, blindrec: Command) -> None:
    line = refused(blindrec, "status", "x", "--address", address)
    assert line.startswith(f"address is {address}; give the URL of a head's dashboard, e.g. http://127.0.0.1:8265")


def test_the_address_that_is_given_counts(service: Service, blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would prefer that of the environment."""
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:1")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:2")
    assert service.url in refused(blindrec, "status", "x", "--address", service.url.removeprefix("http://"))
    assert "http://127.0.0.1:1 " in refused(blindrec, "status", "x")


def test_nothing_is_fetched_over_a_folder(service: Service, job: Answers, blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("mine")
    line = refused(blindrec, "fetch", "job1", "--out", tmp_path / "here", "--address", service.url)
    assert line == f"{tmp_path / 'here'} is there already; name a new folder as --out\n"


def test_bad_commands_are_refused_before_a_head_is_asked(service: Service, blindrec: Command) -> None:
    assert "userz" in refused(blindrec, "submit", "run", "--userz", 3, "--address", service.url)
    assert "data is not sent" in refused(blindrec, "submit", "run", "--ratings", "r.csv", "--address", service.url)
    assert "--detach" in refused(blindrec, "submit", *BOUNDS, "--detach", "--json", "-", "--address", service.url)
    assert "cannot be written" in refused(blindrec, "submit", *BOUNDS, "--json", "no/x", "--address", service.url)
    assert service.asked == []
