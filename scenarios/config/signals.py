"""Signals, full disks and losses: each ends a command with one exit code, and one line that says what is stored.

The code is 2 for what cannot be used, 3 where something is stored that can be gone on with, or after a full disk, and
130 for other interruptions.
"""

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from coordinator.protocol.errors import BlindrecError, LedgerError, LostError, ReadError, ResumableError
from scenarios.config.files import one_line
from scenarios.log import event, verbose

INTERRUPTED, BAD_INPUT, RESUMABLE = 130, 2, 3
SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # Which end a command as Ctrl-C does
LONGEST = 8.0  # Seconds that a command may take to end after one of them
NOTHING = "interrupted; what this run started has ended, nothing half-done was written"
_NO_RECORDS = "nothing is kept to go on from"
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}  # A disk that takes no more

Note = Callable[[], str | None]
"""Says what is stored and how to go on, at any moment and in any thread; None where that is nothing."""
_notes: list[Note] = []  # Of the commands and calls that are at work in this process; the innermost comes last
_command = threading.Event()  # Set in a command of ours, which signals end as Ctrl-C does; not in somebody's program


class InterruptedRunError(BlindrecError):
    """Ctrl-C or another signal ended a command; its folder holds the work so far."""


@contextmanager
def resumable(note: Note) -> Iterator[None]:
    """Let whatever ends the block early say what is stored."""
    _notes.append(note)
    try:
        yield
    except KeyboardInterrupt:
        if line := note():
            raise InterruptedRunError(f"interrupted; {line}") from None
        raise
    except (BlindrecError, OSError) as error:
        lost = isinstance(error, (LedgerError, LostError)) or disk_is_full(error)
        if lost and not isinstance(error, ResumableError) and (line := note()):
            raise ResumableError(f"{_text_of(error)}; {line}") from None
        raise
    finally:
        _notes.remove(note)


def disk_is_full(error: BaseException | None) -> bool:
    """Return whether a disk that takes no more is why an error was raised, whatever was made of it since."""
    while error is not None and not isinstance(error, ReadError):
        if isinstance(error, OSError) and error.errno in _DISK:
            return True
        error = error.__context__
    return False


def ending(error: Exception) -> tuple[str, int] | None:
    """Return the line and the exit code of a command that an error ended; None for a fault of ours."""
    if isinstance(error, BlindrecError):
        stored = isinstance(error, (InterruptedRunError, ResumableError)) or disk_is_full(error)
        return str(error), RESUMABLE if stored else BAD_INPUT
    full = f"{_text_of(error)}; {_NO_RECORDS}; free space, then run it again"
    return (full, RESUMABLE) if disk_is_full(error) else None


def _text_of(error: Exception) -> str:
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


def end_now(why: str, code: int) -> None:
    """Say what is stored, and end a command, but nobody else's program, from any thread at once."""
    line = next((line for note in reversed(_notes) if (line := note())), None)
    say(f"{why}; {line or _NO_RECORDS}")
    if _command.is_set():
        os._exit(RESUMABLE if line else code)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, after `LONGEST` wherever it stands."""
    # A signal that is ignored, as SIGHUP under nohup, stays so. The second and further ones change nothing.
    if threading.current_thread() is not threading.main_thread():  # where Python allows no handlers
        yield
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    _command.set()
    # A thread watches for signals, because Python hands them on only where the main one leaves compiled code.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    finished = threading.Event()

    def watch() -> None:
        while numbers := os.read(reading, 64):
            if not set(numbers).isdisjoint(SIGNALS) and not finished.wait(LONGEST):
                end_now("interrupted", INTERRUPTED)

    thread = threading.Thread(target=watch, daemon=True, name="signals")
    before = signal.set_wakeup_fd(writing)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        finished.set()
        os.close(writing)
        thread.join()
        os.close(reading)
        _command.clear()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, lambda *_: None)  # which what it starts does not inherit, as it would SIG_IGN
    raise KeyboardInterrupt


@contextmanager
def same_handlers() -> Iterator[None]:
    """Put handlers of signals back that a library replaces meanwhile; what it makes of a signal becomes Ctrl-C."""
    here = SIGNALS if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for number in here}
    try:
        yield
    except SystemExit:  # Ray's answer to a signal while it starts; it also sets an alarm, after which it aborts
        signal.alarm(0)
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)


def interrupt_main() -> None:
    """Interrupt the main thread from another one, as Ctrl-C does."""
    number = signal.SIGTERM if _command.is_set() else signal.SIGINT
    ident = threading.main_thread().ident
    if ident is not None and callable(signal.getsignal(number)):
        signal.pthread_kill(ident, number)
