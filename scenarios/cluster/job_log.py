"""A job's log, the only channel of every Ray cluster: followed, it shows lines and progress, and brings a result."""

import base64
import hashlib
import io
import tarfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import BlindrecError, InputError
from scenarios.config.signals import RESUMABLE
from scenarios.experiment.progress import ProgressSnapshot, split_snapshot
from scenarios.store.whole_files import left_over

RESULT_PREFIX = "@blindrec-result:"
SEND = "send-folder"  # In the place of a job's command: the folder named next is put into its log
MOST_SENT = 1 << 28  # Bytes of a folder: a log is in memory whole, here and at its head
PAUSE, LONGER, LONGEST = 0.5, 1.1, 5.0  # Seconds between two looks at a log, how they grow, and what they grow to
TRIES = 3  # Looks that may fail one after another
FAILED, KILLED = 1, 128


class SilentHeadError(BlindrecError):
    """A head that has answered before no longer answers."""


class DamagedError(BlindrecError):
    """A result did not arrive as it was sent."""


def result_line(content: bytes) -> str:
    """Return the line of a log that brings some content, compressed, with its digest."""
    packed = zlib.compress(content)
    return f"{RESULT_PREFIX} {hashlib.sha256(packed).hexdigest()} {base64.b64encode(packed).decode()}"


def result_in(log: str) -> bytes | None:
    """Return the last content that a log brings, None where there is none; its digest is verified."""
    *_, last = log.rpartition(f"{RESULT_PREFIX} ")
    digest, space, text = last.partition("\n")[0].partition(" ")
    if len(digest) != 64 or not space:
        return None
    try:
        packed = base64.b64decode(text, validate=True)
    except ValueError:
        packed = b""
    if hashlib.sha256(packed).hexdigest() != digest:
        raise DamagedError("what was sent is damaged in the job's log: its digest is another one")
    return zlib.decompress(packed)


def packed_folder(folder: Path) -> bytes:
    """Return all files of a folder as a tar archive; links and half-written files are left out."""
    paths = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink() and not left_over(path)
    ]
    if (size := sum(path.stat().st_size for path in paths)) > MOST_SENT:
        raise InputError(
            f"{folder} has {size:,} bytes, more than the {MOST_SENT:,} that a job's log brings; copy it by rsync"
        )
    archive = io.BytesIO()
    with tarfile.open(mode="w", fileobj=archive) as stream:
        for path in paths:
            stream.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return archive.getvalue()


def unpack(archive: bytes, folder: Path) -> tuple[int, int]:
    """Write the files of an archive into a folder, and nothing outside of it; return how many, and their bytes."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as stream:
            stream.extractall(folder, filter="data")
            members = stream.getmembers()
    except tarfile.TarError as error:
        raise InputError(f"the folder cannot be unpacked ({error})") from None
    return len(members), sum(member.size for member in members)


def show_lines(
    text: str, show: Callable[[str], object], on_snapshot: Callable[[ProgressSnapshot], object] = lambda _: None
) -> None:
    """Show the lines of a log, without those that bring a result, and report the snapshots of progress in it."""
    for line in text.splitlines():
        shown, result, _ = line.partition(f"{RESULT_PREFIX} ")
        shown, snapshot = split_snapshot(shown)
        if snapshot:
            on_snapshot(snapshot)
        if shown or not (snapshot or result):
            show(f"{shown}\n")


def follow(head: Any, job: str, take: Callable[[str], object]) -> tuple[Any, str]:
    """Let ``take`` have the whole lines of a job's log as it grows; return the job's details and log when it is over.

    ``head`` is a `scenarios.cluster.head.Head`, which imports from here.
    """
    length, pause, failures = 0, PAUSE, 0
    while True:
        try:
            details = head.details(job)  # before the log, which is whole where the job is over
            log = head.log(job)
        except SilentHeadError:
            failures += 1
            if failures == TRIES:
                raise
        else:
            failures, finished = 0, details.status.is_terminal()
            end = len(log) if finished else log.rfind("\n") + 1
            take(log[length:end])
            length = max(length, end)
            if finished:
                return details, log
        time.sleep(pause)
        pause = min(LONGER * pause, LONGEST)


def exit_code(details: Any) -> int:
    """Return the exit code for a job's end: the job's own, 3 if it was stopped, 1 if it never began."""
    status, code = str(details.status), details.driver_exit_code
    if status in ("STOPPED", "SUCCEEDED"):
        return RESUMABLE if status == "STOPPED" else 0
    if not code:
        return FAILED
    return KILLED - code if code < 0 else int(code)


def ending(details: Any, job: str) -> str:
    """Return in one line how a job ended that did not succeed."""
    code, message = details.driver_exit_code, str(details.message or "")
    if str(details.status) == "STOPPED":
        out_folder = (details.metadata or {}).get("out")
        again = f"goes on from what is kept in {out_folder}" if out_folder else "begins anew, for want of an --out"
        return f"job {job} was stopped; submitted again it {again}"
    if code:
        lacks = "No module named" in message or code in (126, 127)
        hint = "; its head needs blindrec's dependencies, and their python first on the path" if lacks else ""
        return f"job {job} failed with exit code {code}{hint}"
    return f"job {job} failed before it began ({(message.splitlines() or ['no reason given'])[0]})"
