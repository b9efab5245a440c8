"""The structured log of commands: an event a line, as JSON on standard error, in public numbers and words of ours."""

import json
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

LOG = logging.getLogger("blindrec")


class JsonLines(logging.Formatter):
    """Formats an event as one line of JSON: when it was, how grave it is, what it is, and its values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z"
        fields = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        return strict({**fields, **getattr(record, "told", {})})


def strict(fields: dict[str, Any]) -> str:
    """Return one line of strict JSON, in which what is infinite is a word."""
    return json.dumps({name: str(value) if value in (math.inf, -math.inf) else value for name, value in fields.items()})


def event(name: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its values, if anybody listens."""
    LOG.log(level, name, extra={"told": fields})


@contextmanager
def listening(handler: logging.Handler) -> Iterator[None]:
    """Let a handler have all events meanwhile."""
    before = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)


class _Verbose(logging.StreamHandler[Any]):
    """Writes events to standard error, as it is now."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(JsonLines())


def verbose() -> bool:
    """Return whether standard error is for events only."""
    return any(isinstance(one, _Verbose) for one in LOG.handlers)


def be_verbose() -> None:
    """Write events to standard error until the command ends; see `recorded`."""
    if not verbose():
        LOG.addHandler(_Verbose())
        LOG.setLevel(logging.INFO)


@contextmanager
def recorded() -> Iterator[None]:
    """Log how a command ends, if it was verbose, and be verbose no longer."""
    level, start = LOG.level, time.monotonic()
    code: object = 0
    try:
        yield
    except SystemExit as ended:
        code = ended.code or 0
        raise
    except BaseException:
        code = 1
        raise
    finally:
        event("ended", exit_code=code, seconds=round(time.monotonic() - start, 3))
        for one in [one for one in LOG.handlers if isinstance(one, _Verbose)]:
            LOG.removeHandler(one)
            LOG.setLevel(level)


class _Remarks:
    """A file whose lines become events."""

    def write(self, text: str) -> int:
        """Log every line that is not empty."""
        for line in filter(None, map(str.strip, text.splitlines())):
            event("remark", told=line)
        return len(text)

    def flush(self) -> None:
        """Do nothing: lines are logged as they come."""


def console() -> Any:
    """Return what commands write remarks to: standard error, or the log of a verbose command."""
    from rich.console import Console  # noqa: PLC0415 (most commands end before they say anything)

    if not verbose():
        return Console(stderr=True)
    return Console(file=_Remarks(), width=10**6, color_system=None, force_terminal=False)  # type: ignore[arg-type] # writes


# Seconds of silence after which a command says that it goes on; each time twice as many, up to a minute
QUIET = float(os.environ.get("BLINDREC_QUIET_SECONDS", "5"))
_LONGEST = 60.0


class _Silence:
    """What a command does, and since when it has said nothing of it."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], str]] = []
        self.bars = 0  # That move on the terminal, and say enough
        self.spoke = 0.0

    def watch(self, command: str, over: threading.Event) -> None:
        """Write a line whenever the command was silent for long."""
        begin = self.spoke = time.monotonic()
        screen, quiet = console(), QUIET
        while not over.wait(max(0.0, self.spoke + quiet - time.monotonic())):
            now = time.monotonic()
            if now - self.spoke < quiet:
                continue
            self.spoke, quiet = now, min(2 * quiet, max(QUIET, _LONGEST))
            if not self.bars:
                current = [words() for words in self.steps[-1:]]
                parts = [f"blindrec {command}", *filter(None, current), f"{now - begin:.0f} s so far"]
                with suppress(OSError, ValueError):  # a closed standard error ends no command
                    screen.print(", ".join(parts), highlight=False, markup=False, soft_wrap=True)


_silence = _Silence()


def spoke(now: float) -> None:
    """Count a command's silence from now on [s of the monotonic clock]: it has just said how far it is."""
    _silence.spoke = now


@contextmanager
def step(words: str, share: Callable[[], float] | None = None) -> Iterator[None]:
    """Let the lines of a silent command name what it does meanwhile and, by the share that is over, the time left."""
    begin = time.monotonic()

    def line() -> str:
        over = 0.0 if share is None else share()
        if not 0 < over < 1:
            return words
        return f"{words}, {over:.0%} done, about {(time.monotonic() - begin) * (1 - over) / over:,.0f} s left"

    _silence.steps.append(line)
    try:
        yield
    finally:
        _silence.steps.remove(line)


@contextmanager
def counted_step(words: str, total: int) -> Iterator[Callable[[], None]]:
    """Name a step of so many parts as `step` does; what it yields is called after each part."""
    over = 0

    def count() -> None:
        nonlocal over
        over += 1

    with step(words, lambda: over / total):
        yield count


@contextmanager
def moving_bar() -> Iterator[None]:
    """Let a command be silent while a bar moves on the terminal."""
    _silence.bars += 1
    try:
        yield
    finally:
        _silence.bars -= 1
        spoke(time.monotonic())


@contextmanager
def never_silent(command: str) -> Iterator[None]:
    """Say now and then on standard error that a command goes on, where nothing else says so; piped, too."""
    over = threading.Event()
    watch = threading.Thread(target=_silence.watch, args=(command, over), daemon=True, name="silence")
    if not math.isinf(QUIET):
        watch.start()
    try:
        yield
    finally:
        over.set()
