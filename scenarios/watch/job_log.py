"""Standings in a job's log, the only channel that every Ray cluster has: marked lines between those of others."""

from __future__ import annotations

import json
import logging
import os
import re
import time

from coordinator.protocol.errors import InputError
from scenarios.log import strict
from scenarios.watch.progress import Standing, read_standing

MARK = "@blindrec-standing:"
EVERY = 5.0
"""Seconds between two lines; a log is sent whole whenever somebody looks."""
_LINE = re.compile(re.escape(MARK) + r" (\{.*\})$")
_TOLD = ("round", "progress")
_LAST = "over"


class InJobLog(logging.Handler):
    """Writes standings into a job's log, each line in one piece."""

    def __init__(self) -> None:
        super().__init__()
        self._said = -EVERY

    def emit(self, record: logging.LogRecord) -> None:
        """Write a standing, where the last line is old enough or a seed is over."""
        what, now = record.getMessage(), time.monotonic()
        if what == _LAST or (what in _TOLD and now - self._said >= EVERY):
            self._said = now
            told = {**getattr(record, "told", {}), "at": record.created}
            os.write(1, f"{MARK} {strict(told)}\n".encode())


def taken(line: str) -> tuple[str, Standing | None]:
    """Return what else a line of a log holds, and the standing in it, if there is one."""
    if not (found := _LINE.search(line)):
        return line, None
    try:
        return line[: found.start()], read_standing(json.loads(found.group(1)))
    except (ValueError, RecursionError, InputError):
        return line, None
