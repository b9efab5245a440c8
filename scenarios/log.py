"""The structured log of commands: an event a line, as JSON on standard error, in public numbers and words of ours."""

import json
import logging
import math
import os
import sys
import textwrap
import threading
import time
from collections import deque
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
    return any(isinstance(handler, _Verbose) for handler in LOG.handlers)


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
        for handler in [handler for handler in LOG.handlers if isinstance(handler, _Verbose)]:
            LOG.removeHandler(handler)
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


WIDTH = 100  # Columns of what goes to no terminal


def width_of(stream: Any) -> int | None:
    """Return how wide a stream's lines are: `WIDTH`, or None where the terminal or the variable COLUMNS says it."""
    return None if stream.isatty() or "COLUMNS" in os.environ else WIDTH


def console() -> Any:
    """Return what commands write remarks to: standard error, or the log of a verbose command."""
    from rich.console import Console  # noqa: PLC0415 (most commands end before they say anything)

    if not verbose():
        return Console(stderr=True, width=width_of(sys.stderr))
    return Console(file=_Remarks(), width=10**6, color_system=None, force_terminal=False)  # type: ignore[arg-type] # writes


def write_line(console: Any, line: str) -> None:
    """Write a line in plain letters, folded between words: a path or a digest stays whole."""
    from rich.text import Text  # noqa: PLC0415 (as above)

    lines = textwrap.wrap(line, console.width, break_long_words=False, break_on_hyphens=False)
    console.print(Text("\n".join(lines)), overflow="ignore", crop=False)


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(7261.2), duration(75), duration(0.4)
    ('2 h 1 min', '1 min 15 s', '0 s')
    """
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


def left_text(seconds: float | None) -> str:
    """Return the time left as the end of a line; nothing where it is over or not known."""
    return "" if not seconds else f", about {duration(seconds)} left"


LATELY = 30.0  # Seconds over which the rate is measured where parts of the work are alike


class WorkClock:
    """Predicts how long the rest of some work takes, from what this process did since it began.

    What an earlier process did counts as done, and never as done now. Parts that last differently are given in the
    seconds that each is expected to take, over all the time (``window`` infinite).
    """

    def __init__(self, window: float = LATELY) -> None:
        self._window = window
        self._past = deque[tuple[float, float]]()  # When, and how much was done then
        self._restored = 0.0

    def begin(self, now: float, done: float = 0.0) -> None:
        """Count from now on, with so much done before."""
        self._past = deque([(now, done)])

    def count(self, now: float, done: float, restored: float = 0.0) -> None:
        """Take in how much is done by now, and how much of it was read from the folder of an interrupted run."""
        if restored != self._restored:
            self._restored = restored
            self._past.clear()
        self._past.append((now, done))
        while len(self._past) > 2 and now - self._past[1][0] >= self._window:
            self._past.popleft()

    @property
    def rate(self) -> float:
        """What is done in a second; 0 where that is not known yet."""
        (then, before), (now, done) = self._past[0], self._past[-1]
        return max(0.0, done - before) / (now - then) if now > then else 0.0

    def left(self, rest: float) -> float | None:
        """Return how long the rest takes [s]; None where that is not known."""
        if rest <= 0:
            return 0.0
        return rest / self.rate if self.rate > 0 else None


# Seconds of silence after which a command says that it goes on; each time twice as many, up to a minute
QUIET = float(os.environ.get("BLINDREC_QUIET_SECONDS", "5"))
_LONGEST = 60.0


class _Silence:
    """What a command does, and since when it has said nothing of it."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], str]] = []
        self.bars = 0  # That move on the terminal, and say enough
        self.spoke = 0.0

    def watch(self, command: str, finished: threading.Event) -> None:
        """Write a line whenever the command was silent for long."""
        begin = self.spoke = time.monotonic()
        screen, quiet = console(), QUIET
        while not finished.wait(max(0.0, self.spoke + quiet - time.monotonic())):
            now = time.monotonic()
            if now - self.spoke < quiet:
                continue
            self.spoke, quiet = now, min(2 * quiet, max(QUIET, _LONGEST))
            if not self.bars:
                current = [describe() for describe in self.steps[-1:]]
                parts = [f"blindrec {command}", *filter(None, current), f"{duration(now - begin)} so far"]
                with suppress(OSError, ValueError):  # a closed standard error ends no command
                    write_line(screen, ", ".join(parts))


_silence = _Silence()


def spoke(now: float) -> None:
    """Count a command's silence from now on [s of the monotonic clock]: it has just said how far it is."""
    _silence.spoke = now


@contextmanager
def step(label: str, share: Callable[[], float] | None = None) -> Iterator[None]:
    """Let the lines of a silent command name what it does meanwhile and, by the share that is over, the time left."""
    clock = WorkClock(math.inf)
    clock.begin(time.monotonic())

    def line() -> str:
        share_done = 0.0 if share is None else share()
        if not 0 < share_done < 1:
            return label
        clock.count(time.monotonic(), share_done)
        return f"{label}, {share_done:.0%} done{left_text(clock.left(1 - share_done))}"

    _silence.steps.append(line)
    try:
        yield
    finally:
        _silence.steps.remove(line)


@contextmanager
def counted_step(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Name a step of so many parts as `step` does; what it yields is called after each part."""
    count_done = 0

    def count() -> None:
        nonlocal count_done
        count_done += 1

    with step(label, lambda: count_done / total):
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
    finished = threading.Event()
    watch = threading.Thread(target=_silence.watch, args=(command, finished), daemon=True, name="silence")
    if not math.isinf(QUIET):
        watch.start()
    try:
        yield
    finally:
        finished.set()
