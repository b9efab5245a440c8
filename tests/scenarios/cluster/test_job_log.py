"""What a job's log brings: whole, among lines of others, or not at all; how it is followed, and the ends of jobs."""

import asyncio
import io
import random
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.job_submission import JobStatus

from coordinator.protocol.errors import InputError
from scenarios.cluster import job_log
from scenarios.cluster.head import Head
from scenarios.cluster.job_log import JobLog, ResultReceiver, Sender, send_result

LARGE = random.Random(0).randbytes(1_000_000)  # A megabyte that cannot be compressed


def lines_of(content: bytes) -> list[str]:
    """What a job writes into its log for a result."""
    lines: list[str] = []
    send_result(content, lines.append)
    return lines


def taken(lines: list[str]) -> ResultReceiver:
    """What has seen these lines."""
    received = ResultReceiver()
    for line in lines:
        received.take(line)
    return received


@pytest.mark.parametrize("content", [b"", b"{}", "é\n".encode() * 9, LARGE], ids=["empty", "small", "text", "large"])
def test_a_result_arrives_as_it_was(content: bytes) -> None:
    lines = lines_of(content)
    assert all(len(line) < 12_200 for line in lines)
    assert taken(lines).content() == content


def test_lines_of_others_are_shown_and_do_no_harm() -> None:
    first, *rest = lines_of(LARGE)
    received = ResultReceiver()
    assert received.take("a line") == "a line"
    assert received.take(f"half a line {first}") == "half a line "
    assert [received.take(line) for line in ("", "another", *rest)] == ["", "another"] + [""] * len(rest)
    assert received.content() == LARGE


def test_the_last_of_two_results_counts() -> None:
    assert taken([*lines_of(LARGE), *lines_of(b"second")]).content() == b"second"
    assert taken([*lines_of(LARGE)[:5], *lines_of(b"second")]).content() == b"second"


def test_a_log_without_a_result() -> None:
    assert taken(["nothing", f"{job_log.RESULT_PREFIX} is what marks results"]).content() is None


def test_lost_and_swapped_lines_are_noticed() -> None:
    first, second, *rest = lines_of(LARGE)
    lost = [
        [second, *rest],
        [first, second, *rest[1:]],
        [first, second, *rest[:-2], rest[-1]],
        [first, second, *rest[:-1]],
    ]
    for lines in (*lost, [second, first, *rest]):
        with pytest.raises(job_log.DamagedError, match="lacks a part"):
            taken(lines).content()


def test_a_changed_line_is_noticed() -> None:
    line, end = lines_of(b"some result")
    changed = line[:-8] + ("A" if line[-8] != "A" else "B") + line[-7:]
    with pytest.raises(job_log.DamagedError, match="damaged"):
        taken([changed, end]).content()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder: a result, a large file, one in a folder; a link, and a file that was half written."""
    out = tmp_path / "out"
    (out / "rounds" / "seed-0").mkdir(parents=True)
    (out / "result.json").write_text("{}")
    (out / "rounds" / "seed-0" / "000000.npz").write_bytes(random.Random(1).randbytes(200_000))
    (out / ".x.blindrec-part").write_text("half")
    (out / "link").symlink_to("/etc/hostname")
    return out


def test_a_folder_arrives_as_it_was(folder: Path, tmp_path: Path) -> None:
    lines = ["begun"]
    job_log.send_folder(folder, lines.append)
    with (tmp_path / "held").open("w+b") as held:
        received = ResultReceiver(held)
        for line in (*lines, "over"):
            received.take(line)
        assert received.unpack(tmp_path / "here") == (2, 200_002)
    for name in ("result.json", "rounds/seed-0/000000.npz"):
        assert (tmp_path / "here" / name).read_bytes() == (folder / name).read_bytes()
    assert len([path for path in (tmp_path / "here").rglob("*") if path.is_file()]) == 2
    with pytest.raises(job_log.DamagedError, match="lacks a part"):
        taken(lines[:-1]).unpack(tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    lines: list[str] = []
    sender = Sender(lines.append)
    with tarfile.open(fileobj=sender, mode="w|gz") as held:  # type: ignore[call-overload] # as in send_folder
        held.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    sender.close()
    with pytest.raises(InputError, match="cannot be unpacked"):
        taken(lines).unpack(tmp_path / "here")
    assert not (tmp_path / "outside").exists()


RESULT = bytes(range(256)) * 3000
LINES = ["begun", "", "seed 0: 5 of 9 devices answered", *lines_of(RESULT), "last, without an end"]
LOG = "\n".join(LINES)
SHOWN = "begun\n\nseed 0: 5 of 9 devices answered\nlast, without an end\n"


class Job:
    """A job whose log comes in pieces, cut off here and there; it is over when all has been sent."""

    def __init__(self, sessions: Sequence[Sequence[str] | Exception]) -> None:
        self.sessions = list(sessions)
        self.client = self

    def details(self, _: str) -> Any:
        return SimpleNamespace(status=JobStatus.RUNNING if self.sessions else JobStatus.SUCCEEDED)

    def log(self, _: str) -> str:
        return LOG

    async def tail_job_logs(self, _: str) -> AsyncIterator[str]:
        session = self.sessions.pop(0)
        if isinstance(session, Exception):
            raise session
        for piece in session:
            yield piece


def followed(*sessions: Sequence[str] | Exception) -> tuple[str, JobLog]:
    """What is shown of a job, and its log."""
    shown: list[str] = []
    log = JobLog(shown.append)
    job_log.follow(cast("Head", Job(sessions)), "job1", log)
    return "".join(shown), log


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "PAUSE", 0.0)


@pytest.mark.parametrize("size", [1, 7, 1000, len(LOG)])
def test_every_line_is_shown_once_and_the_result_is_kept(size: int) -> None:
    shown, log = followed([LOG[place : place + size] for place in range(0, len(LOG), size)])
    assert shown == SHOWN
    assert log.received.content() == RESULT


def test_a_line_that_breaks_is_taken_up_where_it_broke() -> None:
    """Ray sends a log from its begin whenever it is asked anew."""
    shown, log = followed([LOG[:3]], ConnectionError("gone"), [LOG[:2], LOG[2:40]], [LOG[:40], LOG[40:50]], [])
    assert shown == SHOWN
    assert log.received.content() == RESULT


def test_a_log_that_never_came_is_fetched_whole() -> None:
    assert followed()[0] == SHOWN


def test_an_end_is_seen_although_the_log_goes_on() -> None:
    """Ray ends a job's log seconds after the job; nobody waits for that."""

    class Lasting(Job):
        async def tail_job_logs(self, _: str) -> AsyncIterator[str]:
            self.sessions.clear()
            yield LOG[:40]
            await asyncio.Event().wait()

    shown: list[str] = []
    job_log.follow(cast("Head", Lasting([[]])), "job1", JobLog(shown.append))
    assert "".join(shown) == SHOWN


def test_a_log_that_cannot_be_had_is_given_up() -> None:
    with pytest.raises(job_log.SilentHeadError, match=r"the log of job job1 is cut off \(gone\)"):
        followed(*[ConnectionError("gone")] * job_log.TRIES, [LOG])


@pytest.mark.parametrize(
    ("status", "code", "message", "wanted", "line"),
    [
        ("STOPPED", None, None, 3, "job j was stopped; submitted again it begins anew, for want of an --out"),
        ("FAILED", 7, "what the log said", 7, "job j failed with exit code 7"),
        ("FAILED", 1, "..\nNo module named 'x'", 1, "job j failed with exit code 1; its head needs blindrec's dep"),
        ("FAILED", 127, "python: not found", 127, "job j failed with exit code 127; its head needs blindrec's dep"),
        ("FAILED", -9, "", 137, "job j failed with exit code -9"),
        ("FAILED", None, "runtime_env failed\ntrace", 1, "job j failed before it began (runtime_env failed)"),
    ],
)
def test_ends_in_one_line(status: str, code: int | None, message: str | None, wanted: int, line: str) -> None:
    ended = SimpleNamespace(status=JobStatus(status), driver_exit_code=code, message=message, metadata=None)
    said = job_log.ending(ended, "j")
    assert job_log.exit_code(ended) == wanted
    assert said.startswith(line)
    assert "\n" not in said


def test_what_a_stopped_job_kept_is_told() -> None:
    ended = SimpleNamespace(status=JobStatus.STOPPED, driver_exit_code=None, message="", metadata={"out": "/data/a"})
    assert job_log.ending(ended, "j") == "job j was stopped; submitted again it goes on from what is kept in /data/a"
    assert job_log.exit_code(SimpleNamespace(status=JobStatus.SUCCEEDED, driver_exit_code=0)) == 0
