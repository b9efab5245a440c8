"""Functions at work in threads, which stop where nobody awaits their results any more."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")


class AbandonedError(Exception):
    """Nobody waits for the result of this call any more."""


_own = threading.local()


def stop_if_abandoned() -> None:
    """End a call of `InProcess.each` whose results nobody awaits, as after Ctrl-C; for the loops of long functions.

    Raises
    ------
    AbandonedError
        In such a call only.
    """
    stop: threading.Event | None = getattr(_own, "stop", None)
    if stop is not None and stop.is_set():
        raise AbandonedError


def work(
    function: Callable[[A], R],
    todo: queue.SimpleQueue[tuple[int, A]],
    done: queue.SimpleQueue[tuple[int, R | None, BaseException | None]],
    stop: threading.Event,
) -> None:
    """Call ``function`` on what is to do until nothing is left, or ``stop`` is set; an error counts as a result."""
    _own.stop = stop
    while not stop.is_set():
        try:
            place, argument = todo.get_nowait()
        except queue.Empty:
            return
        try:
            done.put((place, function(argument), None))
        except BaseException as error:  # raised again where results are awaited
            done.put((place, None, error))
