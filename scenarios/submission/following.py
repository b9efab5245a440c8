"""Following a job: showing its log as it grows, then how it ended and its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiohttp

from scenarios.submission.head import Head, SilentHeadError
from scenarios.submission.parcel import Parcel
from scenarios.watch.job_log import taken
from scenarios.watch.standing import Standing

PAUSE, LONGER = 0.3, 1.1
"""Seconds without a line after which the head is asked whether the job goes on, and how they grow from look to look.

So an end is seen within a tenth of the time that the job took. Ray itself ends a job's log some 3 s after the job.
"""
TRIES = 3
FAILED, STOPPED, KILLED = 1, 3, 128


class JobLog:
    """A job's log as it arrives: new lines are shown, lines that carry the result kept, and standings told.

    Parameters
    ----------
    show : callable
        Shows a text.
    stood : callable
        Takes every standing of the run.
    take : callable, optional
        Takes a line and returns what is left of it, where something else than a result is sent.
    """

    def __init__(
        self,
        show: Callable[[str], object],
        stood: Callable[[Standing], object] = lambda _: None,
        take: Callable[[str], str] | None = None,
    ) -> None:
        self.parcel = Parcel()
        self._show, self._stood, self._take = show, stood, take or self.parcel.take
        self._received = 0
        self._begun = ""

    def grow(self, text: str) -> None:
        """Take the next piece, cut anywhere."""
        self._received += len(text)
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            told, standing = taken(self._take(line))
            if standing:
                self._stood(standing)
            if told or not line:
                self._show(f"{told}\n")

    def catch_up(self, text: str) -> None:
        """Take the whole log, of which some has arrived."""
        self.grow(text[self._received :])

    def end(self) -> None:
        """Show a last line that has no end."""
        if self._begun:
            self.grow("\n")

    async def follow(self, pieces: Any, over: Callable[[], bool]) -> None:
        """Take pieces that begin at the log's begin, until they end, or none comes and the job is over."""
        skip, pause = self._received, PAUSE
        coming = asyncio.ensure_future(anext(pieces, None))
        while True:
            if not (await asyncio.wait([coming], timeout=pause))[0]:
                pause *= LONGER
                if await asyncio.to_thread(over):
                    coming.cancel()
                    return
            elif (piece := coming.result()) is None:
                return
            else:
                new = piece[skip:]
                skip = max(0, skip - len(piece))
                self.grow(new)
                coming = asyncio.ensure_future(anext(pieces, None))


def follow(head: Head, job: str, log: JobLog) -> Any:
    """Show a job's log until the job is over.

    Parameters
    ----------
    head : Head
    job : str
        Submission id.
    log : JobLog

    Returns
    -------
    JobDetails

    Raises
    ------
    SilentHeadError
        If the head no longer answers.
    """
    failures = 0
    while not _over(head, job):
        try:
            asyncio.run(log.follow(head.client.tail_job_logs(job), lambda: _over(head, job)))
            failures = 0
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            failures += 1
            if failures == TRIES:
                raise SilentHeadError(f"the log of job {job} is cut off ({error})") from None
        time.sleep(PAUSE)
    log.catch_up(head.log(job))
    log.end()
    return head.details(job)


def _over(head: Head, job: str) -> bool:
    return bool(head.details(job).status.is_terminal())


def exit_code(details: Any) -> int:
    """Return the exit code for a job's end: the job's own, 3 if it was stopped, 1 if it never began."""
    status = str(details.status)
    if status == "STOPPED":
        return STOPPED
    if status == "SUCCEEDED":
        return 0
    code: int | None = details.driver_exit_code
    if not code:
        return FAILED
    return KILLED - code if code < 0 else code


def told(details: Any, job: str) -> str:
    """Return in one line how a job ended that did not succeed."""
    status, code, message = str(details.status), details.driver_exit_code, str(details.message or "")
    if status == "STOPPED":
        kept = (details.metadata or {}).get("out")
        again = (
            f"goes on from what is kept in {kept}" if kept else "begins anew, for want of an --out to keep rounds in"
        )
        return f"job {job} was stopped; submitted again it {again}"
    if code:
        lacks = "No module named" in message or code in (126, 127)
        hint = "; its head needs blindrec's dependencies, and their python first on the path" if lacks else ""
        return f"job {job} failed with exit code {code}{hint}"
    return f"job {job} failed before it began ({(message.splitlines() or ['no reason given'])[0]})"
