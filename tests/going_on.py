"""Commands that end early, and what becomes of their folders: shared by the tests of all kinds of runs."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Set
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from lasting import PROVENANCE, lasting
from runs import Command, Ended, holds_within

from benchmarks.victims import alive, below
from scenarios.store import record_log, whole_files
from scenarios.store.record_log import RecordLog, count_records

TIMED = {"seconds", "seconds_per_iteration", "peak_memory_mb", "devices_per_second"}
LAYOUT = TIMED | {"backend", "backend_reason", "workers", "actors", "devices_per_actor", "bytes_per_answer"}
WAITING = """
import signal, sys
from scenarios.store.record_log import RecordLog
from scenarios.cli import main
keep = RecordLog.keep
def waiting(self, record):
    keep(self, record)
    if self.codec.number(record) == int(sys.argv[1]):
        signal.pause()
RecordLog.keep = waiting
main(sys.argv[2:])
"""
"""A command that waits once it has kept the record of the number that stands before it."""


def stopped(blindrec: Command, after: int, *arguments: object) -> Ended:
    """A command that Ctrl-C ends once it has kept so many records."""
    keep, left = RecordLog.keep, [after]

    def keeping(self: RecordLog[Any], record: Any) -> None:
        keep(self, record)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordLog, "keep", keeping)
        ended = blindrec(*arguments)
    assert (ended.code, ended.out) == (3, ""), ended.err
    return ended


def on_a_full_disk(blindrec: Command, holds: int, *arguments: object) -> Ended:
    """A command on a disk that holds so many records."""

    def write(target: Path, content: bytes) -> None:
        if target.name == f"{holds:06d}.npz":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole_files.write_bytes(target, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_log, "write_bytes", write)
        return blindrec(*arguments)


def killed_on_ray(out: Path, kept: int, *arguments: object) -> None:
    """SIGKILL a command on Ray once it has kept so many records, and then all that it had started, if need be."""
    words = map(str, (*arguments, "--backend", "ray", "--out", out))
    command = [sys.executable, "-c", WAITING, str(kept - 1), *words]
    started: dict[psutil.Process, str] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert holds_within(120, lambda: count_records(out) == kept)
            started = below(psutil.Process(process.pid))
        finally:
            process.kill()
    assert any(name.startswith("ray::") for name in started.values())
    if not holds_within(5, lambda: not alive(started)):
        for one in alive(started):
            one.kill()


def left(folder: Path, without: Set[str]) -> dict[str, Any]:
    """All files of a finished folder, as far as they last."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            found[path.name] = pd.read_parquet(path).drop(columns="seconds", errors="ignore").to_json()
        else:
            found[path.name] = lasting(json.loads(path.read_text()), without | PROVENANCE)
    return found
