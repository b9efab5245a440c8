"""A job's log, the only channel of every Ray cluster: followed, it brings a result or a folder in numbered lines.

Other lines in between do no harm; the last one has their number and the digest of all, so that a loss is noticed.
``python -m scenarios.cluster.job_log FOLDER`` puts a folder of the cluster into the log of its job.
"""

import asyncio
import base64
import hashlib
import io
import os
import platform
import re
import sys
import tarfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn

from coordinator.protocol.errors import BlindrecError, InputError
from scenarios.config.files import MOST_RECORD
from scenarios.experiment.progress import ProgressSnapshot, split_snapshot
from scenarios.store.whole_files import left_over

RESULT_PREFIX = "@blindrec-result:"
WIDTH = 9_000  # Bytes of content in a line; a job's log is followed in pieces of some 20,000 characters.
_LINE = re.compile(re.escape(RESULT_PREFIX) + r" (?:(\d+) ([A-Za-z0-9+/=]+)|end (\d+) ([0-9a-f]{64}))$")
PAUSE, LONGER = 0.3, 1.1
"""Seconds without a line after which the head is asked whether the job goes on, and how they grow from look to look.

So an end is seen within a tenth of the time that the job took. Ray itself ends a job's log some 3 s after the job.
"""
TRIES = 3
BAD_INPUT = 2
FAILED, STOPPED, KILLED = 1, 3, 128


class SilentHeadError(BlindrecError):
    """A head that has answered before no longer answers."""


class DamagedError(BlindrecError):
    """A result did not arrive completely."""


class Sender:
    """A file whose content is sent, line by line."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say, self._rest, self._count, self._digest = say, bytearray(), 0, hashlib.sha256()

    def write(self, content: bytes) -> int:
        """Write content."""
        self._rest += content
        while len(self._rest) >= WIDTH:
            self._send(WIDTH)
        return len(content)

    def close(self) -> None:
        """Send the rest, and the line that ends all."""
        if self._rest:
            self._send(len(self._rest))
        self._say(f"{RESULT_PREFIX} end {self._count} {self._digest.hexdigest()}")

    def _send(self, size: int) -> None:
        part = bytes(self._rest[:size])
        del self._rest[:size]
        self._count += 1
        self._digest.update(part)
        self._say(f"{RESULT_PREFIX} {self._count} {base64.b64encode(part).decode()}")


def send_result(content: bytes, say: Callable[[str], object]) -> None:
    """Send a result, compressed."""
    sender = Sender(say)
    sender.write(zlib.compress(content, 9))
    sender.close()


def send_folder(folder: Path, say: Callable[[str], object]) -> None:
    """Send all files of a folder; links and half-written files are left out."""
    sender = Sender(say)
    with tarfile.open(mode="w|gz", fileobj=sender) as stream:  # type: ignore[call-overload] # it writes, which is all that is asked
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and not left_over(path):
                stream.add(path, path.relative_to(folder).as_posix(), recursive=False)
    sender.close()


class ResultReceiver:
    """Assembles the content that lines carry; of several results the last one counts."""

    def __init__(self, stream: IO[bytes] | None = None) -> None:
        self._stream = io.BytesIO() if stream is None else stream
        self._count, self._lost, self._digest, self._end = 0, False, hashlib.sha256(), ""

    def take(self, line: str) -> str:
        """Take the content that a line carries, and return the rest of the line."""
        if not (match := _LINE.search(line)):
            return line
        number, text, count, digest = match.groups()
        if text is None:
            self._end, self._lost = digest, self._lost or int(count) != self._count
        else:
            self._add(int(number), text)
        return line[: match.start()]

    def _add(self, number: int, text: str) -> None:
        if number == 1:  # another result
            self._stream.seek(0)
            self._stream.truncate()
            self._count, self._lost, self._digest = 0, False, hashlib.sha256()
        self._count, self._end, self._lost = self._count + 1, "", self._lost or number != self._count + 1
        try:
            part = base64.b64decode(text, validate=True)
        except ValueError:
            self._lost = True
            return
        self._digest.update(part)
        self._stream.write(part)

    @property
    def any(self) -> bool:
        """Whether any line with content has arrived."""
        return bool(self._count or self._end)

    def check(self) -> str:
        """Return the digest of all that was sent."""
        if self._lost or not self._end:
            raise DamagedError(f"the job's log lacks a part of what was sent; {self._count} lines of it came")
        if self._end != self._digest.hexdigest():
            raise DamagedError("what was sent is damaged in the job's log (its digest is another one)")
        return self._end

    def content(self) -> bytes | None:
        """Return the result, or None where there is none."""
        if not self.any:
            return None
        self.check()
        self._stream.seek(0)
        return zlib.decompressobj().decompress(self._stream.read(), MOST_RECORD)

    def unpack(self, folder: Path) -> tuple[int, int]:
        """Write the files of a folder into another one, and nothing outside of it; return how many, and their bytes."""
        self.check()
        self._stream.seek(0)
        try:
            with tarfile.open(fileobj=self._stream, mode="r:gz") as archive:
                archive.extractall(folder, filter="data")
                members = archive.getmembers()
        except tarfile.TarError as error:
            raise InputError(f"the folder cannot be unpacked ({error})") from None
        return len(members), sum(member.size for member in members)


class JobLog:
    """A job's log as it arrives: it shows new lines, collects the result's lines, and reports snapshots."""

    def __init__(
        self,
        show: Callable[[str], object],
        on_snapshot: Callable[[ProgressSnapshot], object] = lambda _: None,
        received: ResultReceiver | None = None,
    ) -> None:
        self.received = received or ResultReceiver()
        self._show, self._on_snapshot = show, on_snapshot
        self._seen = 0
        self._begun = ""

    def grow(self, text: str) -> None:
        """Take the next piece, cut anywhere."""
        self._seen += len(text)
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            rest, snapshot = split_snapshot(self.received.take(line))
            if snapshot:
                self._on_snapshot(snapshot)
            if rest or not line:
                self._show(f"{rest}\n")

    def catch_up(self, text: str) -> None:
        """Take the whole log, of which some has arrived."""
        self.grow(text[self._seen :])

    def end(self) -> None:
        """Show a last line that has no end."""
        if self._begun:
            self.grow("\n")

    async def follow(self, pieces: Any, over: Callable[[], bool]) -> None:
        """Take pieces that begin at the log's begin, until they end, or none comes and the job is over."""
        skip, pause = self._seen, PAUSE
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


def follow(head: Any, job: str, log: JobLog) -> Any:
    """Show a job's log until the job is over, and return its details; ``head`` is a `Head`, which imports from here."""
    import aiohttp  # noqa: PLC0415 (the cluster's side does not need it)

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


def _over(head: Any, job: str) -> bool:
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


def ending(details: Any, job: str) -> str:
    """Return in one line how a job ended that did not succeed."""
    status, code, message = str(details.status), details.driver_exit_code, str(details.message or "")
    if status == "STOPPED":
        out_folder = (details.metadata or {}).get("out")
        again = f"goes on from what is kept in {out_folder}" if out_folder else "begins anew, for want of an --out"
        return f"job {job} was stopped; submitted again it {again}"
    if code:
        lacks = "No module named" in message or code in (126, 127)
        hint = "; its head needs blindrec's dependencies, and their python first on the path" if lacks else ""
        return f"job {job} failed with exit code {code}{hint}"
    return f"job {job} failed before it began ({(message.splitlines() or ['no reason given'])[0]})"


def main(name: str) -> NoReturn:
    """Send a folder of this node, and end."""
    folder = Path(name)
    if not folder.is_dir():
        sys.stderr.write(f"there is no folder {folder} on node {platform.node()}\n")
        sys.exit(BAD_INPUT)
    send_folder(folder, lambda line: os.write(1, f"{line}\n".encode()))
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
