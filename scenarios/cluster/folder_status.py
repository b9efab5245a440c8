"""The status of a run's folder, read from outside without locking anything, and shown on a terminal."""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coordinator.protocol.errors import InputError
from scenarios.config.files import MOST_PROGRESS, printable, read_object
from scenarios.experiment.progress import ProgressSnapshot, read_snapshot
from scenarios.log import strict
from scenarios.show import tables as report
from scenarios.show.tables import text_of
from scenarios.store.manifest import FOLDER, PROGRESS, read_manifest
from scenarios.store.record_log import count_records

SILENT = 60.0  # Seconds of silence after which a process of another machine counts as dead
RUNNING, STARTING, INTERRUPTED, OVER = "running", "starting", "interrupted", "over"
_SHOWN = ("users", "clients", "rounds", "answered", "refused", "undecided", "epsilon", "seconds", "devices_per_second")
"""The numbers of a result that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderStatus:
    """The status of a run's folder."""

    state: str  # `RUNNING`, `STARTING` (there is no snapshot yet), `INTERRUPTED` or `OVER`
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
    mark, result, locked = read_manifest(out), _result(out), _locked(out)
    if result is not None and not locked:
        return FolderStatus(state=OVER, result=result)
    if mark is None and locked:
        return FolderStatus(state=STARTING, result={})
    if mark is None:
        raise InputError(
            f"{out} holds no run; name the --out of one that has begun, or the id that blindrec submit printed"
        )
    snapshot, records = _snapshot(out), count_records(out)
    if not (locked or _alive(snapshot)):
        resume_hint = mark.resume_hint(records, out) if records else ""
        return FolderStatus(state=INTERRUPTED, snapshot=snapshot, resume_hint=resume_hint, result={})
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


def _result(out: Path) -> dict[str, Any] | None:
    if (values := read_object(out / "result.json", "put it back as it was")) is None:
        return None
    return {name: values[name] for name in _SHOWN if isinstance(values.get(name), (int, float, str))}


Show = Callable[[Mapping[str, str], str], None]  # Takes all rows, and the same as one line


def table(rows: Mapping[str, str]) -> Table:
    """Return rows as a table without lines."""
    sheet = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        sheet.add_row(Text(name), Text(value))
    return sheet


@contextmanager
def moving() -> Iterator[Show]:
    """Show rows in place on a terminal; elsewhere print lines at intervals of `EVERY`, and the last."""
    console = Console()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2) as live:
            yield lambda rows, _: live.update(table(rows))
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


def as_json(values: Mapping[str, Any]) -> None:
    """Write one line of JSON."""
    _write(strict(dict(values)))
