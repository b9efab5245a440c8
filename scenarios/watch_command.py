"""The command line of watching: `blindrec watch`, for a folder of this machine or a job of a cluster."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from scenarios.given.signals import say
from scenarios.submission.job_commands import AT, INTERRUPTED, LOST, Address, head_at

if TYPE_CHECKING:
    from scenarios.watch.progress import ProgressSnapshot

EVERY = 1.0
"""Seconds between two looks at a folder."""
RESUMABLE = 3
What = Annotated[str, typer.Argument(metavar="DIR|JOB", help="The --out of a run or sweep, or what submit printed.")]
Lines = Annotated[bool, typer.Option("--json", help="Write every snapshot as a line of JSON, for programs.")]


def watch(what: What, address: Address = AT, json: Lines = False) -> None:
    """Watch a run or sweep, here or on a cluster, until it is over: rounds, answers, rate, and time left if known.

    A folder is only read: watching disturbs nobody, and works while the run goes on, when it was killed, and when it
    is over. A job is watched through its log. Ctrl-C ends the watching and nothing else. The exit code is 0 when the
    run is over, 3 when it was interrupted and can be gone on with, and a job's own.
    """
    from scenarios.watch.folder_status import is_folder

    (_folder(Path(what), json=json) if is_folder(what) else _job(what, address, json=json))


def _folder(out: Path, *, json: bool) -> NoReturn:
    from scenarios.watch import folder_status
    from scenarios.watch.folder_status import as_json, moving

    last: ProgressSnapshot | None = None
    with moving() as show:
        while (status := folder_status.read_status(out)).state in (folder_status.RUNNING, folder_status.STARTING):
            if json and status.snapshot and status.snapshot != last:
                as_json(asdict(status.snapshot))
            elif not json:
                show(status.rows(), status.snapshot.line() if status.snapshot else "starting: there is no progress yet")
            last = status.snapshot
            time.sleep(EVERY)
        if not json:
            show(status.rows(), f"{status.state}: {status.resume_hint or out / 'result.json'}")
    if status.state == folder_status.INTERRUPTED:
        anew = "nothing is kept to go on from, the same command begins anew"
        say(f"the run was killed or interrupted; {status.resume_hint or anew}")
        sys.exit(RESUMABLE if status.resume_hint else 2)
    say(f"the run is over; its result is in {out}")
    sys.exit(0)


def _job(job: str, address: str, *, json: bool) -> NoReturn:
    from scenarios.submission import job_log
    from scenarios.submission.head import SilentHeadError, ending, exit_code
    from scenarios.watch.folder_status import as_json, moving

    head = head_at(address)
    head.details(job)
    try:
        with moving() as show:

            def show_snapshot(snapshot: ProgressSnapshot) -> None:
                if json:
                    as_json(asdict(snapshot))
                else:
                    show({"job": job, **snapshot.rows()}, snapshot.line())

            log = job_log.JobLog(lambda _: None, show_snapshot)
            details = job_log.follow(head, job, log)
    except SilentHeadError as error:
        say(f"{error}; job {job} may go on, the same command watches it again")
        sys.exit(LOST)
    except KeyboardInterrupt:
        say(f"interrupted here, job {job} goes on")
        sys.exit(INTERRUPTED)
    code = exit_code(details)
    say(ending(details, job) if code else f"job {job} is over; blindrec status {job} --json - tells its result")
    sys.exit(code)
