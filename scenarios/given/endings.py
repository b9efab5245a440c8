"""Endings: whatever ends a command early, it says in one line what is kept, and ends with one exit code.

Ctrl-C, SIGTERM and SIGHUP, something that was lost, a full disk: what a command keeps, it tells by `kept`, and `ending`
makes line and code of what ended it.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from coordinator.protocol.errors import BlindrecError, LedgerError, LostError, ReadError, ResumableError
from scenarios.given.values import one_line
from scenarios.log import event, verbose

INTERRUPTED = 130
BAD_INPUT = 2
RESUMABLE = 3
SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command as Ctrl-C does."""
LONGEST = 8.0
"""Seconds that a command may take to end after one of them."""
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
"""What the system says of a disk that takes no more."""
NOTHING = "interrupted; what this run started has ended, nothing half-done was written"
_FREE = "nothing is kept to go on from; free space, then run it again"

Told = Callable[[], str | None]
"""Tells what is kept and how to go on, at any moment and in any thread; None where that is nothing."""
_told: list[Told] = []
"""What is kept now, by the commands and calls that are at work in this process; the innermost comes last."""


class InterruptedRunError(BlindrecError):
    """Ctrl-C or another signal ended a command whose folder keeps what it did."""


@contextmanager
def kept(told: Told) -> Iterator[None]:
    """Let whatever ends the block early say what is kept."""
    _told.append(told)
    try:
        yield
    except KeyboardInterrupt:
        if line := told():
            raise InterruptedRunError(f"interrupted; {line}") from None
        raise
    except (BlindrecError, OSError) as error:
        lost = isinstance(error, (LedgerError, LostError)) or disk_is_full(error)
        if lost and not isinstance(error, ResumableError) and (line := told()):
            raise ResumableError(f"{_words(error)}; {line}") from None
        raise
    finally:
        _told.remove(told)


def disk_is_full(error: BaseException | None) -> bool:
    """Return whether a disk that takes no more is why an error was raised, whatever was made of it since."""
    while error is not None and not isinstance(error, ReadError):
        if isinstance(error, OSError) and error.errno in _DISK:
            return True
        error = error.__context__
    return False


def ending(error: Exception) -> tuple[str, int] | None:
    """Return the line and the exit code of a command that an error ended; None for a fault of ours."""
    if isinstance(error, (InterruptedRunError, ResumableError)):
        return str(error), RESUMABLE
    if isinstance(error, BlindrecError):
        return str(error), RESUMABLE if disk_is_full(error) else BAD_INPUT
    return (f"{_words(error)}; {_FREE}", RESUMABLE) if disk_is_full(error) else None


def _words(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    return f"{error.filename or 'a file'} cannot be written ({error.strerror})"


def say(line: str) -> None:
    """Say on standard error, in one line, why a command ends."""
    if verbose():
        event("said", logging.WARNING, told=one_line(line))
        return
    with suppress(OSError):
        sys.stderr.write(f"blindrec: {one_line(line)}\n")
        sys.stderr.flush()


class _Command:
    """Whether this process is a command of ours, which signals end as Ctrl-C does, or somebody's own program."""

    running = False


def end_now(why: str, code: int) -> None:
    """Say what is kept, and end a command from any thread, whatever the others do; files are written whole, or not.

    A program of somebody's own is not ended.
    """
    line = next((line for told in reversed(_told) if (line := told())), None)
    say(f"{why}; {line or 'nothing is kept to go on from'}")
    if _Command.running:
        os._exit(RESUMABLE if line else code)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does; one that takes longer than `LONGEST` ends where it stands.

    A signal that is ignored, as SIGHUP under nohup, stays so. The second and further ones change nothing.
    """
    if threading.current_thread() is not threading.main_thread():  # where Python allows no handlers
        yield
        return
    before = {one: signal.getsignal(one) for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN}
    for one in before:
        signal.signal(one, _interrupt)
    _Command.running = True
    try:
        with _in_time():
            yield
    finally:
        _Command.running = False
        for one, handler in before.items():
            signal.signal(one, handler)


def _interrupt(*_: object) -> None:
    for one in SIGNALS:
        if signal.getsignal(one) is _interrupt:
            signal.signal(one, _is_ending)
    raise KeyboardInterrupt


def _is_ending(*_: object) -> None:
    """Do nothing: the command is ending already. What it starts does not inherit that, as it would SIG_IGN."""


@contextmanager
def _in_time() -> Iterator[None]:
    """Watch for signals from a thread: Python hands them on only where the main one comes back from compiled code."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    over = threading.Event()

    def watch() -> None:
        while numbers := os.read(reading, 64):
            if not set(numbers).isdisjoint(SIGNALS) and not over.wait(LONGEST):
                end_now("interrupted", INTERRUPTED)

    thread = threading.Thread(target=watch, daemon=True, name="signals")
    before = signal.set_wakeup_fd(writing)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        over.set()
        os.close(writing)
        thread.join()
        os.close(reading)


@contextmanager
def same_handlers() -> Iterator[None]:
    """Put handlers of signals back that a library replaces meanwhile; what it makes of a signal becomes Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {one: signal.getsignal(one) for one in SIGNALS}
    try:
        yield
    except SystemExit:  # Ray's answer to a signal while it starts; it also sets an alarm, after which it aborts
        signal.alarm(0)
        raise KeyboardInterrupt from None
    finally:
        for one, handler in before.items():
            if callable(handler):
                signal.signal(one, handler)


def interrupt_main() -> None:
    """Interrupt the main thread from another one, as Ctrl-C does."""
    number = signal.SIGTERM if _Command.running else signal.SIGINT
    ident = threading.main_thread().ident
    if ident is not None and callable(signal.getsignal(number)):
        signal.pthread_kill(ident, number)
