"""A job's log as it grows: every line is shown once, whatever cuts it; and the exit codes of its ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.job_submission import JobStatus

from scenarios.submission import following
from scenarios.submission.following import JobLog, exit_code, follow, told
from scenarios.submission.head import Head, SilentHeadError
from scenarios.submission.parcel import packed

RESULT = bytes(range(256)) * 3000
LINES = ["begun", "", "seed 0: 5 of 9 devices answered", *packed(RESULT), "last, without an end"]
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
    follow(cast("Head", Job(sessions)), "job1", log)
    return "".join(shown), log


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAUSE", 0.0)


@pytest.mark.parametrize("size", [1, 7, 1000, len(LOG)])
def test_every_line_is_shown_once_and_the_result_is_kept(size: int) -> None:
    shown, log = followed([LOG[place : place + size] for place in range(0, len(LOG), size)])
    assert shown == SHOWN
    assert log.parcel.content() == RESULT


def test_a_line_that_breaks_is_taken_up_where_it_broke() -> None:
    """Ray sends a log from its begin whenever it is asked anew."""
    shown, log = followed([LOG[:3]], ConnectionError("gone"), [LOG[:2], LOG[2:40]], [LOG[:40], LOG[40:50]], [])
    assert shown == SHOWN
    assert log.parcel.content() == RESULT


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
    follow(cast("Head", Lasting([[]])), "job1", JobLog(shown.append))
    assert "".join(shown) == SHOWN


def test_a_log_that_cannot_be_had_is_given_up() -> None:
    with pytest.raises(SilentHeadError, match=r"the log of job job1 is cut off \(gone\)"):
        followed(*[ConnectionError("gone")] * following.TRIES, [LOG])


@pytest.mark.parametrize(
    ("status", "code", "wanted"),
    [
        ("SUCCEEDED", 0, 0),
        ("FAILED", 7, 7),
        ("FAILED", 2, 2),
        ("FAILED", -9, 137),
        ("FAILED", None, 1),
        ("STOPPED", None, 3),
    ],
)
def test_exit_codes(status: str, code: int | None, wanted: int) -> None:
    assert exit_code(SimpleNamespace(status=JobStatus(status), driver_exit_code=code, message="")) == wanted


@pytest.mark.parametrize(
    ("status", "code", "message", "line"),
    [
        ("STOPPED", None, None, "job j was stopped; submitted again it begins anew, for want of an --out"),
        ("FAILED", 7, "what the log said", "job j failed with exit code 7"),
        ("FAILED", 1, "...\nNo module named 'numba'", "job j failed with exit code 1; its head needs blindrec's dep"),
        ("FAILED", 127, "python: not found", "job j failed with exit code 127; its head needs blindrec's dependencies"),
        ("FAILED", None, "runtime_env failed\nlong trace", "job j failed before it began (runtime_env failed)"),
    ],
)
def test_ends_in_one_line(status: str, code: int | None, message: str | None, line: str) -> None:
    ended = {"status": JobStatus(status), "driver_exit_code": code, "message": message}
    said = told(SimpleNamespace(**ended, metadata=None), "j")
    assert said.startswith(line)
    assert "\n" not in said


def test_what_a_stopped_job_kept_is_told() -> None:
    ended = SimpleNamespace(
        status=JobStatus.STOPPED, driver_exit_code=None, message="", metadata={"out": "/data/first"}
    )
    assert told(ended, "j") == "job j was stopped; submitted again it goes on from what is kept in /data/first"
