"""The commands of jobs on a cluster, `submit`, `status`, `fetch` and `stop`, and `watch`, for jobs and folders."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import psutil
import typer
from rich.live import Live
from rich.text import Text

from coordinator.protocol.errors import InputError
from scenarios.backends.sending import check_folder, entrypoint, environment, left_out, secrets_warning
from scenarios.cluster.job_log import (
    SEND,
    DamagedError,
    SilentHeadError,
    ending,
    exit_code,
    follow,
    result_in,
    show_lines,
    unpack,
)
from scenarios.cluster.job_request import check_request
from scenarios.commands.flags import Json
from scenarios.config.files import MOST_PROGRESS, printable, read_object
from scenarios.config.signals import BAD_INPUT, INTERRUPTED, RESUMABLE, say
from scenarios.experiment.progress import ProgressSnapshot, read_snapshot
from scenarios.log import strict
from scenarios.show import tables as report
from scenarios.show.records import STDOUT, check_target
from scenarios.show.tables import printed, text_of
from scenarios.store.manifest import FOLDER, PROGRESS, read_manifest
from scenarios.store.record_log import count_records
from scenarios.store.whole_files import try_folder, write_bytes

if TYPE_CHECKING:
    from scenarios.cluster.head import Head


SILENT = 60.0  # Seconds after which a silent process on another machine counts as dead
RUNNING, STARTING, KILLED, OVER = "running", "starting", "interrupted", "over"
_SHOWN = ("users", "clients", "rounds", "answered", "refused", "undecided", "epsilon", "seconds", "devices_per_second")
"""The numbers of a result that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderStatus:
    """The status of a run's folder."""

    state: str  # `RUNNING`, `STARTING` (there is no snapshot yet), `KILLED` or `OVER`
    snapshot: ProgressSnapshot | None = None  # The run's last snapshot
    resume_hint: str = ""  # Says what is stored and how to resume; empty where nothing is stored
    result: dict[str, Any]  # Numbers of a result, by their names

    def rows(self) -> dict[str, str]:
        """Return the rows to show, by name; characters that would move a terminal's cursor are escaped."""
        rows = {
            "state": self.state,
            **(self.snapshot.rows() if self.snapshot and self.state != OVER else {}),
            **({"kept": self.resume_hint} if self.resume_hint else {}),
            **{name.replace("_", " "): text_of(value) for name, value in self.result.items()},
        }
        return {printable(name): printable(value) for name, value in rows.items()}


def read_status(out: Path) -> FolderStatus:
    """Read the status of the folder of a run or sweep that is running, was killed or is over."""
    mark, locked = read_manifest(out), _locked(out)
    result = read_object(out / "result.json", "put it back as it was")
    if result is not None and not locked:
        shown = {name: result[name] for name in _SHOWN if isinstance(result.get(name), (int, float, str))}
        return FolderStatus(state=OVER, result=shown)
    if mark is None and locked:
        return FolderStatus(state=STARTING, result={})
    if mark is None:
        raise InputError(f"{out} holds no run; name the --out of one that has begun, or the id that submit printed")
    snapshot = _snapshot(out)
    if not (locked or _alive(snapshot)):
        records = count_records(out)  # of a run that lives nobody else may open the file
        resume_hint = mark.resume_hint(records, out) if records else ""
        return FolderStatus(state=KILLED, snapshot=snapshot, resume_hint=resume_hint, result={})
    return FolderStatus(state=RUNNING if _alive(snapshot) else STARTING, snapshot=snapshot, result={})


def is_folder(what: str) -> bool:
    """Return whether a name is that of a folder rather than of a job."""
    path = Path(what)
    if not path.is_dir() and (os.sep in what or path.exists()):
        raise InputError(f"there is no folder {what}; name the --out of a run, or the id that blindrec submit printed")
    return path.is_dir()


def _snapshot(out: Path) -> ProgressSnapshot | None:
    path, remedy = out / FOLDER / PROGRESS, "remove it, the run writes it again"
    if (values := read_object(path, remedy, MOST_PROGRESS)) is None:
        return None
    try:
        return read_snapshot(values)
    except InputError as error:
        raise InputError(f"{path} cannot be read ({error}); {remedy}") from None


def _locked(out: Path) -> bool:
    """Return whether a command holds the folder's lock, by the system's list of locks, without locking anything."""
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:  # a system without this list
        return False
    return any("FLOCK" in lock and f":{out.stat().st_ino} " in lock for lock in locks)


def _alive(snapshot: ProgressSnapshot | None) -> bool:
    """Return whether the process of a snapshot lives: on this machine by its number and start time."""
    if snapshot is None:
        return False
    if snapshot.host != platform.node():
        return time.time() - snapshot.at < SILENT
    try:
        return abs(psutil.Process(snapshot.pid).create_time() - snapshot.born) < 1.0
    except psutil.Error:
        return False


Show = Callable[[Mapping[str, str], str], None]  # Takes all rows, and the same as one line


def sheet(rows: Mapping[str, str]) -> str:
    """Return rows as lines, whose values stand below each other."""
    width = max(map(len, rows), default=0) + 2
    return "".join(f"{name:<{width}}{value}\n" for name, value in rows.items())


@contextmanager
def moving() -> Iterator[Show]:
    """Show rows in place on a terminal; elsewhere print lines at intervals of `EVERY`, and the last."""
    console = printed()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2) as live:
            yield lambda rows, _: live.update(Text(sheet(rows)))
        return
    said, unsaid = -report.EVERY, ""

    def show(_: Mapping[str, str], line: str) -> None:
        nonlocal said, unsaid
        unsaid = line
        if time.monotonic() - said >= report.EVERY:
            said, unsaid = time.monotonic(), ""
            _write(line)

    yield show
    if unsaid:
        _write(unsaid)


def _write(line: str) -> None:
    sys.stdout.write(f"{printable(line)}\n")
    sys.stdout.flush()


SUBMIT_HELP = """Run a command of blindrec on a Ray cluster, as a job: `submit run ...`, `submit sweep ...` and so on.

Sends the working directory, but no data, runs, caches, keys or tokens, and nothing that .gitignore names; shows the
job's log as it grows; ends with the job's exit code, or 3 if the job was stopped. --json fetches the result.
The command's --out is a folder on the cluster, and data (--ratings) must be there: give absolute paths.
Ctrl-C leaves the job running.

\b
  blindrec submit run --users 2000000 --json result.json --address http://127.0.0.1:8265
"""
Address = Annotated[
    str, typer.Option(envvar="RAY_API_SERVER_ADDRESS", help="URL of the head's dashboard.", show_default=True)
]
Job = Annotated[str, typer.Argument(metavar="ID", help="The id that submit printed.")]
AT = "http://127.0.0.1:8265"


def submit(
    context: typer.Context,
    address: Address = AT,
    detach: Annotated[bool, typer.Option("--detach", help="Print the job's id and exit.")] = False,
    json: Json = None,
) -> None:
    """Send a command to a cluster; see `SUBMIT_HELP`."""
    folder = Path.cwd()
    check_folder(folder)
    request = check_request(context.find_root().command, context.args, folder)
    check_target(json)
    if detach and json is not None:
        raise InputError(f"json is {json}, but --detach waits for nothing; blindrec status ID --json {json} fetches it")
    head = head_at(address)
    if line := secrets_warning(left_out(folder)):
        say(line)
    metadata = {"blindrec": " ".join(request.arguments), "out": str(request.out or "")}
    job = head.submit(entrypoint(request.arguments), environment(folder), metadata)
    if detach:
        sys.stdout.write(f"{job}\n")
        return
    say(f"job {job} is submitted to {head.address}")
    _follow(head, job, json)


submit.__doc__ = SUBMIT_HELP


def status(
    job: Annotated[str, typer.Argument(metavar="ID|DIR", help="The id that submit printed, or a run's --out here.")],
    address: Address = AT,
    follow_log: Annotated[bool, typer.Option("--follow", help="Show its log and wait, as submit does.")] = False,
    json: Json = None,
) -> None:
    """Show the state of a job, or of a run on this machine; --json fetches the result of a finished job."""
    if is_folder(job):
        if follow_log or json is not None:
            raise InputError(f"{job} is a folder of this machine; blindrec watch {job} follows it")
        sys.stdout.write(sheet(read_status(Path(job)).rows()))
        return
    check_target(json)
    head = head_at(address)
    if follow_log:
        _follow(head, job, json)
    details = head.details(job)
    if json is not None and not details.status.is_terminal():
        raise InputError(f"job {job} is {details.status}; its result is there when it is over, or use --follow")
    log = head.log(job)
    if json is not None:
        _deliver(result_in(log), job, json)
    if json != STDOUT:
        snapshots: list[ProgressSnapshot] = []
        show_lines(log, lambda _: None, snapshots.append)
        latest = snapshots[-1].rows() if snapshots else {}
        sys.stdout.write(sheet({**latest, **_rows(job, details)}))


def stop(job: Job, address: Address = AT) -> None:
    """Stop a submitted job; the rounds stored under its --out stay."""
    head = head_at(address)
    running = head.stop(job)
    line = "is stopping" if running else f"was not running; it is {head.details(job).status}"
    sys.stdout.write(f"job {job} {line}\n")


def fetch(
    job: Job,
    out: Annotated[Path | None, typer.Option(help="New folder of this machine [the cluster's folder's name].")] = None,
    address: Address = AT,
) -> None:
    """Copy the whole --out of a finished job to this machine, and verify its digest.

    The folder of a stopped job holds its rounds: blindrec resume continues from them here. Nothing is overwritten.
    """
    head = head_at(address)
    details = head.details(job)
    there = (details.metadata or {}).get("out")
    if not there:
        raise InputError(f"job {job} has no --out to fetch; blindrec status {job} --json FILE fetches its result")
    if not details.status.is_terminal():
        raise InputError(f"job {job} is {details.status}; fetch {there} when it is over, blindrec watch {job} waits")
    here = out or Path(Path(there).name)
    if here.exists() and (not here.is_dir() or any(here.iterdir())):
        raise InputError(f"{here} is there already; name a new folder as --out")
    try_folder(here)
    with tempfile.TemporaryDirectory() as nothing:  # a small job on the folder's node sends it by its log
        metadata, sent = {"blindrec": f"fetch {there}"}, environment(Path(nothing))
        sending = head.submit(entrypoint([SEND, there]), sent, metadata, node_of(details))
        sent_details, log = follow(head, sending, lambda _: None)
    archive = result_in(log)
    if archive is None or exit_code(sent_details):
        why = log.strip().splitlines()[-1:] or [f"exit code {exit_code(sent_details)}"]
        raise InputError(f"{there} cannot be sent: {why[0].removeprefix('blindrec: ')}")
    files, size = unpack(archive, here)
    sys.stdout.write(f"{files:,} files, {size:,} bytes, of {there} are in {here}; the digest of all is verified\n")


def head_at(address: str) -> Head:
    """Return the head at an address; see `scenarios.cluster.head.Head`."""
    from scenarios.cluster.head import Head

    return Head(address)


def _follow(head: Head, job: str, json: str | None) -> NoReturn:
    """Show a job's log, fetch its result, and end as it ended."""
    stream = sys.stderr if json == STDOUT else sys.stdout

    def show(text: str) -> None:
        show_lines(text, stream.write)
        stream.flush()

    with _following(f"job {job}", f"`blindrec status {job} --follow --address {head.address}` follows it", job):
        details, log = follow(head, job, show)
    code = exit_code(details)
    if code:
        say(ending(details, job))
    if json is not None:
        try:
            if (content := result_in(log)) is not None or code == 0:
                _deliver(content, job, json)
        except (DamagedError, OSError) as error:
            say(f"{error}; job {job} is over, `blindrec status {job} --json FILE` fetches its result again")
            sys.exit(RESUMABLE)
    if out := (details.metadata or {}).get("out"):
        say(f"{out} is a folder of the cluster's node {node_of(details) or 'of its head'}, not of this machine")
    sys.exit(code)


@contextmanager
def _following(what: str, again: str, job: str = "") -> Iterator[None]:
    """If following ends early, say that the job or run goes on and how to follow it again."""
    try:
        yield
    except KeyboardInterrupt:
        stopping = f", `blindrec stop {job}` ends it" if job else ""
        say(f"interrupted here, {what} goes on; {again}{stopping}")
        sys.exit(INTERRUPTED)
    except SilentHeadError as error:
        say(f"{error}; {what} may go on, {again}")
        sys.exit(RESUMABLE)


def _deliver(content: bytes | None, job: str, json: str) -> None:
    """Write the result to the file or to standard output."""
    if content is None:
        raise InputError(f"job {job} left no result in its log; `ray job logs {job}` says why")
    if json == STDOUT:
        sys.stdout.write(content.decode())
        sys.stdout.flush()
    else:
        write_bytes(Path(json), content)


def _rows(job: str, details: Any) -> dict[str, str]:
    metadata, start, end = details.metadata or {}, details.start_time, details.end_time
    rows: dict[str, Any] = {
        "job": job,
        "status": details.status,
        "command": metadata.get("blindrec", details.entrypoint),
        "seconds": f"{(end - start) / 1000:.1f}" if start and end else None,
        "exit code": details.driver_exit_code,
        "out": f"{metadata['out']} on node {node_of(details) or 'of its head'}" if metadata.get("out") else None,
    }
    return {name: str(value) for name, value in rows.items() if value is not None}


def node_of(details: Any) -> str:
    """Return the address of the node where a job's command ran; empty where the head does not know it."""
    return str(details.driver_agent_http_address or "").removeprefix("http://").rpartition(":")[0]


EVERY = 1.0  # Seconds between two looks at a folder
What = Annotated[str, typer.Argument(metavar="DIR|JOB", help="A run's or sweep's --out, or the id submit printed.")]
Lines = Annotated[bool, typer.Option("--json", help="Print every snapshot as a line of JSON, for programs.")]


def watch(what: What, address: Address = AT, json: Lines = False) -> None:
    """Watch a run or sweep, here or on a cluster, until it is over: rounds, answers, rate, and time left if known.

    Watching only reads the folder, so it never disturbs the run; it also works after the run was killed or has
    finished. A job is watched through its log. Ctrl-C ends only the watching. The exit code is 0 if the run finished,
    3 if it was interrupted and can be resumed, and for a job the job's own.
    """
    again = "the same command watches it again"
    if is_folder(what):
        with _following(f"the run in {what}", again):
            _folder(Path(what), json=json)
    head = head_at(address)
    head.details(what)
    with _following(f"job {what}", again, what), moving() as show:

        def take(text: str) -> None:
            snapshots: list[ProgressSnapshot] = []
            show_lines(text, lambda _: None, snapshots.append)
            for snapshot in snapshots if json else snapshots[-1:]:  # what was so before says nothing on a terminal
                if json:
                    _write(strict(asdict(snapshot)))
                else:
                    show({"job": what, **snapshot.rows()}, snapshot.line())

        details, _ = follow(head, what, take)
    code = exit_code(details)
    say(ending(details, what) if code else f"job {what} is over; blindrec status {what} --json - prints its result")
    sys.exit(code)


def _folder(out: Path, *, json: bool) -> NoReturn:
    last: ProgressSnapshot | None = None
    with moving() as show:
        while (status := read_status(out)).state in (RUNNING, STARTING):
            if json and status.snapshot and status.snapshot != last:
                _write(strict(asdict(status.snapshot)))
            elif not json:
                show(status.rows(), status.snapshot.line() if status.snapshot else "starting: there is no progress yet")
            last = status.snapshot
            time.sleep(EVERY)
        if not json:
            show(status.rows(), f"{status.state}: {status.resume_hint or out / 'result.json'}")
    if status.state == KILLED:
        anew = "nothing is kept to go on from, the same command begins anew"
        say(f"the run was killed or interrupted; {status.resume_hint or anew}")
        sys.exit(RESUMABLE if status.resume_hint else BAD_INPUT)
    say(f"the run is over; its result is in {out}")
    sys.exit(0)
